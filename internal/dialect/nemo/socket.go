package nemo

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/wire"
)

// maxSubscriptions is how many conversations one socket follows at once; the one that
// was quiet for longest makes room.
const maxSubscriptions = 64

// errReplaced ends a socket that did not answer while another took its place.
var errReplaced = errors.New("the client has come back on another connection")

// socket is one client's connection. It carries many conversations.
type socket struct {
	d                   *Dialect
	schema              *schema
	browserID           string // tells the browsers of one identity apart
	requested           string // the conversation that the client comes back to
	defaultConversation string // the conversation of messages that name none
	isBrowser           bool   // it is a page in a browser: those send their origin
	caller              chat.Caller
	authErr             error     // why the caller is not known; nil when it is
	release             func()    // of what watches the credential that a message brought; nil when none did
	authWait            *authWait // of a client that did not authenticate with its request; nil otherwise

	conn          *wire.Conn
	cancel        context.CancelCauseFunc
	group         sync.WaitGroup
	done          chan struct{}
	readEnded     chan struct{} // closed when the client says nothing more
	closedInOrder bool          // then: it has read all that was sent before the server ended
	readEndedAt   time.Time     // when that was; readable then

	opened    time.Time     // when the first ping was sent
	ponged    atomic.Bool   // the client answers pings
	pingCount atomic.Uint64 // numbers of pings
	activity  chan struct{} // something of the client arrived; room for one

	mu          sync.Mutex
	subs        map[subscriptionKey]*subscription
	pingWaiters map[uint64]chan struct{} // pings that somebody waits for
}

// subscriptionKey tells conversations of different identities apart.
type subscriptionKey struct{ actor, conversation string }

func subscriptionKeyOf(c chat.Caller, conversation string) subscriptionKey {
	return subscriptionKey{c.In() + "/" + c.Actor.Key(), conversation}
}

// run is the read loop.
func (s *socket) run(ctx context.Context, conn *wire.Conn) error {
	ctx, s.cancel = context.WithCancelCause(ctx)
	s.conn, s.done, s.readEnded = conn, make(chan struct{}), make(chan struct{})
	s.pingWaiters, s.activity = map[uint64]chan struct{}{}, make(chan struct{}, 1)
	defer close(s.done)
	defer s.group.Wait()
	defer s.cancel(nil)
	defer func() {
		if s.release != nil {
			s.release()
		}
	}()
	s.authWait.start(s)
	defer s.authWait.end()
	conn.OnPong(s.pong)
	s.opened = s.d.opt.Now()
	_ = conn.Ping(ctx, s.pingPayload()) // before anything else, so that its answer comes first
	s.group.Go(func() { s.heartbeat(ctx) })
	if s.authErr == nil {
		s.resumeRequested(ctx, s.caller)
	}
	for {
		msg, err := conn.Read(ctx)
		if err != nil {
			s.readEndedAt = s.d.opt.Now()
			s.closedInOrder = errors.Is(context.Cause(ctx), wire.ErrShutdown) && conn.Farewell()
			close(s.readEnded)
			return normalEnd(ctx, err)
		}
		s.noteActivity()
		s.handle(ctx, msg)
	}
}

// normalEnd tells a connection's ordinary end from a fault.
func normalEnd(ctx context.Context, err error) error {
	var closed *wire.CloseError
	if errors.Is(err, wire.ErrPeerGone) || errors.Is(err, wire.ErrShutdown) || errors.As(err, &closed) || ctx.Err() != nil {
		return nil
	}
	return err
}

func handshakeError(err error) error {
	var bad *wire.HandshakeError
	switch {
	case errors.Is(err, wire.ErrShutdown):
		return chat.Errorf(chat.Unavailable, "the server is shutting down; come back in a moment")
	case errors.As(err, &bad):
		return chat.Errorf(chat.Invalid, "this address speaks WebSocket: %s", bad.Reason)
	}
	return err
}

// heartbeat keeps the line open and notices a client that is gone without a word.
func (s *socket) heartbeat(ctx context.Context) {
	tick := time.NewTicker(s.d.opt.Heartbeat)
	defer tick.Stop()
	silent := 0
	for {
		select {
		case <-s.activity:
			silent = 0
		case <-tick.C:
			if silent++; silent > 3 && s.ponged.Load() {
				s.cancel(errReplaced)
				_ = s.conn.CloseWith(wire.CloseGoingAway, "no answer to pings")
				return
			}
			_ = s.conn.Ping(ctx, s.pingPayload())
		case <-ctx.Done():
			return
		}
	}
}

