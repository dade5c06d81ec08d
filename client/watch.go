package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Frame is one step of a session's stream. Exactly one of Hello, Event and
// Preview is there.
type Frame struct {
	Session chat.SessionID
	Cursor  chat.Cursor // what the reader has after this frame; Watch can begin there
	Hello   *Hello      // the stream begins; said once, not again after a resume
	Event   *chat.Event
	Preview *chat.Preview
}

// Hello is the first frame of a stream.
type Hello struct {
	Session   chat.SessionID `json:"session_id"`
	Last      chat.Seq       `json:"last"` // the session's last event at that moment
	ServerNow chat.At        `json:"server_now"`
}

// WatchOptions says where a stream begins. The zero value follows the session
// from now on, preceded by what there is of blocks that are being written.
type WatchOptions struct {
	After string     // a cursor; "0" is the beginning of the session
	Link  func(Link) // told of changes of the connection; must not block
}

// Link is the state of a stream's connection.
type Link struct {
	Up    bool
	Err   error         // why it is down
	Retry time.Duration // when it is tried again
}

// Watch follows a session. It takes the stream up again after every cut, from
// where it was: events come in order without holes, the pieces of a block
// without gaps or repeats. A block whose beginning is not to be had is left out
// until its event brings the whole.
//
// It ends, with the reason as its last error, when ctx does or when the server
// says that coming back is of no use: the session was erased, the cursor is from
// another life of the log, or the caller may not read it.
func (c *Client) Watch(ctx context.Context, id chat.SessionID, opt WatchOptions) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		t := &track{id: id}
		if opt.After != "" {
			at, err := chat.ParseCursor(opt.After)
			if err != nil {
				yield(Frame{}, err)
				return
			}
			t.at, t.placed = at, true
		}
		if opt.Link == nil {
			opt.Link = func(Link) {}
		}
		faults := faults{backoff: c.opt.Backoff}
		for {
			progress, err := c.stream(ctx, t, opt, yield)
			if errors.Is(err, errLeft) {
				return
			}
			if ctx.Err() != nil {
				yield(Frame{}, context.Cause(ctx))
				return
			}
			d, again := faults.after(err, progress)
			if !again {
				yield(Frame{}, err)
				return
			}
			c.opt.Logger.DebugContext(ctx, "stream cut, coming back", "session", id, "cursor", t.at.String(), "pause", d, "err", err)
			opt.Link(Link{Err: err, Retry: d})
			if err := wait(ctx, d); err != nil {
				yield(Frame{}, err)
				return
			}
		}
	}
}

// errLeft says that the consumer has seen enough.
var errLeft = errors.New("the consumer left")

// errCut says that a stream ended without a word.
var errCut = chat.Errorf(chat.Unavailable, "the connection was cut").Because(ErrUnreachable)

// faults decides whether and when to come back.
type faults struct {
	backoff Backoff
	row     int // in a row without progress
	inner   int // of them, faults of the server
}

// after returns the pause before the next attempt; again is false when there
// is no use in one.
func (f *faults) after(err error, progress bool) (d time.Duration, again bool) {
	if progress {
		f.row, f.inner = 0, 0
	}
	f.row++
	switch chat.CodeOf(err) {
	case chat.Unavailable, chat.SlowDown:
	case chat.Internal:
		// A fault may pass; one that stays, such as a damaged record, is told.
		if f.inner++; f.inner > 4 {
			return 0, false
		}
	default:
		return 0, false
	}
	return max(f.backoff.pause(f.row), later(err)), true
}

