package nemo

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/session"
	"github.com/parley-hq/parley/internal/wire"
)

// twoNodes is a server with a second dialect over the same store, like those of two nodes that have the same sessions.
type twoNodes struct {
	*testServer
	other *Dialect
	cut   atomic.Bool            // messages between the two are lost
	asked atomic.Pointer[func()] // is called when the second node asks the first one
}

func newNodes(t *testing.T, s setup) *twoNodes {
	t.Helper()
	n := &twoNodes{}
	change := s.change
	s.change = func(o *Options) {
		second := *o
		second.Dir = t.TempDir()
		second.Nodes = &Nodes{Name: "second", Others: func() int { return 1 }, Least: 1, Broadcast: func(data []byte) {
			if f := n.asked.Load(); f != nil && strings.Contains(string(data), `"question"`) {
				(*f)()
			}
			if !n.cut.Load() {
				n.dialect.Receive(data)
			}
		}}
		if change != nil {
			change(&second)
		}
		n.other = New(second)
		o.Nodes = &Nodes{Name: "first", Others: func() int { return 1 }, Least: 1, Broadcast: func(data []byte) {
			if !n.cut.Load() {
				n.other.Receive(data)
			}
		}}
	}
	s.routes = func() []wire.Route {
		return []wire.Route{{Pattern: "GET /second/websocket", Dialect: via, Public: true, Handler: http.HandlerFunc(n.other.serveSocket), Fail: n.other.http.Fail}}
	}
	n.testServer = newServer(t, s)
	return n
}

// dialSecond connects to the second node.
func (n *twoNodes) dialSecond(query string) *client {
	n.t.Helper()
	return n.dialAt("/second/websocket" + query)
}

// knows waits until a node knows something of the only conversation.
func knows(t *testing.T, d *Dialect, what string, known func(*resumePoint) bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); runtime.Gosched() {
		d.points.mu.Lock()
		for _, p := range d.points.byKey {
			if known(p) {
				d.points.mu.Unlock()
				return
			}
		}
		d.points.mu.Unlock()
	}
	t.Fatalf("after 30 seconds the node does not know %s", what)
}

// heardAll waits until the second node knows what the client of the first one has acknowledged.
func (n *twoNodes) heardAll() {
	n.t.Helper()
	var at position
	n.dialect.points.mu.Lock()
	for _, p := range n.dialect.points.byKey {
		at = p.saved(time.Now()).last().at
	}
	n.dialect.points.mu.Unlock()
	knows(n.t.(*testing.T), n.other, "the position", func(p *resumePoint) bool { return p.elsewhere["first"].last().at.equal(at) })
}

// The client continues at another node, whether the first one still answers or is lost, and whether the answer has ended meanwhile or not.
func TestContinueAtAnotherNode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ lost, ended bool }{
		"the first node answers":                 {},
		"the first node is lost":                 {lost: true},
		"the answer ended meanwhile":             {ended: true},
		"the answer ended, and the node is lost": {lost: true, ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			n := newNodes(t, setup{agents: map[string]agent.Agent{"demo": counter{40, map[int]chan struct{}{5: gate}}}})
			first := n.dial("?session=s1&conversation_id=c1")
			first.say("c1", "m1", "go")
			got := first.readWords(5)
			got = append(got, first.sync()...)
			n.heardAll()
			n.cut.Store(c.lost)
			first.drop()
			if c.ended {
				close(gate)
				n.waitTurns("c1", 1)
			}
			second := n.dialSecond("?session=s1&conversation_id=c1")
			if !c.ended {
				knows(t, n.other, "the client", func(p *resumePoint) bool { return len(p.live) == 1 && p.live[0].saved.Base != 0 })
				close(gate)
			}
			if got = second.readRest(got); textOf(got) != words1toN(40) {
				t.Errorf("got %q", textOf(got))
			}
		})
	}
}

