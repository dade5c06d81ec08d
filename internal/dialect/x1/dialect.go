package x1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/sleep"
)

// sessions is the part of session.Sessions that the dialect uses.
type sessions interface {
	Create(ctx context.Context, c chat.Caller, n chat.NewSession) (chat.Session, bool, error)
	Resolve(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.SessionID, error)
	Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error)
	ListAll(ctx context.Context, c chat.Caller, f core.Filter) iter.Seq2[chat.Session, error]
	Update(ctx context.Context, c chat.Caller, id chat.SessionID, u chat.SessionUpdated) (chat.Session, error)
	State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error)
	Append(ctx context.Context, c chat.Caller, id chat.SessionID, drafts []chat.Draft) ([]chat.Event, error)
	Preview(ctx context.Context, c chat.Caller, id chat.SessionID, pieces []chat.Preview) error
	Answer(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string, a chat.Answer) (chat.Event, error)
	Prompt(ctx context.Context, c chat.Caller, id chat.SessionID, requestID string) (*chat.Prompt, error)
	Sent(ctx context.Context, c chat.Caller, id chat.SessionID, clientID string) (*chat.Event, error)
	StopLate(ctx context.Context, c chat.Caller, id chat.SessionID, line, reason string, turn chat.TurnID, waited time.Duration) (chat.StopResult, error)
	Read(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) ([]chat.Fact, bool, error)
	Facts(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Fact, error]
	Events(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) iter.Seq2[chat.Event, error]
	All(ctx context.Context) iter.Seq2[chat.Session, error]
}

// Options of the dialect. All functions but Token are needed.
type Options struct {
	Sessions sessions
	Caller   func(*http.Request) (chat.Caller, error)                     // the caller of an HTTP request
	Token    func(ctx context.Context, token string) (chat.Caller, error) // the caller of a token; nil means that no login is needed
	Check    func(chat.Caller) error                                      // fails for a revoked credential
	Refused  func(ctx context.Context, err error)                         // called for a login with a wrong credential
	Issued   func(c chat.Caller, details map[string]any)                  // called for an issued credential
	Main     chat.Caller                                                  // the caller of messages sent without a credential; needs the scope admin
	Allow    func(c chat.Caller, requests int) error                      // counts messages sent with a credential
	Listened func(subject string) bool                                    // whether a subject has subscribers; true when that is unknown
	Cut      func(fits func(user string) bool) error                      // closes the connections of matching users
	Dir      string                                                       // folder of the watermark and of the key of credentials
	Key      []byte                                                       // signs credentials; nil means a key in Dir

	Owns      func(chat.SessionID) bool // whether this node of a cluster owns a session; nil means all
	Behind    func() bool               // whether this node of a cluster has been cut off or behind for so long that its clients have to find another node; nil means never
	Broadcast func(data []byte)         // sends a presence message to ReceivePresence of the other nodes, and may lose it; nil means that there are none

	ErasedSince func(ctx context.Context, at chat.At) (bool, error) // whether a session was erased since then

	External  bool          // NATS is another process, without the mappings of Accounts
	Keep      time.Duration // how long the archive keeps events; 0 means 24 h
	Summaries bool          // write summaries of sessions

	Listening func() // called when Run has subscribed and opened the archive
	Now       func() time.Time
	Logger    *slog.Logger
}

// maxArchive is the size of the archive in bytes; the oldest events are dropped.
const maxArchive = 2 << 30

// Dialect speaks x1 on NATS.
type Dialect struct {
	opt      Options
	log      *slog.Logger
	http     edge.HTTP
	keys     *keyring
	project  *projector
	inbound  *inbound
	sidecars *sidecarSessions
	summary  *summaries

	mu   sync.Mutex
	urls [2]string // where clients connect: NATS and WebSocket
	tag  string    // of the NATS server that stores the archive; "" means any
}

