// Package dialecttest has a client for each dialect, for tests. A client holds conversations in one session, as the clients of its
// protocol do: it knows several servers, goes on with the next one when a connection breaks or a server says that it cannot
// answer now, and resumes in the way of its protocol. Everything else that a server does ends a call with an error.
package dialecttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/sleep"
	"github.com/parley-hq/parley/internal/sse"
)

// ErrUnseen is the cause of a context that ends Join or Rest of a client that may not be shown the turn at all: NeMo shows no turn of another
// dialect that began and ended while the client was not connected.
var ErrUnseen = errors.New("the turn has ended, and the client was shown nothing of it")

// Dialects are the names of all dialects.
var Dialects = []string{"native", "nemo", "vertesia", "letta", "aisdk", "agui", "x1"}

// End is how a client saw a turn end.
type End string

// The ends. A turn that asks is not over: it waits for an answer.
const (
	Done    End = "done"
	Stopped End = "stopped"
	Asks    End = "asks"
)

// Seen is what a client was shown of a turn.
type Seen struct {
	End    End      // "" when the client does not follow this part of a turn
	Texts  []string // the text; each connection of NeMo has its own, because it may begin with text that came before
	Prompt Prompt   // the question, if it asks
	Late   bool     // the client was told that its answer came after another one, see TellsLate
	Path   string   // of NeMo: what came on each connection, for errors

	Repeated int // of NeMo: bytes of turns that were followed before
}

// TellsLate reports whether a dialect tells a client that its answer came after another one with the same content. AG-UI tells it of
// another content only. The AI SDK shows every answer with the actor that gave it, so a page cannot tell its own from another one of
// the same person.
func TellsLate(dialect string) bool { return dialect != "agui" && dialect != "aisdk" }

// Prompt is a question as a client names it in its answer.
type Prompt struct {
	Request, Call string
	Approval      bool // whether a tool may be called; the answer says yes
}

// Client is a client of one dialect in one session. One goroutine uses it at a time; another one may call Stop.
type Client interface {
	// Say sends a message and follows its turn until it ends or asks. The key makes a repeated message the same one.
	Say(ctx context.Context, key, text string) (Seen, error)
	// Join follows a turn that another client has begun, until it ends or asks.
	Join(ctx context.Context, turn string) (Seen, error)
	// Answer answers a question, or approves, and follows the rest of the turn.
	Answer(ctx context.Context, p Prompt, key, text string) (Seen, error)
	// Rest follows the rest of a turn after another client has answered, if the protocol shows it without a new request.
	Rest(ctx context.Context) (Seen, error)
	// Stop stops the running turn. The key is that of the message that replaces the turn, where the protocol has nothing else.
	Stop(ctx context.Context, key string) error
	Close()
}

// Options describe what a client connects to.
type Options struct {
	URLs    []string // of the servers; it begins with the first one
	NATS    []string // their NATS addresses
	Session string
	Idle    time.Duration // a connection on which nothing comes for so long counts as broken; 0 means never

	Progress func() // called when something was sent or has come
	Resumed  func() // called when the client goes on with the next server

	Note func(format string, args ...any) // called with what explains a failure: connections that break, requests that are sent again
}