// A client that comes back to a node continues where it stopped at the other one, not where it stopped here.
func TestBackAtTheFirstNode(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} { // whether the first node hears what happens in between
		n := newNodes(t, setup{})
		c := n.dial("?conversation_id=c1")
		c.say("c1", "m1", "one")
		c.readTurn()
		c.sync()
		n.heardAll()
		n.cut.Store(lost)
		c.drop()
		c = n.dialSecond("?conversation_id=c1")
		c.say("c1", "m2", "two")
		if got := textOf(c.readTurn()); got != "You said: two" {
			t.Errorf("at the second node: %q", got)
		}
		c.sync()
		n.cut.Store(false)
		c.drop()
		c = n.dial("?conversation_id=c1")
		c.say("c1", "m3", "three")
		if got := textOf(c.readTurn()); got != "You said: three" {
			t.Errorf("back at the first node: %q", got)
		}
	}
}

// What nodes know of each other's clients survives a kill of all of them.
func TestPositionsOfOtherNodesSurviveKills(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	open := func() *resumePoints {
		nodes := &Nodes{Name: "here", Broadcast: func([]byte) {}, Others: func() int { return 0 }}
		return newResumePoints(dir, nodes, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	}
	r := open()
	tab := &subscription{}
	r.add("k", tab)
	r.depart(tab, positionAt(5), connectionLost)
	passed := pointOf("there", clients{1, positionAt(9), now, connected})
	r.receive(&nodeMessage{Node: "there", Points: []string{r.line(passed)}})
	if got, ok, _ := open().resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(9)) {
		t.Errorf("the client continues at %v, %t", got, ok)
	}
}

// pointOf is what a node knows of its clients of the conversation k.
func pointOf(node string, groups ...clients) savedPoint {
	return savedPoint{key: "k", groups: groups, moves: 1, node: node}
}

// A third node may know more of the clients of a lost node than this one, or less.
func TestPositionThatAThirdNodeKnows(t *testing.T) {
	now := time.Now()
	nodes := &Nodes{Name: "here", Broadcast: func([]byte) {}, Others: func() int { return 0 }}
	r := newResumePoints("", nodes, time.Now, slog.New(slog.DiscardHandler))
	hear := func(from string, at chat.Seq, when time.Time) {
		r.receive(&nodeMessage{Node: from, Points: []string{r.line(pointOf("lost", clients{1, positionAt(at), when, connected}))}})
	}
	hear("lost", 5, now)
	hear("third", 9, now.Add(time.Millisecond))
	hear("third", 7, now.Add(time.Microsecond))
	hear("lost", 7, now.Add(time.Microsecond)) // it was sent before the other one and came later
	if got, ok, _ := r.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(9)) {
		t.Errorf("the client continues at %v, %t", got, ok)
	}
}

// A node that knows nothing of a client's way, and could ask nobody, has the last position of it all the same.
func TestMoveToANodeThatKnowsNothing(t *testing.T) {
	dial := func(name string) *resumePoints {
		return newResumePoints("", &Nodes{Name: name, Broadcast: func([]byte) {}, Others: func() int { return 0 }}, time.Now, slog.New(slog.DiscardHandler))
	}
	old, lost := dial("old"), dial("lost")
	for n := range chat.Seq(3) { // the client has been at the old node several times
		sub := &subscription{}
		old.addSender("k", sub)
		old.depart(sub, positionAt(n+1), connectionLost)
	}
	sub := &subscription{}
	lost.addSender("k", sub)
	lost.save(sub, positionAt(9))
	lost.mu.Lock()
	line := lost.line(sub.point.saved(time.Now()))
	lost.mu.Unlock()
	old.receive(&nodeMessage{Node: "third", Points: []string{line}})
	if got, ok, _ := old.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(9)) {
		t.Errorf("the client continues at %v, %t", got, ok)
	}
}

