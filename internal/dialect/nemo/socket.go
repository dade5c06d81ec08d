package nemo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/sleep"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// maxSubscriptions is how many conversations one socket follows; the one that is idle for longest makes room.
const maxSubscriptions = 64

// Frames of one client that wait to be handled. While there are more, none is read.
const (
	maxUnhandled   = 64
	unhandledBytes = maxFrame / maxUnhandled // a larger frame counts as several
)

// afterDisconnect is how long the frames that a client has sent are still handled after it has disconnected.
const afterDisconnect = 10 * time.Second

// Limits of sockets whose client has not authenticated.
const (
	maxUnauthenticatedFrame = 64 << 10 // bytes; a message with a token is far smaller
	maxUnauthenticated      = 1024     // sockets; wire bounds them per address, too
)

var (
	errReplaced    = &wire.CloseError{Code: wire.CloseGoingAway, Reason: "the client has reconnected", Ours: true}
	errAuthTimeout = errors.New("no authentication in time: send auth_message first, or a token with the request")
)

// socket is one client's connection. It carries many conversations.
type socket struct {
	d                   *Dialect
	schema              *schema
	browserID           string         // tells the browsers of one identity apart
	requested           string         // the conversation that the address names
	defaultConversation string         // of messages that name none
	isBrowser           bool           // browsers send their origin
	caller              chat.Caller    // this and the next three are used only by the goroutine that reads
	authErr             error          // why the caller is not known; nil when it is
	releaseBind         func()         // of the credential that auth_message brought; nil without one
	authWait            *wire.AuthWait // nil when the request brought a credential

	conn        *wire.Conn
	ctx         context.Context // of the connection
	cancel      context.CancelCauseFunc
	group       sync.WaitGroup
	frames      chan *received // that wait to be handled
	unhandled   chan struct{}  // has an element for each of them, several for a large one
	readEnded   chan struct{}  // closed when nothing more can be read; then the next two are set
	readAll     bool           // the client has read all that was sent before the server shut down
	readEndedAt time.Time

	ponged    atomic.Bool   // the client answers pings
	noPongs   atomic.Bool   // it has not answered any for Options.FirstPong
	pingCount atomic.Uint64 // pings are numbered
	arrived   atomic.Bool   // something arrived since the last heartbeat

	mu       sync.Mutex
	subs     map[subscriptionKey]*subscription
	answered uint64        // the last ping that was answered
	nextPong chan struct{} // closed when a pong arrives
}

// subscriptionKey tells conversations of different identities apart.
type subscriptionKey struct{ actor, conversation string }

func subscriptionKeyOf(c chat.Caller, conversation string) subscriptionKey {
	return subscriptionKey{c.In() + "/" + c.Actor.Key(), conversation}
}

// sessionParam is what the UI may send to tell its browsers apart.
var sessionParam = regexp.MustCompile(`^[A-Za-z0-9\-_.~]+$`)

// maxSessionParam is its length. It is not in the expression, which would be compiled to as many steps at every start.
const maxSessionParam = 256

func validSessionParam(s string) bool {
	return len(s) <= maxSessionParam && sessionParam.MatchString(s)
}

// serveSocket accepts a WebSocket connection. Without a credential in the request, nothing is answered until a message
// brings one.
func (d *Dialect) serveSocket(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	browser := q.Get("session")
	if browser != "" && !validSessionParam(browser) {
		d.http.Fail(w, r, chat.Errorf(chat.Denied, "the session in the address may hold letters, digits and - _ . ~ only"))
		return
	}
	if cookie, err := r.Cookie("nat-session"); err == nil && validSessionParam(cookie.Value) {
		browser = cookie.Value
	}
	schema := d.schema
	if name := q.Get("schema"); name != "" {
		var ok bool
		if schema, ok = schemaByName[name]; !ok {
			d.http.Fail(w, r, chat.Errorf(chat.Invalid, "schema=%q is not one of nemo, documented, agentiq, aiq", text.Clip(name, 40)))
			return
		}
	}
	requested := strings.TrimSpace(cmp.Or(q.Get("conversation_id"), q.Get("conversationId")))
	if requested == placeholder {
		requested = ""
	}
	s := &socket{
		d: d, schema: schema, browserID: browser, requested: requested, isBrowser: r.Header.Get("Origin") != "",
		frames: make(chan *received, maxUnhandled), unhandled: make(chan struct{}, maxUnhandled), readEnded: make(chan struct{}),
		subs: map[subscriptionKey]*subscription{}, nextPong: make(chan struct{}),
	}
	if s.defaultConversation = requested; requested == "" {
		s.defaultConversation = d.opt.NewID()
	}
	s.caller, s.authErr = d.opt.Caller(r)
	limit := maxFrame
	if s.authErr != nil {
		if s.authWait = d.unauthenticated.Take(d.opt.ClientAddress(r)); s.authWait == nil {
			d.http.Fail(w, r, chat.Errorf(chat.SlowDown, "too many connections from your address wait for authentication: authenticate on those, or send a token with the request").
				With("retry_after", int(d.opt.AuthTimeout.Seconds())+1))
			return
		}
		limit = d.unauthenticated.MaxMessage
	}
	if err := wire.ServeWS(w, r, wire.WSOptions{MaxMessage: limit, Binary: true}, d.opt.Conns, s.run); err != nil {
		s.authWait.End()
		d.http.Fail(w, r, handshakeError(err))
	}
}

