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
	"github.com/parley-hq/parley/internal/sleep"
	"github.com/parley-hq/parley/internal/sse"
)

// Frame is one element of a session's stream. Exactly one of Hello, Event and Preview is set.
type Frame struct {
	Session chat.SessionID
	Cursor  chat.Cursor // what the reader has after this frame; Watch can continue from it
	Hello   *Hello      // the stream begins; sent once, not again after a resume
	Event   *chat.Event
	Preview *chat.Preview
}

// Hello is the first frame of a stream.
type Hello struct {
	Session   chat.SessionID `json:"session_id"`
	Last      chat.Seq       `json:"last"` // the session's last event at that moment
	ServerNow chat.At        `json:"server_now"`
}

// WatchOptions sets where a stream begins. The zero value follows the session from now on, after the shown text of open
// blocks.
type WatchOptions struct {
	After string     // a cursor; "0" is the beginning of the session
	Link  func(Link) // called when the connection changes; must not block
}

// Link is the state of a stream's connection.
type Link struct {
	Up    bool
	Err   error         // why it is down
	Retry time.Duration // when it is tried again
}

// Watch follows a session. When the connection breaks, it resumes the stream from its cursor: events arrive in order
// without gaps, the pieces of a block without gaps or repeats. A block whose beginning the server does not have any more
// is left out until its event brings the whole text.
//
// It ends, with the reason as its last error, when ctx ends or when the server refuses to resume: the session was erased,
// the cursor is beyond the last event, or the caller may not read the session.
func (c *Client) Watch(ctx context.Context, id chat.SessionID, opt WatchOptions) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		t := &readState{id: id}
		if opt.After != "" {
			at, err := chat.ParseCursor(opt.After)
			if err != nil {
				yield(Frame{}, err)
				return
			}
			t.at, t.known = at, true
		}
		if opt.Link == nil {
			opt.Link = func(Link) {}
		}
		retries := reconnects{client: c}
		for {
			used := c.node.Load()
			progress, err := c.stream(ctx, t, opt, yield)
			if errors.Is(err, errLeft) {
				return
			}
			if ctx.Err() != nil {
				yield(Frame{}, context.Cause(ctx))
				return
			}
			d, again := retries.after(err, progress, used)
			if !again {
				yield(Frame{}, err)
				return
			}
			c.opt.Logger.DebugContext(ctx, "the stream broke and is resumed", "session", id, "cursor", t.at.String(), "pause", d, "err", err)
			opt.Link(Link{Err: err, Retry: d})
			if err := sleep.For(ctx, d); err != nil {
				yield(Frame{}, err)
				return
			}
		}
	}
}

// errLeft means that the consumer has stopped reading.
var errLeft = errors.New("the consumer left")

// errCut means that a stream ended without bye.
var errCut = chat.Errorf(chat.Unavailable, "the connection was cut").Because(ErrUnreachable)

// reconnects decides whether and when to connect again.
type reconnects struct {
	client   *Client
	failures int // in a row without progress
	internal int // of them, internal errors of the server
}

// after returns the pause before the next attempt, which may be to another node than the one that was used; again is false if
// the error is permanent.
func (f *reconnects) after(err error, progress bool, used int64) (d time.Duration, again bool) {
	if progress {
		f.failures, f.internal = 0, 0
	}
	f.failures++
	switch chat.CodeOf(err) {
	case chat.Unavailable, chat.SlowDown:
	case chat.Internal:
		// An internal error may be temporary; a permanent one, such as a damaged record, is returned.
		if f.internal++; f.internal > 4 {
			return 0, false
		}
	default:
		return 0, false
	}
	d = f.client.pause(err, f.failures, used)
	if progress {
		d = max(d, f.client.opt.Backoff.pause(1)) // connections that end soon do not follow one another at once
	}
	return d, true
}