// New returns a client of a dialect.
func New(dialect string, opt Options) (Client, error) {
	if opt.Progress == nil {
		opt.Progress = func() {}
	}
	if opt.Resumed == nil {
		opt.Resumed = func() {}
	}
	if opt.Note == nil {
		opt.Note = func(string, ...any) {}
	}
	b := base{opt: opt, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	switch dialect {
	case "native":
		return newNative(opt)
	case "nemo":
		return &nemo{base: b, stop: make(chan string, 1), asked: map[string]bool{}}, nil
	case "vertesia":
		return &vertesia{base: b}, nil
	case "letta":
		return &letta{base: b}, nil
	case "aisdk":
		return &aisdk{base: b}, nil
	case "agui":
		return &agui{base: b}, nil
	case "x1":
		return newX1(opt)
	}
	return nil, fmt.Errorf("unknown dialect %q", dialect)
}

// base is what the clients on HTTP have in common.
type base struct {
	opt  Options
	http *http.Client
	node int // of opt.URLs
}

// Close ends idle connections.
func (b *base) Close() { b.http.CloseIdleConnections() }

// Rest is that of the dialects whose clients need a new request for it.
func (b *base) Rest(context.Context) (Seen, error) { return Seen{}, nil }

// broken is an error after which a client tries again: a connection that broke, or a server that cannot answer now.
type broken struct{ error }

// Refused is a response of a server that is none of success.
type Refused struct {
	Status int
	Body   string
}

func (r *Refused) Error() string { return fmt.Sprintf("status %d: %s", r.Status, Clip(r.Body)) }

// Clip shortens a text for messages.
func Clip(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}

// Difference shows where two texts begin to differ.
func Difference(got, want string) string {
	n := 0
	for n < len(got) && n < len(want) && got[n] == want[n] {
		n++
	}
	from := max(0, n-20)
	end := func(s string) string { return s[from:min(len(s), from+80)] }
	return fmt.Sprintf("after %d bytes of %d %q instead of %q", n, len(got), end(got), end(want))
}

// pauseBetween is how long a client waits before it tries again.
const pauseBetween = 50 * time.Millisecond

// again calls try, with the address of a server, until it returns nil or an error that is final.
func (b *base) again(ctx context.Context, try func(url string) error) error {
	for {
		url := b.opt.URLs[b.node%len(b.opt.URLs)]
		err := try(url)
		var e broken
		if !errors.As(err, &e) {
			return err
		}
		b.opt.Note("%s: %v", url, err)
		if sleep.For(ctx, pauseBetween) != nil {
			return fmt.Errorf("%w; the last was: %w", context.Cause(ctx), err)
		}
		b.node++
		b.opt.Resumed()
	}
}

// request is a request of a client.
type request struct {
	method, path, body string
	last               string // Last-Event-ID
}

// open sends a request and returns the response, whose status is one of success.
func (b *base) open(ctx context.Context, url string, q request) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, q.method, url+q.path, strings.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if q.last != "" {
		r.Header.Set("Last-Event-ID", q.last)
	}
	res, err := b.http.Do(r)
	if err != nil {
		return nil, broken{err}
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, broken{err}
	}
	if err = (&Refused{res.StatusCode, string(body)}); res.StatusCode == http.StatusServiceUnavailable {
		err = broken{err}
	}
	return nil, err
}

// patience is a context that ends when nothing comes for too long.
func (b *base) patience(ctx context.Context) (limited context.Context, came, stop func()) {
	if b.opt.Idle == 0 {
		return ctx, b.opt.Progress, func() {}
	}
	limited, cancel := context.WithCancelCause(ctx)
	t := time.AfterFunc(b.opt.Idle, func() { cancel(fmt.Errorf("nothing came for %s", b.opt.Idle)) })
	came = func() {
		b.opt.Progress()
		t.Reset(b.opt.Idle)
	}
	return limited, came, func() { t.Stop(); cancel(nil) }
}

// call sends a request whose response is not a stream, at one server after the other, until one answers.
func (b *base) call(ctx context.Context, method, path, body string, out any) error {
	return b.again(ctx, func(url string) error {
		limited, _, stop := b.patience(ctx)
		defer stop()
		res, err := b.open(limited, url, request{method: method, path: path, body: body})
		if err != nil {
			return err
		}
		defer res.Body.Close()
		got, err := io.ReadAll(res.Body)
		if err != nil {
			return broken{err}
		}
		if out == nil {
			return nil
		}
		return json.Unmarshal(got, out)
	})
}

// stream sends a request and calls head with the response and take with each frame of its stream, until take returns true or the
// stream ends, which is an error that again repeats.
func (b *base) stream(ctx context.Context, url string, q request, head func(*http.Response) error, take func(sse.Frame) (bool, error)) error {
	limited, came, stop := b.patience(ctx)
	defer stop()
	res, err := b.open(limited, url, q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if head != nil {
		if err := head(res); err != nil {
			return err
		}
	}
	frames := sse.NewReader(res.Body, 1<<24)
	for {
		f, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return errEnded
		} else if err != nil {
			return broken{err}
		}
		came()
		if done, err := take(f); done || err != nil {
			return err
		}
	}
}

// errEnded is the proper end of a stream.
var errEnded = errors.New("the stream ended before its last frame")

// Quote encodes a text as JSON.
func Quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a text can always be encoded
	}
	return string(b)
}