// stream reads one connection to its end. progress says whether it brought
// anything new or stayed up for a while.
func (c *Client) stream(ctx context.Context, t *track, opt WatchOptions, yield func(Frame, error) bool) (progress bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v := url.Values{}
	if t.placed {
		v.Set("after", t.at.String())
	}
	req, err := c.request(ctx, http.MethodGet, sessionPath(t.id, "/stream"), v, nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Cache-Control", "no-cache")
	// The same patience holds for the answer's head.
	head := time.AfterFunc(c.opt.Silence, func() { cancel(errCut) })
	res, err := c.send(req)
	head.Stop()
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if mediaType(res.Header) != "text/event-stream" {
		return false, chat.Errorf(chat.Invalid, "%s does not answer with a stream; is it a Parley server?", c.opt.URL)
	}
	opt.Link(Link{Up: true})
	frames := newSSEReader(watch(res.Body, c.opt.Silence, func() { cancel(errCut) }))
	for {
		raw, err := frames.next()
		if err != nil {
			if errors.Is(err, errFrameTooLarge) {
				return progress, chat.Errorf(chat.TooLarge, "%s", err)
			}
			if ctx.Err() != nil {
				return progress, context.Cause(ctx)
			}
			return progress, errCut.Because(errors.Join(ErrUnreachable, err))
		}
		f, err := t.take(raw.event, raw.id, raw.data)
		if err != nil {
			return progress, err
		}
		progress = progress || raw.event != "hello"
		if f == nil {
			continue
		}
		if !yield(*f, nil) {
			return progress, errLeft
		}
	}
}

// maxMarks bounds the open blocks in a cursor. A session has few; one that ended
// without an event is dropped when newer ones push it out.
const maxMarks = 64

// track keeps a reader's place in one session's stream. It counts for itself
// what it has, so that no word of the server makes it lose or double anything.
type track struct {
	id     chat.SessionID
	at     chat.Cursor
	placed bool                  // at is known
	hailed bool                  // the consumer has had its hello
	lame   map[chat.BlockID]bool // blocks whose beginning is not to be had
	gapped chat.BlockID          // the block that made us come back last time
}

// take reads one frame, moves the place, and returns what the consumer is to
// see, nil for nothing.
func (t *track) take(kind, id string, data []byte) (*Frame, error) {
	switch kind {
	case "hello":
		return t.hello(id, data)
	case "event":
		e, err := chat.ParseEvent(data)
		if err != nil {
			return nil, err
		}
		return t.event(&e)
	case "preview":
		var p chat.Preview
		if err := json.Unmarshal(data, &p); err != nil {
			return nil, chat.Errorf(chat.Internal, "the server sent a piece that cannot be read").Because(err)
		}
		return t.piece(&p)
	case "bye":
		return nil, bye(data)
	}
	return nil, nil // ping, or a kind from a later version
}

func (t *track) hello(id string, data []byte) (*Frame, error) {
	var h Hello
	if err := json.Unmarshal(data, &h); err != nil {
		return nil, chat.Errorf(chat.Internal, "the server's greeting cannot be read").Because(err)
	}
	if !t.placed {
		at, err := chat.ParseCursor(id)
		if err != nil {
			return nil, chat.Errorf(chat.Internal, "the server's greeting has no cursor").Because(err)
		}
		t.at, t.placed = at, true
	}
	if t.hailed {
		return nil, nil
	}
	t.hailed = true
	return &Frame{Session: t.id, Cursor: t.cursor(), Hello: &h}, nil
}

func (t *track) event(e *chat.Event) (*Frame, error) {
	if e.Seq <= t.at.Seq {
		return nil, nil
	}
	if e.Seq != t.at.Seq+1 {
		return nil, chat.Errorf(chat.Internal, "the stream jumped from event %d to %d", t.at.Seq, e.Seq)
	}
	block := chat.FinishedBlock(e.Body)
	t.at.PassEvent(e.Seq, block)
	delete(t.lame, block)
	t.gapped = ""
	return &Frame{Session: t.id, Cursor: t.cursor(), Event: e}, nil
}

func (t *track) piece(p *chat.Preview) (*Frame, error) {
	p.End = p.Offset + len(p.Text)
	have := t.at.Bytes(p.Block)
	if t.lame[p.Block] || p.Offset > have {
		if !t.lame[p.Block] && t.gapped != p.Block {
			// Ask once for what is missing.
			t.gapped = p.Block
			return nil, chat.Errorf(chat.Unavailable, "the stream left out bytes %d to %d of block %s", have, p.Offset, p.Block)
		}
		if t.lame == nil {
			t.lame = map[chat.BlockID]bool{}
		}
		t.lame[p.Block] = true
		return nil, nil
	}
	if p.End <= have {
		return nil, nil
	}
	p.Text, p.Offset = p.Text[have-p.Offset:], have
	t.at.PassPiece(p.Block, p.End)
	if n := len(t.at.Blocks) - maxMarks; n > 0 {
		t.at.Blocks = slices.Delete(t.at.Blocks, 0, n)
	}
	return &Frame{Session: t.id, Cursor: t.cursor(), Preview: p}, nil
}

// cursor is a copy that the consumer may keep.
func (t *track) cursor() chat.Cursor {
	c := t.at
	c.Blocks = append([]chat.Mark(nil), c.Blocks...)
	return c
}

// bye reads the end of a stream: an error that says whether to come back.
func bye(data []byte) error {
	var in struct {
		Error *wireError `json:"error"`
		Retry bool       `json:"retry"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return errCut
	}
	e := errCut
	if in.Error != nil && in.Error.Code != "" {
		e = in.Error.err()
	}
	return farewell(e, in.Retry)
}

// farewell returns the error of a connection that the server ended, with a code
// that says whether to come back.
func farewell(e *chat.Error, retry bool) error {
	if retry && !passing(e) {
		return chat.Errorf(chat.Unavailable, "%s", e.Msg)
	}
	if !retry && (passing(e) || e.Code == chat.Internal) {
		return chat.Errorf(chat.Gone, "%s", e.Msg)
	}
	return e
}
