package x1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
)

// sessions is the door to the conversations.
type sessions interface {
	Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error)
	Resolve(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.SessionID, error)
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	List(ctx context.Context, c chat.Caller, f chat.Filter) (chat.SessionPage, error)
	Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Preview(ctx context.Context, c chat.Caller, id chat.SessionID, pieces []chat.Preview) error
	Answer(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error)
	Stop(ctx context.Context, c chat.Caller, id chat.SessionID, line, reason string) (chat.StopResult, error)
	Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
	All(ctx context.Context) iter.Seq2[chat.Session, error]
}

// Options of the dialect.
type Options struct {
	Sessions sessions
	Caller   func(*http.Request) (chat.Caller, error)                     // who asks by HTTP
	Token    func(ctx context.Context, token string) (chat.Caller, error) // whom a token stands for; nil means that nobody needs one
	Check    func(chat.Caller) error                                      // why a caller's credential is not good any more; nil means that it always is
	Refused  func(ctx context.Context, err error)                         // told of a login with a wrong credential; may be nil
	Issued   func(c chat.Caller, details map[string]any)                  // told of a credential that was given out; may be nil
	Main     chat.Caller                                                  // who those are that come without a credential; needs the scope admin
	Allow    func(c chat.Caller, requests int) error                      // counts messages of those with a credential; nil means no limit
	Signed   func(nats.Header) (name string, ok bool)                     // the name that NATS itself gives to a publisher
	Listened func(subject string) bool                                    // whether anybody follows a subject; nil means that it is not known
	Cut      func(fits func(user string) bool) error                      // ends connections of users that fit; nil means that nobody can
	Dir      string                                                       // where the archive's watermark and the key of credentials are kept

	ErasedSince func(ctx context.Context, at chat.At) (bool, error) // whether a session was erased since; nil means that it is not known

	External bool          // NATS runs elsewhere: nothing maps our subjects for us
	Keep     time.Duration // how long the archive keeps events; 0 means 24 h
	MaxBytes int64         // and how many bytes; 0 means 2 GiB
	Replicas int           // copies of the archive; 0 means 1

	Summarise Summariser    // keeps the summaries of sessions; nil means nobody does
	Summary   SummaryPolicy // when

	Listening func() // told each time that Run listens; may be nil
	Now       func() time.Time
	Logger    *slog.Logger
}

// Dialect speaks x1 on NATS.
type Dialect struct {
	opt     Options
	log     *slog.Logger
	keys    *keyring
	project *projector
	desk    *desk
	attend  *attendance
	summary *summaries

	mu   sync.Mutex
	urls [2]string // where clients connect: plain and by WebSocket
}