func (s *socket) noteActivity() {
	select {
	case s.activity <- struct{}{}:
	default:
	}
}

func (s *socket) pingPayload() []byte {
	return binary.BigEndian.AppendUint64(nil, s.pingCount.Add(1))
}

// pong is called inside Read.
func (s *socket) pong(payload []byte) {
	s.ponged.Store(true)
	s.noteActivity()
	if len(payload) != 8 {
		return
	}
	n := binary.BigEndian.Uint64(payload)
	s.mu.Lock()
	if c := s.pingWaiters[n]; c != nil {
		close(c)
		delete(s.pingWaiters, n)
	}
	threads := make([]*subscription, 0, len(s.subs))
	for _, t := range s.subs {
		threads = append(threads, t)
	}
	s.mu.Unlock()
	for _, t := range threads {
		t.pong(n)
	}
}

// firstPong is how long a client may take to answer its first ping.
const firstPong = 10 * time.Second

// ignoresPings reports whether the client does not answer pings at all, as where a gateway
// swallows them. One that has not answered yet may be far away.
func (s *socket) ignoresPings() bool {
	return !s.ponged.Load() && s.d.opt.Now().Sub(s.opened) > firstPong
}

// respondsToPing reports whether the client is still there. One that never answered
// any ping (a gateway may swallow them) counts as there until its connection
// fails.
func (s *socket) respondsToPing(wait time.Duration) bool {
	n, c := s.pingCount.Add(1), make(chan struct{})
	s.mu.Lock()
	s.pingWaiters[n] = c
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pingWaiters, n)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	_ = s.conn.Ping(ctx, binary.BigEndian.AppendUint64(nil, n)) // a failure ends the socket
	select {
	case <-c:
		return true
	case <-s.done:
		return false
	case <-ctx.Done():
		return !s.ponged.Load()
	}
}

// closeReplaced ends a socket whose client is gone, and waits for it, but not for ever:
// two sockets may take each other for gone.
func (s *socket) closeReplaced(wait time.Duration) {
	s.cancel(errReplaced)
	_ = s.conn.CloseWith(wire.CloseGoingAway, errReplaced.Error())
	patience := time.NewTimer(wait)
	defer patience.Stop()
	select {
	case <-s.done:
	case <-patience.C:
	}
}

// handle does what one frame asks for. Whatever is wrong with it, the socket
// stays open.
func (s *socket) handle(ctx context.Context, msg []byte) {
	f, err := decodeFrame(msg)
	if err == nil {
		if ended := wire.Ended(ctx); ended != nil { // the frame was read just before
			err = &refusal{codeAuth, chat.Public(ended)}
		}
	}
	if err != nil {
		s.sendRefusal(ctx, &f, err)
		return
	}
	if f.Type == typeAuth {
		s.authenticate(ctx, &f)
		return
	}
	c, err := s.callerOf(ctx, &f)
	if err == nil {
		err = s.d.opt.Allow(c, 1)
	}
	if err != nil {
		s.sendRefusal(ctx, &f, err)
		return
	}
	if f.Type == typeAnswer {
		s.handleAnswer(ctx, c, &f)
		return
	}
	s.handleMessage(ctx, c, &f, msg)
}

// callerOf is the caller of one message: the one its security block names, else the
// socket's.
func (s *socket) callerOf(ctx context.Context, f *clientFrame) (chat.Caller, error) {
	if token := f.Security.token(); token != "" {
		c, err := s.d.opt.Authenticate(ctx, token)
		if err != nil {
			return c, &refusal{codeAuth, chat.Public(err)}
		}
		s.authenticated()
		return c, nil
	}
	if s.authErr != nil {
		return chat.Caller{}, &refusal{codeAuth, chat.Public(s.authErr)}
	}
	return s.caller, nil
}

// authenticate makes the socket somebody's. A conversation that the client came
// back to is followed from then on.
func (s *socket) authenticate(ctx context.Context, f *clientFrame) {
	token, err := decodeAuth(f.Payload)
	var c chat.Caller
	if err == nil {
		c, err = s.d.opt.Authenticate(ctx, token)
	}
	r := authResponse{Type: typeAuthResponse, Status: "success", Timestamp: s.d.now().String()}
	if err != nil {
		r.Status = "error"
		r.Payload = &errorContent{Code: codeAuth, Message: codeTitles[codeAuth], Details: chat.Public(err).Msg}
	} else {
		id := derivedID("identity", c.In()+"\x00"+c.Actor.Key())
		r.UserID = &id
		s.caller, s.authErr = c, nil
		s.bind(ctx, c)
		s.authenticated()
	}
	_ = s.conn.WriteText(ctx, appendJSON(nil, r))
	if err == nil {
		s.resumeRequested(ctx, c)
	}
}

