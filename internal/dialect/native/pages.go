package native

import (
	"bytes"
	"container/list"
	"net/http"
	"sync"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/wire"
)

// A log never changes, so neither do its events as compressed JSON. They are compressed in
// pages of pageEvents with fixed boundaries, kept, and joined into answers: reading the
// last 1000 events takes a tenth of the processor time of compressing them each time.
const (
	pageEvents = 64
	pageFrom   = 4 * pageEvents // the least limit of a request that is answered with pages
	pageMemory = 8 << 20        // compressed bytes that are kept; then those not used for longest are dropped
)

// pageKey names a page. The time of creation is in it in case an id is used again.
type pageKey struct {
	session chat.SessionID
	created chat.At
	number  chat.Seq // the page has the events after number*pageEvents
	desc    bool     // the newest event first
}

// pages keeps compressed pages. It may be used by several goroutines.
type pages struct {
	mu    sync.Mutex
	known map[pageKey]*list.Element // of *page
	used  list.List                 // the last used in front
	bytes int
}

type page struct {
	key   pageKey
	block wire.Block
}

// get returns a page and marks it as used.
func (p *pages) get(k pageKey) (wire.Block, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.known[k]
	if e == nil {
		return wire.Block{}, false
	}
	p.used.MoveToFront(e)
	return e.Value.(*page).block, true
}

// put keeps a page.
func (p *pages) put(k pageKey, b wire.Block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[k] != nil || len(b.Data) > pageMemory/8 {
		return
	}
	if p.known == nil {
		p.known = map[pageKey]*list.Element{}
	}
	p.known[k] = p.used.PushFront(&page{k, b})
	for p.bytes += len(b.Data); p.bytes > pageMemory; {
		p.drop(p.used.Back())
	}
}

// drop removes a page. The caller holds mu.
func (p *pages) drop(e *list.Element) {
	old := p.used.Remove(e).(*page)
	delete(p.known, old.key)
	p.bytes -= len(old.block.Data)
}

// Erased removes the pages of an erased session. It implements the function of
// session.Observer.
func (d *Dialect) Erased(id chat.SessionID) {
	p := &d.pages
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.used.Front(); e != nil; {
		next := e.Next()
		if e.Value.(*page).key.session == id {
			p.drop(e)
		}
		e = next
	}
}

// sendPages answers a read of many events with compressed pages. It reports false if the
// request is not of that kind; then nothing was sent.
func (d *Dialect) sendPages(w http.ResponseWriter, r *http.Request, c chat.Caller, rg chat.Range) (sent bool, err error) {
	if rg.Limit < pageFrom || len(rg.Types) > 0 || rg.Workstream != nil || wire.Negotiate(r.Header, wire.Gzip, wire.Zstd) != wire.Gzip {
		return false, nil
	}
	sess, err := d.opt.Sessions.Get(r.Context(), c, sessionID(r))
	if err != nil {
		return false, err
	}
	first, last := rg.After+1, sess.Last
	if rg.Before != 0 {
		last = min(last, rg.Before-1)
	}
	if rg.After >= last || int(last-rg.After) < pageFrom {
		return false, nil
	}
	more := int(last-rg.After) > rg.Limit
	if more && rg.Desc {
		first = last - chat.Seq(rg.Limit) + 1
	} else if more {
		last = first + chat.Seq(rg.Limit) - 1
	}
	j := pageJoin{d: d, r: r, caller: c, session: &sess, desc: rg.Desc, most: rg.MaxBytes}
	if err := j.events(first, last); err != nil {
		return false, err
	}
	if j.size > j.most {
		return false, nil // less than the limit is sent
	}
	if more {
		j.text = append(j.text, `],"more":true}`...)
	} else {
		j.text = append(j.text, `],"more":false}`...)
	}
	j.flush()
	edge.SendBlocks(w, r, http.StatusOK, j.blocks)
	return true, nil
}

// pageJoin joins pages, and the events beside them, into an answer.
type pageJoin struct {
	d       *Dialect
	r       *http.Request
	caller  chat.Caller
	session *chat.Session
	desc    bool
	blocks  []wire.Block
	text    []byte // what comes next and is not compressed yet
	size    int    // bytes of events
	most    int    // of them; when there are more, the answer is not used
	begun   bool   // there is an event
}

// events adds the events from first to last, newest first with desc.
func (j *pageJoin) events(first, last chat.Seq) error {
	j.text = append(j.text, `{"events":[`...)
	from, to := (first-1)/pageEvents, (last-1)/pageEvents
	for i := range to - from + 1 {
		if j.size > j.most {
			return nil
		}
		n := from + i
		if j.desc {
			n = to - i
		}
		begin, end := max(first, n*pageEvents+1), min(last, (n+1)*pageEvents)
		if err := j.page(n, begin, end); err != nil {
			return err
		}
	}
	return nil
}

// page adds the events of a page from begin to end.
func (j *pageJoin) page(number, begin, end chat.Seq) error {
	if j.begun {
		j.text = append(j.text, ',')
	}
	j.begun = true
	whole := end-begin+1 == pageEvents
	key := pageKey{j.session.ID, j.session.CreatedAt, number, j.desc}
	if whole {
		if b, ok := j.d.pages.get(key); ok {
			j.add(b)
			return nil
		}
	}
	text, err := j.read(nil, begin, end)
	if err != nil {
		return err
	}
	if whole {
		b := wire.CompressBlock(nil, text)
		b.Data = bytes.Clone(b.Data) // without spare capacity
		j.d.pages.put(key, b)
		if _, err := j.d.opt.Sessions.Get(j.r.Context(), j.caller, key.session); err != nil {
			j.d.Erased(key.session) // it may have been erased before the page was put
			return err
		}
		j.add(b)
		return nil
	}
	j.size += len(text)
	j.text = append(j.text, text...)
	return nil
}

// read appends stored events, with commas between them.
func (j *pageJoin) read(b []byte, begin, end chat.Seq) ([]byte, error) {
	rg := chat.Range{After: begin - 1, Before: end + 1, Desc: j.desc}
	for f, err := range j.d.opt.Sessions.Facts(j.r.Context(), j.caller, j.session.ID, rg) {
		if err != nil {
			return nil, err
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = append(b, f.JSON...)
	}
	return b, nil
}

// add adds a page.
func (j *pageJoin) add(b wire.Block) {
	j.flush()
	j.size += b.Size
	j.blocks = append(j.blocks, b)
}

// flush makes a block of the text.
func (j *pageJoin) flush() {
	if len(j.text) > 0 {
		j.blocks = append(j.blocks, wire.CompressBlock(nil, j.text))
		j.text = j.text[:0]
	}
}
