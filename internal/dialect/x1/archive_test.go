package x1

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/auth"
	"github.com/parley-hq/parley/internal/bus"
	"github.com/parley-hq/parley/internal/sleep"
)

func TestEventsStoredWithoutNATSArePublishedLater(t *testing.T) {
	w := newServer(t, options{notStarted: true})
	for i := range 5 {
		id := chat.SessionID(fmt.Sprintf("s%d", i))
		w.create(id, chat.NoAgent)
		for range 50 {
			w.append(id, chat.AgentStatus{Message: "x"})
		}
	}
	w.start()
	for i := range 5 {
		w.complete(chat.SessionID(fmt.Sprintf("s%d", i)))
	}
}

func TestAGapIsFilledAtTheNextStart(t *testing.T) {
	dir := t.TempDir()
	w := newServer(t, options{dir: dir})
	w.create("quiet", chat.NoAgent)
	w.create("gap", chat.NoAgent)
	w.append("gap", chat.AgentStatus{Message: "out"})
	w.complete("gap")
	w.complete("quiet")
	other := chat.Caller{Actor: chat.System, Workspace: "elsewhere", Scopes: []chat.Scope{chat.ScopeAdmin}}
	if _, _, err := w.Sessions.Create(t.Context(), other, chat.NewSession{ID: "far", Agent: chat.NoAgent}); err != nil {
		t.Fatal(err)
	}
	w.complete("far")
	w.close()
	// A process that ends before it publishes anything.
	w = newServer(t, options{dir: dir, notStarted: true})
	for range 20 {
		w.append("gap", chat.AgentStatus{Message: "in the log only"})
		w.append("far", chat.AgentStatus{Message: "in the log only"})
	}
	w.create("new", chat.NoAgent)
	w.close()
	w = newServer(t, options{dir: dir})
	for _, id := range []chat.SessionID{"gap", "new", "quiet", "far"} {
		w.complete(id)
	}
}

// The archive is complete in the end when an external NATS stops and starts several times.
func TestNATSDisconnectsAndReconnects(t *testing.T) {
	dir := t.TempDir()
	open := func(addr string) *bus.Server {
		s, err := bus.Start(t.Context(), bus.Options{Addr: addr, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	server := open("127.0.0.1:0")
	addr := server.Addr()
	defer func() { server.Close() }()
	w := newServer(t, options{url: server.URL()})
	w.create("s1", chat.NoAgent)
	stop, wg := make(chan struct{}), sync.WaitGroup{}
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				if _, err := w.Sessions.Append(t.Context(), auth.Local, "s1", []chat.Draft{chat.NewDraft(chat.AgentStatus{Message: fmt.Sprint(i)})}); err != nil {
					t.Error(err)
					return
				}
				sleep.For(t.Context(), time.Millisecond)
			}
		}
	})
	for range 3 {
		sleep.For(t.Context(), time.Duration(20+rand.IntN(60))*time.Millisecond)
		server.Close()
		sleep.For(t.Context(), time.Duration(20+rand.IntN(60))*time.Millisecond)
		server = open(addr)
	}
	close(stop)
	wg.Wait()
	w.complete("s1")
}

// A cluster has no JetStream until most of its nodes run, and an external NATS may have none at all.
func TestMessagesDoNotWaitForTheArchive(t *testing.T) {
	nats, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	nats.Start()
	defer nats.WaitForShutdown()
	defer nats.Shutdown()
	if !nats.ReadyForConnections(testTimeout) {
		t.Fatal("NATS does not start")
	}
	w := newServer(t, options{url: nats.ClientURL(), noArchive: true})
	defer w.close() // before NATS
	w.create("s1", chat.NoAgent)
	c := w.dial()
	c.say("s1", Input, message("stored"))
	if got := c.messages("s1"); len(got) != 1 || got[0] != "stored" {
		t.Errorf("the session has %q", got)
	}
}

func TestEveryTurnOfManySessionsIsArchived(t *testing.T) {
	w := newServer(t, options{})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			id := chat.SessionID(fmt.Sprintf("s%d", i))
			w.create(id, chat.NoAgent)
			for k := range 60 {
				w.append(id, chat.AgentStatus{Message: fmt.Sprint(k)}, chat.AgentText{Text: "y"})
			}
		})
	}
	wg.Wait()
	for i := range 40 {
		w.complete(chat.SessionID(fmt.Sprintf("s%d", i)))
	}
}

// Events that do not fit into the queue are read from the log.
func TestAFullQueueFallsBackToTheLog(t *testing.T) {
	w := newServer(t, options{})
	w.create("s1", chat.NoAgent)
	p := w.dialect.project
	p.mu.Lock()
	p.bytes = maxBytes // as if so much was waiting
	p.mu.Unlock()
	w.append("s1", chat.AgentStatus{Message: "x"})
	for range 20 {
		w.append("s1", chat.AgentStatus{Message: "y"})
	}
	w.complete("s1")
}