// bind ends the socket with the credential of the last message that brought one.
// A credential that the socket was opened with ends it, too.
func (s *socket) bind(ctx context.Context, c chat.Caller) {
	if s.release != nil {
		s.release()
	}
	bound, release := s.d.opt.Bind(ctx, c)
	stop := context.AfterFunc(bound, func() { s.cancel(context.Cause(bound)) })
	s.release = func() { stop(); release() }
}

// resumeRequested follows what the client comes back to.
func (s *socket) resumeRequested(ctx context.Context, c chat.Caller) {
	switch {
	case s.requested != "":
		s.subscribe(ctx, c, s.requested, "")
	case s.schema.reattaches:
		s.group.Go(func() { s.reattach(ctx, c) })
	}
}

// conversationOf is the conversation that a frame belongs to; a client that names none has
// one of its own.
func (s *socket) conversationOf(f *clientFrame) string {
	return first(f.conversation(), s.defaultConversation)
}

// handleMessage takes a user message.
func (s *socket) handleMessage(ctx context.Context, c chat.Caller, f *clientFrame, raw []byte) {
	m, err := decodeUser(f, raw)
	if err != nil {
		s.sendRefusal(ctx, f, err)
		return
	}
	if s.schema.jsonQuery {
		m.unpack()
	}
	conversation := s.conversationOf(f)
	sess, e, again, err := s.d.submit(ctx, c, conversation, m)
	if err != nil {
		s.sendRefusal(ctx, f, err)
		return
	}
	s.subscribe(ctx, c, conversation, sess.ID).messageSent(ctx, e, again)
}

// subscribe makes sure that the conversation is followed here. Without a session
// the client comes back to it, and gets what it has missed.
func (s *socket) subscribe(ctx context.Context, c chat.Caller, conversation string, id chat.SessionID) *subscription {
	key := subscriptionKeyOf(c, conversation)
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.subs[key]; t != nil && !t.isDone() {
		return t
	}
	if len(s.subs) >= maxSubscriptions {
		s.dropIdle()
	}
	bound, release := s.d.opt.Bind(ctx, c)
	tctx, cancel := context.WithCancel(bound)
	t := &subscription{
		s: s, caller: c, session: id, cancel: cancel, ready: make(chan struct{}), messaged: make(chan struct{}), wakeup: make(chan struct{}, 1), done: make(chan struct{}),
		enc: encoder{schema: s.schema, conversation: conversation, thread: placeholder}, lastUsed: s.d.opt.Now(), since: s.d.now(),
	}
	t.stopWaiting = s.d.points.waitForStart(t)
	s.subs[key] = t
	s.group.Go(func() {
		defer close(t.done)
		defer release()
		defer cancel()
		t.follow(tctx)
	})
	return t
}

// dropIdle makes room; the caller holds mu.
func (s *socket) dropIdle() {
	var oldest subscriptionKey
	var at time.Time
	for k, t := range s.subs {
		if used := t.usedAt(); at.IsZero() || used.Before(at) {
			oldest, at = k, used
		}
	}
	s.subs[oldest].cancel()
	delete(s.subs, oldest)
}

// sendRefusal answers a frame that was not taken. A user message also gets an end,
// and something that makes the error visible in the UI, which draws an error
// only in a bubble that has something else.
func (s *socket) sendRefusal(ctx context.Context, f *clientFrame, err error) {
	content := errorOf(err)
	if content.Code == codeUnknown {
		s.d.log.ErrorContext(ctx, "frame failed", "err", err)
	}
	now := s.d.now()
	v := encoder{schema: s.schema, conversation: s.conversationOf(f), thread: first(f.Thread, placeholder)}
	t := &turn{parent: f.name(), version: f.SchemaVersion}
	waits := f.Type == typeUser || f.SchemaType != "" // only user messages have one: the type is mistyped
	var out []byte
	if waits {
		it := item{kind: itemStep, turn: t, id: s.d.opt.NewID(), name: "Error", text: content.Details, at: now}
		out = wire.AppendTextFrame(out, v.appendItem(nil, &it, now))
	}
	out = wire.AppendTextFrame(out, v.appendError(nil, t, s.d.opt.NewID(), content, now))
	if waits {
		out = wire.AppendTextFrame(out, v.appendEnd(nil, t, s.d.opt.NewID(), chat.Failed, now))
	}
	_ = s.conn.Write(ctx, out) // a broken connection ends the read loop
}