func handshakeError(err error) error {
	var bad *wire.HandshakeError
	switch {
	case errors.Is(err, wire.ErrShutdown):
		return chat.Errorf(chat.Unavailable, "the server is shutting down; try again in a moment")
	case errors.As(err, &bad):
		return chat.Errorf(chat.Invalid, "%s", bad.Reason)
	}
	return err
}

// run handles frames until the connection has ended.
func (s *socket) run(ctx context.Context, conn *wire.Conn) (err error) {
	ctx, s.cancel = context.WithCancelCause(ctx)
	s.conn, s.ctx = conn, ctx
	defer func() {
		s.cancel(nil)
		s.group.Wait()
		s.dropFrames()
		s.authWait.End()
		if s.releaseBind != nil {
			s.releaseBind()
		}
	}()
	s.authWait.Begin(conn, maxFrame, errAuthTimeout.Error(), func() { s.cancel(errAuthTimeout) })
	conn.OnPong(s.pong)
	s.ping(ctx) // before anything else, so that its answer comes first
	s.group.Go(func() { s.heartbeat(ctx) })
	if s.authErr == nil {
		s.resumeRequested(ctx, s.caller)
	}
	s.group.Go(func() {
		defer close(s.frames)
		err = s.d.opt.Conns.Guard(func() error { return s.read(ctx) })
	})
	s.handleFrames(ctx)
	if context.Cause(ctx) == errReplaced {
		return errReplaced // the client gets the reason, also if this side closes first
	}
	return err
}

// read reads until the connection ends. It does not wait for the frames to be handled, so that pongs and the end are noticed.
func (s *socket) read(ctx context.Context) error {
	defer close(s.readEnded)
	for {
		msg, err := s.conn.Read(ctx)
		if err != nil {
			s.readEndedAt = s.d.opt.Now()
			s.readAll = errors.Is(context.Cause(ctx), wire.ErrShutdown) && s.conn.CloseForShutdown()
			var closed *wire.CloseError
			if errors.Is(err, wire.ErrPeerGone) || errors.Is(err, wire.ErrShutdown) || errors.As(err, &closed) || ctx.Err() != nil {
				return nil // an ordinary end
			}
			return err
		}
		s.arrived.Store(true)
		s.receive(ctx, bytes.Clone(msg))
	}
}

// handleFrames handles frames in their order, also those that a client sent just before it disconnected.
func (s *socket) handleFrames(ctx context.Context) {
	handling, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), wire.ErrShutdown) {
			_ = sleep.For(handling, afterDisconnect)
		}
		cancel(context.Cause(ctx))
	})()
	for f := range s.frames {
		s.handleOne(handling, f)
	}
}

func (s *socket) handleOne(ctx context.Context, f *received) {
	defer func() {
		if f.release != nil {
			f.release()
		}
		for range f.weight {
			<-s.unhandled
		}
	}()
	if ctx.Err() == nil {
		s.handle(ctx, f)
	}
}

// dropFrames gives back the memory of the frames that are not handled because of a panic. Nothing is read any more.
func (s *socket) dropFrames() {
	for {
		select {
		case f := <-s.frames:
			if f == nil { // closed
				return
			}
			if f.release != nil {
				f.release()
			}
		default:
			return
		}
	}
}

// heartbeat keeps the connection open and closes it when the client does not answer.
func (s *socket) heartbeat(ctx context.Context) {
	s.awaitFirstPong(ctx)
	tick := time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	silent := 0
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if silent++; s.arrived.Swap(false) {
			silent = 0
		}
		if silent > 3 && s.ponged.Load() {
			s.cancel(errReplaced)
			_ = s.conn.CloseWith(wire.CloseGoingAway, "no answer to pings")
			return
		}
		s.ping(ctx)
	}
}

// ping sends a ping. An error is ignored: a broken connection ends the read loop.
func (s *socket) ping(ctx context.Context) (number uint64) {
	number = s.pingCount.Add(1)
	_ = s.conn.Ping(ctx, binary.BigEndian.AppendUint64(nil, number))
	return number
}

// pong is called inside Read.
func (s *socket) pong(payload []byte) {
	s.ponged.Store(true)
	s.arrived.Store(true)
	if len(payload) != 8 {
		return
	}
	number := binary.BigEndian.Uint64(payload)
	if number > s.pingCount.Load() {
		return // no ping of ours
	}
	s.mu.Lock()
	s.answered = max(s.answered, number)
	close(s.nextPong)
	s.nextPong = make(chan struct{})
	subs := slices.Collect(maps.Values(s.subs))
	s.mu.Unlock()
	for _, sub := range subs {
		sub.pong(number)
	}
}