// stream reads one connection until it ends. progress reports whether it brought anything but a hello.
func (c *Client) stream(ctx context.Context, t *readState, opt WatchOptions, yield func(Frame, error) bool) (progress bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v := url.Values{}
	if t.known {
		v.Set("after", t.at.String())
	}
	req, err := c.request(ctx, http.MethodGet, sessionPath(t.id, "/stream"), v, nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Cache-Control", "no-cache")
	// The same time limit holds for the header.
	head := time.AfterFunc(c.opt.IdleTimeout, func() { cancel(errCut) })
	res, err := c.send(req)
	head.Stop()
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if mediaType(res.Header) != "text/event-stream" {
		return false, chat.Errorf(chat.Invalid, "%s does not answer with a stream; is it a Parley server?", c.URL())
	}
	opt.Link(Link{Up: true})
	frames := sse.NewReader(newIdleReader(res.Body, c.opt.IdleTimeout, func() { cancel(errCut) }), maxFrame)
	for {
		raw, err := frames.Next()
		if err != nil {
			if errors.Is(err, sse.ErrTooLarge) {
				return progress, chat.Errorf(chat.TooLarge, "%s", err)
			}
			if ctx.Err() != nil {
				return progress, context.Cause(ctx)
			}
			return progress, errCut.Because(errors.Join(ErrUnreachable, err))
		}
		f, err := t.handle(raw)
		if err != nil {
			return progress, err
		}
		progress = progress || raw.Event != "hello"
		if f == nil {
			continue
		}
		if !yield(*f, nil) {
			return progress, errLeft
		}
	}
}

const (
	maxFrame = 4 << 20 // bytes of one frame of a stream; an event has at most 768 KiB
	maxMarks = 64      // open blocks in a cursor; the oldest are dropped
)

// readState is what a reader has of one session's stream. It is computed from the received frames alone, so that nothing is
// lost or repeated, whatever the server resumes with.
type readState struct {
	id        chat.SessionID
	at        chat.Cursor
	known     bool                  // at is set
	helloSent bool                  // the consumer has received the hello frame
	headless  map[chat.BlockID]bool // blocks whose beginning the server does not have any more
	lastGap   chat.BlockID          // the block whose gap caused the last reconnect
}

// handle applies one frame and returns what the consumer receives, nil for nothing.
func (t *readState) handle(f sse.Frame) (*Frame, error) {
	switch f.Event {
	case "hello":
		return t.hello(f.ID, f.Data)
	case "event":
		e, err := chat.ParseEvent(f.Data)
		if err != nil {
			return nil, err
		}
		return t.event(&e)
	case "preview":
		var p chat.Preview
		if err := json.Unmarshal(f.Data, &p); err != nil {
			return nil, chat.Errorf(chat.Internal, "the server sent a piece that cannot be read").Because(err)
		}
		return t.piece(&p)
	case "bye":
		return nil, bye(f.Data)
	}
	return nil, nil // ping, or a kind from a later version
}

func (t *readState) hello(id string, data []byte) (*Frame, error) {
	var h Hello
	if err := json.Unmarshal(data, &h); err != nil {
		return nil, chat.Errorf(chat.Internal, "the server's hello cannot be read").Because(err)
	}
	if !t.known {
		at, err := chat.ParseCursor(id)
		if err != nil {
			return nil, chat.Errorf(chat.Internal, "the server's hello has no cursor").Because(err)
		}
		t.at, t.known = at, true
	}
	if t.helloSent {
		return nil, nil
	}
	t.helloSent = true
	return &Frame{Session: t.id, Cursor: t.cursor(), Hello: &h}, nil
}

func (t *readState) event(e *chat.Event) (*Frame, error) {
	if e.Seq <= t.at.Seq {
		return nil, nil
	}
	if e.Seq != t.at.Seq+1 {
		return nil, chat.Errorf(chat.Internal, "the stream jumped from event %d to %d", t.at.Seq, e.Seq)
	}
	block := chat.FinishedBlock(e.Body)
	t.at.PassEvent(e.Seq, block)
	delete(t.headless, block)
	t.lastGap = ""
	return &Frame{Session: t.id, Cursor: t.cursor(), Event: e}, nil
}

func (t *readState) piece(p *chat.Preview) (*Frame, error) {
	p.End = p.Offset + len(p.Text)
	have := t.at.Bytes(p.Block)
	if t.headless[p.Block] || p.Offset > have {
		if !t.headless[p.Block] && t.lastGap != p.Block {
			// Reconnect once for the missing bytes.
			t.lastGap = p.Block
			return nil, chat.Errorf(chat.Unavailable, "the stream left out bytes %d to %d of block %s", have, p.Offset, p.Block)
		}
		if t.headless == nil {
			t.headless = map[chat.BlockID]bool{}
		}
		t.headless[p.Block] = true
		return nil, nil
	}
	if p.Text, p.Offset = p.TextAfter(have), have; p.Text == "" {
		return nil, nil
	}
	t.at.PassPiece(p.Block, p.End)
	if n := len(t.at.Blocks) - maxMarks; n > 0 {
		t.at.Blocks = slices.Delete(t.at.Blocks, 0, n)
	}
	return &Frame{Session: t.id, Cursor: t.cursor(), Preview: p}, nil
}

// cursor is a copy that the consumer may keep.
func (t *readState) cursor() chat.Cursor {
	c := t.at
	c.Blocks = append([]chat.Mark(nil), c.Blocks...)
	return c
}

// bye reads the last frame of a stream: an error whose code determines whether to connect again.
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
	return ended(e, in.Retry)
}

// ended returns the error of a connection that the server ended, with a code that determines whether to connect again.
func ended(e *chat.Error, retry bool) error {
	if retry && !temporary(e) {
		return chat.Errorf(chat.Unavailable, "%s", e.Msg)
	}
	if !retry && (temporary(e) || e.Code == chat.Internal) {
		return chat.Errorf(chat.Gone, "%s", e.Msg)
	}
	return e
}