// A node that has just started waits for the answer of another one, and asks again.
func TestNodeWaitsForAnAnswer(t *testing.T) {
	var r *resumePoints
	asked := 0
	nodes := &Nodes{Name: "here", Least: 1, Others: func() int { return 0 }}
	nodes.Broadcast = func(data []byte) {
		var m nodeMessage
		if err := json.Unmarshal(data, &m); err != nil || m.Question == "" {
			return
		}
		if asked++; asked == 2 { // the first one is lost
			s := pointOf("there", clients{1, positionAt(9), time.Now(), connectionLost})
			go r.receive(&nodeMessage{Node: "there", Answer: m.Question, Points: []string{r.line(s)}})
		}
	}
	r = newResumePoints("", nodes, time.Now, slog.New(slog.DiscardHandler))
	if got, ok, _ := r.resume(t.Context(), "k", &subscription{}); !ok || !got.equal(positionAt(9)) {
		t.Errorf("the client continues at %v, %t", got, ok)
	}
}

// A client that no node knows starts when it connects, not when the other nodes have answered.
func TestNewClientMissesNothingWhileNodesAreAsked(t *testing.T) {
	t.Parallel()
	n := newNodes(t, setup{})
	n.startConversation(local, "c1", "first")
	n.happened("c1", "turn.completed")
	n.cut.Store(true)
	asked := func() {
		message := chat.NewDraft(chat.UserMessage{Text: "second"}).As("m2")
		message.Via = via
		if _, err := n.Sessions.Append(t.Context(), local, "c1", []chat.Draft{message}); err != nil {
			t.Error(err)
		}
		n.waitTurns("c1", 2)
	}
	n.asked.Store(&asked)
	if got := textOf(n.dialSecond("?conversation_id=c1").readTurn()); got != "You said: second" {
		t.Errorf("got %q", got)
	}
}

// A client that leaves while its message is being stored has departed, also for the other nodes.
func TestClientLeavesWhileItsMessageIsStored(t *testing.T) {
	t.Parallel()
	n := newNodes(t, setup{})
	n.startConversation(local, "c1", "first")
	n.happened("c1", "turn.completed")
	block := newGate()
	g := &gated{Sessions: n.Sessions}
	g.append.Store(block)
	n.dialect.opt.Sessions = g
	c := n.dial("?conversation_id=c1")
	c.ignorePings.Store(true)
	key := ""
	knows(t, n.dialect, "the client", func(p *resumePoint) bool {
		key = p.key
		return len(p.live) == 1 && p.live[0].saved.Base != 0
	})
	c.say("c1", "m2", "second")
	<-block.entered
	c.drop()
	live := n.other.points.ask(t.Context(), key)
	if count, answered := live["first"]; !answered || count != 0 {
		t.Errorf("connected are %v", live)
	}
	close(block.open)
	n.waitTurns("c1", 2)
}

// A tab at another node is a new one while the first tab is connected, and both can be continued.
func TestTabsAtTwoNodes(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	n := newNodes(t, setup{agents: map[string]agent.Agent{"demo": counter{40, map[int]chan struct{}{5: gate}}}})
	openSecondTab(n.dial("?session=s1&conversation_id=c1"), gate, func() *client { return n.dialSecond("?session=s1&conversation_id=c1") })
}

// behind is the sessions of a node that does not have the last events yet.
type behind struct {
	*session.Sessions
	state atomic.Pointer[chat.State] // what it has; nil when it has all
	waits chan struct{}              // gets something when it is waited for
}

func (b *behind) GetAt(ctx context.Context, c chat.Caller, id chat.SessionID, seq chat.Seq) (chat.Session, error) {
	if st := b.state.Load(); st != nil && seq > st.Last {
		tell(b.waits)
		return chat.Session{}, chat.Errorf(chat.Unavailable, "this node is behind")
	}
	return b.Sessions.GetAt(ctx, c, id, seq)
}

func (b *behind) State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error) {
	if st := b.state.Load(); st != nil {
		return st.Clone(), nil
	}
	return b.Sessions.State(ctx, c, id)
}