// New returns the dialect; Run lets it speak.
func New(opt Options) (*Dialect, error) {
	opt.Keep = cmp.Or(opt.Keep, 24*time.Hour)
	opt.MaxBytes = cmp.Or(opt.MaxBytes, 2<<30)
	opt.Replicas = cmp.Or(opt.Replicas, 1)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Allow == nil {
		opt.Allow = func(chat.Caller, int) error { return nil }
	}
	if opt.Signed == nil {
		opt.Signed = func(nats.Header) (string, bool) { return "", false }
	}
	if opt.Check == nil {
		opt.Check = func(chat.Caller) error { return nil }
	}
	if opt.Refused == nil {
		opt.Refused = func(context.Context, error) {}
	}
	if opt.Issued == nil {
		opt.Issued = func(chat.Caller, map[string]any) {}
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dialect{opt: opt, log: opt.Logger.With("dialect", "x1")}
	var err error
	if d.keys, err = openKeyring(opt.Dir, opt.Now, d.log); err != nil {
		return nil, err
	}
	d.attend = newAttendance(d)
	d.desk = newDesk(d)
	d.summary = newSummaries(d)
	if d.project, err = newProjector(d); err != nil {
		return nil, err
	}
	return d, nil
}

// Reachable tells the dialect where clients find NATS; it passes it on with
// credentials.
func (d *Dialect) Reachable(url, websocket string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.urls = [2]string{url, websocket}
}

// Published tells the dialect what was stored or is being written, in order per
// session. It does not block, and may be called before Run.
func (d *Dialect) Published(id chat.SessionID, entries []chat.Entry) {
	if id.System() {
		return
	}
	d.project.take(id, entries)
	d.summary.note(id, entries)
}

// Imported tells the dialect of a session that came as a whole: it goes into the
// archive from its beginning.
func (d *Dialect) Imported(s chat.Session) {
	if !s.ID.System() {
		d.project.imported(s.ID, s.UpdatedAt)
	}
}

// Erased tells the dialect that a session is no more: the archive forgets it.
func (d *Dialect) Erased(id chat.SessionID) {
	if id.System() {
		return // it was never published
	}
	d.attend.forget(id)
	d.summary.forget(id)
	d.project.erase(id)
}

// Forgotten waits until the archive has nothing more of a session that was
// erased, or until ctx ends, and reports whether it came to that.
func (d *Dialect) Forgotten(ctx context.Context, id chat.SessionID) bool {
	return d.project.forgotten(ctx, id)
}

// Run speaks on the connection until ctx ends; then it publishes what is stored
// and returns. It may be called again with another connection.
func (d *Dialect) Run(ctx context.Context, conn *nats.Conn) error {
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	stream, err := d.openArchive(ctx, js)
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	d.project.admit(true) // before anything can come in
	defer d.project.admit(false)
	if err := d.desk.open(work, conn, &wg, ctx.Done()); err != nil {
		stop()
		return err
	}
	if d.opt.Listening != nil {
		d.opt.Listening()
	}
	wg.Go(func() { d.summary.run(ctx) })
	// What comes in is stored first, then what is stored goes out.
	err = d.project.run(ctx, conn, js, stream, d.desk.close)
	stop()
	return err
}

// openArchive makes the stream, or the one that is there fit. An external NATS
// may take a while to come.
func (d *Dialect) openArchive(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	want := jetstream.StreamConfig{
		Name: ArchiveStream, Description: "Committed events of sessions; a copy of what the server keeps",
		Subjects: []string{"x1.session.*.archive"}, Storage: jetstream.FileStorage, Replicas: d.opt.Replicas,
		MaxAge: d.opt.Keep, MaxBytes: d.opt.MaxBytes, Discard: jetstream.DiscardOld, AllowDirect: true,
		Duplicates: time.Second, // the numbers are the log's own; no window is needed
	}
	if !d.opt.External {
		// It may be behind the disk: what a kill takes from it is in the log,
		// and the next start puts it back (see watermark).
		want.PersistMode = jetstream.AsyncPersistMode
	}
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		stream, err := js.CreateOrUpdateStream(try, want)
		cancel()
		if err == nil || ctx.Err() != nil {
			return stream, err
		}
		if api := (*jetstream.APIError)(nil); errors.As(err, &api) && !d.opt.External {
			return nil, fmt.Errorf("the archive of x1 cannot be opened: %w", err)
		}
		if conn := js.Conn(); !conn.IsConnected() {
			d.log.WarnContext(ctx, "NATS cannot be reached; the rest works without it, and this is tried again. Is its address right, and does it run?", "address", conn.Servers())
		} else {
			d.log.WarnContext(ctx, "the archive of x1 cannot be opened yet; trying again", "err", err)
		}
		if !pause(ctx, wait) {
			return nil, ctx.Err()
		}
	}
}

// pause waits, and is false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pages reads a session's stored events after a sequence.
func (d *Dialect) pages(ctx context.Context, id chat.SessionID, after chat.Seq) iter.Seq2[[]chat.Fact, error] {
	return func(yield func([]chat.Fact, error) bool) {
		for {
			facts, more, err := d.opt.Sessions.Read(ctx, chat.Trusted, id, chat.Range{After: after, Limit: 1000, MaxBytes: 256 << 10})
			if err != nil {
				yield(nil, err)
				return
			}
			if len(facts) > 0 && !yield(facts, nil) || !more || len(facts) == 0 {
				return
			}
			after = facts[len(facts)-1].Seq
		}
	}
}