func TestLostArchiveMessagesArePublishedAgain(t *testing.T) {
	w := newServer(t, options{})
	w.create("s1", chat.NoAgent)
	w.append("s1", chat.AgentStatus{Message: "x"})
	w.complete("s1")
	js, err := jetstream.New(w.own().Conn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), ArchiveStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := w.dialect.project
	p.mu.Lock()
	p.fallBehind(p.projections["s1"], 1)
	p.mu.Unlock()
	w.complete("s1")
}

// own is a connection that may do everything.
func (w *testServer) own() *client {
	w.t.Helper()
	c, err := w.bus.Connect("test")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return &client{Conn: c, w: w}
}

const secret = "the-text-that-must-not-stay-anywhere"

// filesContaining returns the files below dir that contain the text.
func filesContaining(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // files come and go
		}
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(secret)) {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestAnErasedSessionIsGoneFromTheArchive(t *testing.T) {
	dir := t.TempDir()
	w := newServer(t, options{dir: dir})
	for _, id := range []chat.SessionID{"s1", "s2"} {
		w.create(id, chat.NoAgent)
		for range 20 {
			w.append(id, chat.AgentText{Text: "before"})
		}
	}
	for range 20 {
		w.append("s1", chat.AgentText{Text: secret})
	}
	w.complete("s1")
	w.complete("s2")
	w.until("the text is where it is looked for", func() bool { return len(filesContaining(t, dir+"/nats")) > 0 }) // NATS writes it later
	if _, err := w.Sessions.Erase(t.Context(), auth.Local, "s1"); err != nil {
		t.Fatal(err)
	}
	w.until("the archive forgets it", func() bool { return len(w.archive("s1")) == 0 })
	w.complete("s2")
	w.close()
	if files := filesContaining(t, dir); len(files) > 0 {
		t.Fatalf("the text is still in %v", files)
	}
}

// The process ends after the erasure is recorded and before the archive is erased.
func TestAnInterruptedEraseIsFinished(t *testing.T) {
	dir := t.TempDir()
	w := newServer(t, options{dir: dir})
	w.create("s1", chat.NoAgent)
	w.append("s1", chat.AgentText{Text: secret})
	w.complete("s1")
	w.close()
	w = newServer(t, options{dir: dir, notStarted: true})
	if _, err := w.Sessions.Erase(t.Context(), auth.Local, "s1"); err != nil {
		t.Fatal(err)
	}
	w.close()
	// A node of a cluster may not be able to read a session right after its start.
	w = newServer(t, options{dir: dir, change: func(o *Options) { o.Sessions = &busySessions{sessions: o.Sessions} }})
	w.until("the archive forgets it", func() bool { return len(w.archive("s1")) == 0 })
}

// busySessions fails for the first time that a session is looked up.
type busySessions struct {
	sessions
	asked atomic.Bool
}

func (s *busySessions) Get(ctx context.Context, c chat.Caller, id chat.SessionID) (chat.Session, error) {
	if !s.asked.Swap(true) {
		return chat.Session{}, chat.Errorf(chat.Unavailable, "this node has not caught up")
	}
	return s.sessions.Get(ctx, c, id)
}

// If the archive's sequence grows by less than was published, the session is compared
// with the log, and nothing is stored twice.
func TestAnAcknowledgementThatDoesNotFit(t *testing.T) {
	w := newServer(t, options{})
	w.create("s1", chat.NoAgent)
	w.complete("s1")
	p := w.dialect.project
	p.publishing.Lock()
	p.archived += 5
	p.publishing.Unlock()
	for range 10 {
		w.append("s1", chat.AgentStatus{Message: "x"})
	}
	w.complete("s1")
}

// A client that subscribes while an event is on its way to the archive gets the live copy.
func TestANewSubscriberMissesNoEvent(t *testing.T) {
	var viewer *client
	var waits atomic.Bool
	came := make(chan *subscription, 1)
	w := newServer(t, options{change: func(o *Options) {
		listened := o.Listened
		o.Listened = func(s string) bool {
			yes := listened(s)
			if s == Subject("s1", Events) && waits.CompareAndSwap(true, false) {
				came <- viewer.follow(s) // after it was looked, before the event is sent
			}
			return yes
		}
	}})
	w.create("s1", chat.NoAgent)
	w.complete("s1")
	p := w.dialect.project
	w.until("the batch has ended", func() bool {
		p.publishing.Lock()
		defer p.publishing.Unlock()
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.queue) == 0 && p.behind == 0
	})
	viewer = w.root()
	waits.Store(true)
	w.append("s1", chat.AgentStatus{Message: "on its way"})
	events := <-came
	events.until("what was on its way", upTo(2))
}

func TestAnImportedSessionIsArchived(t *testing.T) {
	from, to := newServer(t, options{notStarted: true}), newServer(t, options{})
	from.create("s1", chat.NoAgent)
	for range 5 {
		from.append("s1", chat.AgentStatus{Message: "elsewhere"})
	}
	facts, _, err := from.Sessions.Read(t.Context(), chat.Trusted, "s1", chat.Range{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	sess, err := to.Sessions.Import(t.Context(), chat.Trusted, "s1", func(yield func(chat.Fact, error) bool) {
		for _, f := range facts {
			if !yield(f, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	to.dialect.Imported(sess)
	to.append("s1", chat.AgentStatus{Message: "here"})
	to.complete("s1")
}
