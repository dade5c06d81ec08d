package journal

import (
	"github.com/parley-hq/parley/chat"
)

func (c *CommitChange) lock(l *lockSet) {
	l.session(c.Session)
	if c.After == 0 {
		l.number(c.Number)
	}
}

func (c *CommitChange) stage(s *staging) error {
	err := checkCommit(c.Commit)
	if err != nil {
		return err
	}
	var p *staged
	if c.After == 0 {
		h := &head{number: c.Number, full: true}
		p, err = &staged{cached: h, next: *h}, s.checkFree(c.Session, c.Number)
	} else {
		p, err = s.find(c.Session)
	}
	if err == nil {
		err = s.j.checkFollows(c.Commit, &p.next)
	}
	if err != nil {
		return err
	}
	next, err := s.j.fillBatch(s.r, s.b, &p.next, c.Commit)
	if err != nil {
		return err
	}
	more, err := putFileNames(s.r, s.b, c.Number, c.Files)
	if err != nil {
		return err
	}
	s.count(next.lists, next.last.bytes-p.next.last.bytes+more)
	p.next.last, p.next.busy, p.next.lists = next.last, next.busy, next.lists
	s.sessions[c.Session] = p
	return nil
}

func (c *AliasChange) lock(l *lockSet) { l.alias = true }

func (c *AliasChange) stage(s *staging) error {
	if err := c.Session.Validate(); err != nil {
		return err
	}
	return putAlias(s.r, s.b, c)
}

func (c *EraseChange) lock(l *lockSet) {
	l.session(c.Receipt.Session)
	l.alias = true // no alias may be made for it meanwhile
}

func (c *EraseChange) stage(s *staging) error {
	id := c.Receipt.Session
	p, err := s.find(id)
	if p == nil || err != nil && chat.CodeOf(err) != chat.Internal {
		return err
	}
	if p.next.number != c.Number {
		return chat.Errorf(chat.Invalid, "session %s has another number", id)
	}
	bytes, err := putErasure(s.r, s.b, &p.next, &c.Erasure)
	if err != nil {
		return err
	}
	s.count(p.next.lists, -bytes)
	s.sessions[id], p.erased = p, true
	return nil
}

func (c *FilesChange) lock(l *lockSet) { l.session(c.Session) }

func (c *FilesChange) stage(s *staging) error {
	p, err := s.find(c.Session)
	if err != nil {
		return err
	}
	if c.IfAbsent {
		if err := checkAbsent(s.r, p.next.number, c.Files); err != nil {
			return err
		}
	}
	more, err := putFileNames(s.r, s.b, p.next.number, c.Files)
	if err == nil {
		s.count(p.next.lists, more)
	}
	return err
}

func (c *ImportChange) lock(l *lockSet) {
	l.session(c.Session)
	l.number(c.Number)
}

func (c *ImportChange) stage(s *staging) error {
	if c.Step == ImportDrop {
		return s.dropImport(c.Number)
	}
	if err := checkEvents(c.Commit); err != nil {
		return err
	}
	if c.Step == ImportEnd && c.Record == nil {
		return notAChange("the last part of an import has no record")
	}
	h := &head{number: c.Number, full: true}
	if c.After == 0 {
		if err := s.checkFree(c.Session, c.Number); err != nil {
			return err
		}
	} else {
		switch _, err := s.find(c.Session); {
		case err == nil:
			return chat.Errorf(chat.Conflict, "session %s was created while it was imported", c.Session)
		case chat.CodeOf(err) != chat.NotFound:
			return err
		}
		v, err := getFrom(s.r, numberKey(nil, kImporting, c.Number))
		if err != nil {
			return err
		}
		end, ok := decodeLogEnd(v)
		if !ok {
			return chat.Errorf(chat.Conflict, "no import of session %s has begun", c.Session)
		}
		h.last = end
	}
	if err := s.j.checkFollows(c.Commit, h); err != nil {
		return err
	}
	next, err := putImport(s.r, s.b, h, c, true)
	if err != nil {
		return err
	}
	if c.Step == ImportEnd {
		more, err := putFileNames(s.r, s.b, c.Number, c.Files)
		if err != nil {
			return err
		}
		s.count(next.lists, next.last.bytes+more)
		h.last = logEnd{} // nothing is readable before the batch is stored
		next.number, next.full = c.Number, true
		s.sessions[c.Session] = &staged{cached: h, next: next}
	}
	return nil
}

// dropImport removes what an import has stored.
func (s *staging) dropImport(n chat.Number) error {
	v, err := getFrom(s.r, numberKey(nil, kImporting, n))
	if v == nil || err != nil {
		return err // it has ended, or was dropped before
	}
	return removeImport(s.r, s.b, n)
}