// awaitFirstPong finds out whether the client answers pings. It counts in steps: a process that was stopped for a while must not
// take a client for one that does not answer, and what it sent to it for read.
func (s *socket) awaitFirstPong(ctx context.Context) {
	const steps = 10
	for range steps {
		if sleep.For(ctx, s.d.opt.FirstPong/steps) != nil || s.ponged.Load() {
			return
		}
	}
	s.noPongs.Store(true)
}

// ignoresPings reports whether the client answers no pings at all, as behind a gateway that drops them.
func (s *socket) ignoresPings() bool { return s.noPongs.Load() && !s.ponged.Load() }

// respondsToPing reports whether the client is still connected. One that never answered a ping (a gateway may drop
// them) counts as connected until its connection fails.
func (s *socket) respondsToPing(timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	number := s.ping(ctx)
	for {
		s.mu.Lock()
		answered, next := s.answered, s.nextPong
		s.mu.Unlock()
		if answered >= number { // the answer to an earlier ping may have been sent by a client that has gone since
			return true
		}
		select {
		case <-next:
		case <-s.readEnded:
			return false
		case <-ctx.Done():
			return !s.ponged.Load()
		}
	}
}

// closeReplaced closes the socket of a subscription whose client has reconnected. It waits until the client has departed, but not
// forever: two sockets may try to close each other.
func (sub *subscription) closeReplaced(timeout time.Duration) {
	sub.s.cancel(errReplaced)
	_ = sub.s.conn.CloseWith(errReplaced.Code, errReplaced.Reason)
	select {
	case <-sub.done:
	case <-time.After(timeout):
	}
}

// resumeRequested follows the conversation that the address names. AI-Q's client names none: the conversations that it
// lost within the last minute are followed again.
func (s *socket) resumeRequested(ctx context.Context, c chat.Caller) {
	switch {
	case s.requested != "":
		s.subscribe(c, s.requested, "")
	case s.schema.reattaches:
		s.guarded(func() { s.reattach(ctx, c) })
	}
}

// guarded runs f in a goroutine of the socket. A panic ends the socket only.
func (s *socket) guarded(f func()) {
	s.group.Go(func() {
		err := s.d.opt.Conns.Guard(func() error {
			f()
			return nil
		})
		if err != nil {
			s.cancel(err)
		}
	})
}

// reattach follows the conversations of this identity and browser whose connection has just broken, by a network error or a
// page reload. It leaves out those whose connection the client closed itself: it has switched to another conversation.
func (s *socket) reattach(ctx context.Context, c chat.Caller) {
	page, err := s.d.opt.Sessions.List(ctx, c, core.Filter{Workspace: c.In(), Actor: &c.Actor, Limit: maxReattached})
	if err != nil {
		s.d.log.WarnContext(ctx, "lost conversations could not be found", "err", err)
		return
	}
	for _, sess := range page.Sessions {
		key := s.resumeKey(c, sess.ID)
		s.d.points.closeStale(key, s)
		if name := s.d.points.lostConversation(key, sess); name != "" {
			s.subscribe(c, name, "")
		}
	}
}

// maxReattached is how many of the latest conversations reattach looks at.
const maxReattached = 8

func (s *socket) resumeKey(c chat.Caller, id chat.SessionID) string {
	return derivedID(c.In()+"\x00"+c.Actor.Key()+"\x00"+s.browserID, string(id))
}

// subscribe follows a conversation, unless it is followed already. With a session id the client has just sent a message
// to it; without one the client returns to it and gets what it missed.
func (s *socket) subscribe(c chat.Caller, conversation string, id chat.SessionID) *subscription {
	key := subscriptionKeyOf(c, conversation)
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub := s.subs[key]; sub != nil && !sub.isDone() {
		return sub
	}
	if len(s.subs) >= maxSubscriptions {
		s.dropIdle()
	}
	bound, release := s.d.opt.Bind(s.ctx, c)
	bound, cancel := context.WithCancel(bound)
	sub := &subscription{
		s: s, caller: c, session: id, cancel: cancel,
		ready: make(chan struct{}), messaged: make(chan struct{}), wakeup: make(chan struct{}, 1), done: make(chan struct{}),
		enc: encoder{schema: s.schema, conversation: conversation, thread: placeholder}, lastUsed: s.d.opt.Now(), since: s.d.now(),
	}
	sub.stopWaiting = s.d.points.waitForStart(sub)
	s.subs[key] = sub
	s.guarded(func() {
		defer close(sub.done)
		defer release()
		defer cancel()
		sub.follow(bound)
	})
	return sub
}

// dropIdle ends the subscription that is idle for longest; the caller holds mu.
func (s *socket) dropIdle() {
	var oldest subscriptionKey
	var at time.Time
	for k, sub := range s.subs {
		if used := sub.usedAt(); at.IsZero() || used.Before(at) {
			oldest, at = k, used
		}
	}
	s.subs[oldest].cancel()
	delete(s.subs, oldest)
}
