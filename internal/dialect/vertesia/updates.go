package vertesia

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/parley-hq/parley/chat"
)

// listUpdates gives the messages of a run. Without limit it gives all after
// since; there is no cap. With limit it gives the first so many after since, or
// the last so many before before, and says whether there are more.
func (d *Dialect) listUpdates(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	sess, err := d.run(r, c)
	if err != nil {
		return err
	}
	at, _, err := since(r, "since")
	if err != nil {
		return err
	}
	before, backward, err := since(r, "before")
	if err != nil {
		return err
	}
	limit, err := limitOf(r, 0, maxPage)
	if err != nil {
		return err
	}
	if sess.once {
		if err := d.settle(r.Context(), c, sess.ID); err != nil {
			return err
		}
	}
	p := page{coding: codingOf(asJSON, sess.line), limit: limit, since: at}
	if backward {
		err = d.pageBack(r.Context(), c, sess, &p, before)
	} else {
		err = d.page(r.Context(), c, sess, &p)
	}
	if err != nil {
		return err
	}
	sendJSON(w, r, http.StatusOK, p.body())
	return nil
}

const maxPage = 100_000

// page collects messages.
type page struct {
	coding coding
	limit  int // 0 is none
	since  chat.At
	bytes  []byte // objects, each followed by a comma
	count  int
	more   bool
}

func (p *page) body() []byte {
	b := append(make([]byte, 0, len(p.bytes)+64), `{"messages":[`...)
	b = append(b, bytes.TrimSuffix(p.bytes, []byte(","))...)
	b = append(b, ']')
	if p.limit > 0 {
		b = strconv.AppendBool(append(b, `,"has_more":`...), p.more)
	}
	return append(b, '}')
}

// page reads forward, by the same way as a stream: what it holds and what a
// stream from its last message brings fit together without a seam.
func (d *Dialect) page(ctx context.Context, c chat.Caller, sess run, p *page) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := chat.Start{Cursor: &chat.Cursor{}, ByPosition: true}
	if p.since > 0 {
		from, err := d.find(ctx, c, &sess.Session, p.since)
		if err != nil {
			return err
		}
		start.Cursor = &from.cursor
		if from.last != nil {
			p.bytes = p.coding.appendMessages(p.bytes, from.last, p.since)
		}
	}
	if p.limit == 0 {
		for b, err := range d.opt.Sessions.Watch(ctx, c, sess.ID, start, p.coding) {
			if err != nil {
				return err
			}
			p.bytes = append(p.bytes, b.Bytes...)
			if b.Live {
				return nil
			}
		}
		return context.Cause(ctx)
	}
	p.count = bytes.Count(p.bytes, []byte(`,"ts":`))
	for b, err := range d.opt.Sessions.Watch(ctx, c, sess.ID, start, nil) {
		if err != nil {
			return err
		}
		for i := range b.Entries {
			if p.full(&b.Entries[i]) {
				return nil
			}
		}
		if b.Live {
			return nil
		}
	}
	return context.Cause(ctx)
}

// full adds an entry's messages; it reports that there is no room for them.
func (p *page) full(e *chat.Entry) bool {
	was := len(p.bytes)
	n := 0
	if e.Piece != nil {
		if p.bytes = p.coding.AppendPiece(p.bytes, e); len(p.bytes) > was {
			n = 1
		}
	} else if !quiet[e.Label.Type] {
		if ev, err := e.Fact.Event(); err == nil {
			n = len(p.coding.messages(&ev))
			p.bytes = p.coding.appendMessages(p.bytes, &ev, 0)
		}
	}
	if n > 0 && p.count > 0 && p.count+n > p.limit {
		p.bytes, p.more = p.bytes[:was], true
		return true
	}
	p.count += n
	return false
}

// pageBack reads the last messages before a position. Chunks of open blocks are
// not history and left out.
func (d *Dialect) pageBack(ctx context.Context, c chat.Caller, sess run, p *page, before chat.At) error {
	limit := p.limit
	if limit == 0 {
		limit, p.limit = 100, 100
	}
	last, err := d.lastBefore(ctx, c, &sess.Session, before-1)
	if err != nil || last == nil {
		return err
	}
	var groups [][]byte
	for seq := last.Seq + 1; seq > 1 && !p.more; {
		facts, _, err := d.opt.Sessions.Read(ctx, c, sess.ID, chat.Range{Before: seq, Limit: 256, Desc: true})
		if err != nil {
			return err
		}
		if len(facts) == 0 {
			break
		}
		for _, f := range facts {
			seq = f.Seq
			e, err := f.Event()
			if err != nil {
				return err
			}
			if e.At <= p.since {
				seq = 1
				break
			}
			var one []byte
			n := 0
			for _, m := range p.coding.messages(&e) {
				if at := e.At + chat.At(m.index); at < before && at > p.since {
					one = append(m.append(one, e.At, lineOf(p.coding, m)), ',')
					n++
				}
			}
			if n == 0 {
				continue
			}
			if p.count > 0 && p.count+n > limit {
				p.more = true
				break
			}
			groups, p.count = append(groups, one), p.count+n
		}
	}
	slices.Reverse(groups)
	p.bytes = slices.Concat(groups...)
	return nil
}

func lineOf(c coding, m message) string {
	if c.line != "" {
		return ""
	}
	return m.line
}

// limitOf reads a count from the query.
func limitOf(r *http.Request, missing, most int) (int, error) {
	s := r.URL.Query().Get("limit")
	if s == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		return 0, chat.Errorf(chat.Invalid, "limit=%q is not a number from 1 to %d", clip(s, 20), most)
	}
	return n, nil
}