// New returns the dialect; Run starts it.
func New(opt Options) (*Dialect, error) {
	opt.Keep = cmp.Or(opt.Keep, 24*time.Hour)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Behind == nil {
		opt.Behind = func() bool { return false }
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dialect{opt: opt, log: opt.Logger.With("dialect", via)}
	d.http = edge.HTTP{Dialect: via, Caller: opt.Caller, MaxBody: maxBody, Log: d.log}
	var err error
	if d.keys, err = openKeyring(opt.Dir, opt.Key, opt.Now, d.log); err != nil {
		return nil, err
	}
	d.sidecars = newSidecarSessions(d)
	d.inbound = newInbound(d)
	d.summary = newSummaries(d)
	if d.project, err = newProjector(d); err != nil {
		return nil, err
	}
	return d, nil
}

// Reachable sets the addresses of NATS that are handed out with credentials, and the tag of the server that stores the archive:
// in a cluster each node has its own archive.
func (d *Dialect) Reachable(url, websocket, tag string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.urls, d.tag = [2]string{url, websocket}, tag
}

// Published takes stored events and previews, in order per session. It does not block,
// and may be called before Run.
func (d *Dialect) Published(id chat.SessionID, entries []core.Entry) {
	if id.System() {
		return
	}
	d.project.take(id, entries)
	d.sidecars.stored(id, entries)
	if d.opt.Owns == nil || d.opt.Owns(id) {
		d.summary.note(id, entries)
	}
}

// Imported takes a session that was imported as a whole: all its events are published.
func (d *Dialect) Imported(s chat.Session) {
	if !s.ID.System() {
		d.project.imported(s.ID, s.UpdatedAt)
	}
}

// Erased removes an erased session from the archive, in the background.
func (d *Dialect) Erased(id chat.SessionID) {
	if id.System() {
		return // it was never published
	}
	d.sidecars.forget(id)
	d.summary.forget(id)
	d.project.erase(id)
}

// WaitErased waits until the archive has nothing of an erased session, and returns false
// when ctx ends first.
func (d *Dialect) WaitErased(ctx context.Context, id chat.SessionID) bool {
	return d.project.waitErased(ctx, id)
}

// Run receives and publishes on the connection until ctx ends; then it publishes the
// stored events that are left and returns. It is called once. Messages are handled from
// the beginning; they do not wait for the archive.
func (d *Dialect) Run(ctx context.Context, conn *nats.Conn) error {
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer d.disconnectAll()
	// At the end received messages are stored first, then published. Those of sessions without an owner are given up.
	drainInput := func() {
		giveUp := time.AfterFunc(d.inbound.closeTime, stop)
		defer giveUp.Stop()
		d.inbound.close()
	}
	d.project.setOpen(true) // before messages are received
	defer d.project.setOpen(false)
	err = d.inbound.open(work, conn, ctx.Done())
	var stream jetstream.Stream
	if err == nil {
		wg.Go(func() { d.summary.run(ctx) })
		wg.Go(func() { d.disconnectBehind(ctx) })
		stream, err = d.openArchive(ctx, js)
	}
	if err != nil {
		drainInput()
		return err
	}
	d.opt.Listening()
	return d.project.run(ctx, conn, stream, drainInput)
}

// disconnectBehind disconnects the clients whenever this node is behind, until ctx ends. While it
// is, their requests fail, and clients that are connected do not look for another node.
func (d *Dialect) disconnectBehind(ctx context.Context) {
	for before := false; sleep.For(ctx, time.Second) == nil; {
		now := d.opt.Behind()
		if now {
			d.disconnectAll() // also those that have just logged in
		}
		if now && !before {
			d.log.WarnContext(ctx, "this node is cut off or behind; its clients of NATS were disconnected, so that they find another node")
		}
		before = now
	}
}

// disconnectAll closes the connections of all clients. The NATS server may go on, because the nodes use it.
func (d *Dialect) disconnectAll() {
	if err := d.opt.Cut(func(string) bool { return true }); err != nil {
		d.log.Error("clients of NATS may still be connected to a server that does not receive their messages", "err", err)
	}
}

// openArchive creates the stream or updates its settings. It waits for an external NATS.
func (d *Dialect) openArchive(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	want := jetstream.StreamConfig{
		Name: ArchiveStream, Description: "Committed events of sessions; a copy of what the server keeps",
		Subjects: []string{"x1.session.*.archive"}, Storage: jetstream.FileStorage,
		MaxAge: d.opt.Keep, MaxBytes: maxArchive, Discard: jetstream.DiscardOld, AllowDirect: true,
		Duplicates: time.Second, // the numbers are the log's own; no window is needed
	}
	if !d.opt.External {
		// A kill may lose its newest messages; the next start publishes them again
		// (see watermark).
		want.PersistMode = jetstream.AsyncPersistMode
	}
	d.mu.Lock()
	clustered := d.tag != ""
	if clustered {
		want.Placement = &jetstream.Placement{Tags: []string{d.tag}}
	}
	d.mu.Unlock()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		limit := 10 * time.Second
		if clustered {
			limit = 2 * time.Second // a request is lost while there is no leader
		}
		try, cancel := context.WithTimeout(ctx, limit)
		stream, err := js.CreateOrUpdateStream(try, want)
		cancel()
		if err == nil || ctx.Err() != nil {
			return stream, err
		}
		// A cluster that starts refuses it until its servers know each other.
		if api := (*jetstream.APIError)(nil); errors.As(err, &api) && !d.opt.External && !clustered {
			return nil, fmt.Errorf("the x1 archive cannot be opened: %w", err)
		}
		if conn := js.Conn(); !conn.IsConnected() {
			d.log.WarnContext(ctx, "NATS cannot be reached; trying again. The server works without it. Check its address and that it runs", "address", conn.Servers())
		} else {
			d.log.WarnContext(ctx, "the x1 archive cannot be opened yet; trying again", "err", err)
		}
		if sleep.For(ctx, wait) != nil {
			return nil, ctx.Err()
		}
	}
}

// newestEvents returns the last stored events of a session, the oldest first.
func (d *Dialect) newestEvents(ctx context.Context, id chat.SessionID, limit int) ([]chat.Event, error) {
	var events []chat.Event
	for e, err := range d.opt.Sessions.Events(ctx, chat.Trusted, id, chat.Range{Limit: limit, Desc: true}) {
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	slices.Reverse(events)
	return events, nil
}