// A node that does not have what the client has read waits for it.
func TestNodeWaitsForWhatTheClientHas(t *testing.T) {
	t.Parallel()
	b := &behind{waits: make(chan struct{}, 1)}
	n := newNodes(t, setup{change: func(o *Options) {
		b.Sessions = o.Sessions.(*session.Sessions)
		o.Sessions = b
	}})
	c := n.dial("?conversation_id=c1")
	c.say("c1", "m1", "one")
	c.readTurn()
	old, err := n.Sessions.State(t.Context(), chat.Trusted, "c1")
	if err != nil {
		t.Fatal(err)
	}
	c.say("c1", "m2", "two")
	c.readTurn()
	c.sync()
	c.drop()
	n.waitDeparted(1)
	b.state.Store(old)
	c = n.dialSecond("?conversation_id=c1")
	select {
	case <-b.waits:
	case <-time.After(30 * time.Second):
		t.Error("the node does not wait for what the client has")
	}
	b.state.Store(nil)
	c.say("c1", "m3", "three")
	if got := textOf(c.readTurn()); got != "You said: three" {
		t.Errorf("got %q", got)
	}
}

// flaky fails each call once, and a watch after each batch.
type flaky struct {
	*session.Sessions
	own, state atomic.Bool
}

var errBusy = chat.Errorf(chat.Unavailable, "this node cannot answer now")

func (f *flaky) Own(ctx context.Context, c chat.Caller, foreign string) (chat.Session, error) {
	if f.own.CompareAndSwap(false, true) {
		return chat.Session{}, errBusy
	}
	return f.Sessions.Own(ctx, c, foreign)
}

func (f *flaky) State(ctx context.Context, c chat.Caller, id chat.SessionID) (*chat.State, error) {
	if f.state.CompareAndSwap(false, true) {
		return nil, errBusy
	}
	return f.Sessions.State(ctx, c, id)
}

func (f *flaky) Watch(ctx context.Context, c chat.Caller, id chat.SessionID, from core.Start, enc core.Encoding) iter.Seq2[core.Batch, error] {
	return func(yield func(core.Batch, error) bool) {
		for batch, err := range f.Sessions.Watch(ctx, c, id, from, enc) {
			if !yield(batch, err) || err != nil {
				return
			}
			if len(batch.Entries) > 0 {
				yield(core.Batch{}, errBusy)
				return
			}
		}
	}
}

// A client does not notice that the node could not answer for a moment.
func TestUnavailableSessionIsTriedAgain(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w := newServer(t, setup{
		agents: map[string]agent.Agent{"demo": counter{30, map[int]chan struct{}{5: gate}}},
		change: func(o *Options) { o.Sessions = &flaky{Sessions: o.Sessions.(*session.Sessions)} },
	})
	w.startConversation(local, "c1", "go")
	c := w.dial("?conversation_id=c1")
	seen := c.readWords(5)
	close(gate)
	if got := textOf(c.readRest(seen)); got != words1toN(30) {
		t.Errorf("got %q", got)
	}
}

// A node that does not catch up says that it is behind, not that there is no such turn.
func TestNodeThatIsBehindDoesNotDenyTurns(t *testing.T) {
	t.Parallel()
	cluster := servertest.NewCluster()
	w := newServer(t, setup{cluster: cluster})
	_, body, _ := w.Call("POST", "/v1/workflow", inputBody("/ask text"))
	var x execution
	if err := json.Unmarshal([]byte(body), &x); err != nil || x.ResponseURL == "" {
		t.Fatal(body, err)
	}
	cluster.CutLog(true)
	defer cluster.CutLog(false)
	sess, _, err := w.Owner.Create(t.Context(), chat.Trusted, chat.NewSession{Agent: chat.NoAgent})
	if err != nil {
		t.Fatal(err)
	}
	events, err := w.Owner.Append(t.Context(), chat.Trusted, sess.ID, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "hello"})})
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimPrefix(string(events[0].ID), chat.EventPrefix)
	for path, body := range map[string]string{
		"/feedback": `{"observability_trace_id":"` + id + `","comment":"nice"}`,
		x.ResponseURL[:strings.LastIndex(x.ResponseURL, "/interactions/")] + "/interactions/" + id + "/response": `{"response":{"type":"text","text":"Ada"}}`,
	} {
		if code, body, header := w.Call("POST", path, body); code != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}
