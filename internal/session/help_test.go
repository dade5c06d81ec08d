package session

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/hub"
	store "github.com/parley-hq/parley/internal/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// spy wraps the real journal; a test can observe, delay or refuse its commits.
type spy struct {
	*store.Journal
	commits atomic.Int64
	before  func(c *core.Commit) error // may refuse or delay a commit
}

func (s *spy) Commit(ctx context.Context, c *core.Commit) error {
	if s.before != nil {
		if err := s.before(c); err != nil {
			return err
		}
	}
	s.commits.Add(1)
	return s.Journal.Commit(ctx, c)
}

func (s *spy) CommitLater(c *core.Commit, then core.CommitDone) (lead func(), err error) {
	if s.before == nil {
		s.commits.Add(1)
		return s.Journal.CommitLater(c, then)
	}
	return func() {
		then.Done(s.Commit(ctx, c))
		then.GroupDone()
	}, nil
}

// tester is implemented by testing.T and rapid.T.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

// testStore is a journal, a hub and Sessions on a disk in memory.
type testStore struct {
	t    tester
	disk vfs.FS
	opt  Options
	now  atomic.Int64 // microseconds; 0 means the real clock

	log *spy
	hub *hub.Hub
	*Sessions
	closed bool
}

func newTestStore(t testing.TB, opt Options) *testStore {
	w := startTestStore(t, opt)
	t.Cleanup(w.close)
	return w
}

func startTestStore(t tester, opt Options) *testStore {
	w := &testStore{t: t, disk: vfs.NewMem(), opt: opt}
	w.opt.Now = func() time.Time {
		if now := w.now.Load(); now != 0 {
			return time.UnixMicro(now)
		}
		return time.Now()
	}
	w.start()
	return w
}

func (w *testStore) start() {
	w.t.Helper()
	j, err := store.Open(filepath.Join("/", "data"), store.Options{FS: w.disk, Sync: store.SyncNever, MinFree: -1, MinFreePercent: -1})
	if err != nil {
		w.t.Fatal(err)
	}
	w.log = &spy{Journal: j}
	w.hub = hub.New(j, hub.Options{})
	for id, blocks := range j.OpenBlocks() {
		w.hub.Restore(id, blocks)
	}
	w.Sessions = New(w.log, w.hub, w.opt)
	w.closed = false
}

func (w *testStore) close() {
	if w.closed {
		return
	}
	w.closed = true
	w.hub.Close(nil)
	if err := w.log.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// restart closes everything and opens it again on the same disk.
func (w *testStore) restart() {
	w.t.Helper()
	w.close()
	w.start()
}

func user(id string, scopes ...chat.Scope) chat.Caller {
	return chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: id, Name: strings.ToUpper(id)}, Scopes: append(scopes, chat.ScopeUser)}
}

var (
	ann = user("ann")
	bob = user("bob")
	bot = chat.Caller{Actor: chat.Actor{Kind: chat.Agent, ID: "demo"}, Scopes: []chat.Scope{chat.ScopeAgent}}
)

// begin creates a session of ann's.
func (w *testStore) begin(id chat.SessionID, n ...chat.NewSession) chat.SessionID {
	w.t.Helper()
	var ns chat.NewSession
	if len(n) > 0 {
		ns = n[0]
	}
	ns.ID = id
	if _, _, err := w.Create(ctx, ann, ns); err != nil {
		w.t.Fatal(err)
	}
	return id
}

func (w *testStore) append(c chat.Caller, id chat.SessionID, bodies ...chat.Body) []chat.Event {
	w.t.Helper()
	drafts := make([]chat.Draft, len(bodies))
	for i, b := range bodies {
		drafts[i] = chat.NewDraft(b)
	}
	evs, err := w.Append(ctx, c, id, drafts)
	if err != nil {
		w.t.Fatalf("append: %v", err)
	}
	return evs
}

func (w *testStore) say(id chat.SessionID, text string) chat.Event {
	w.t.Helper()
	return w.append(ann, id, chat.UserMessage{Text: text})[0]
}

// events reads the whole log and checks its numbers, positions and chain.
func (w *testStore) events(id chat.SessionID) []chat.Event {
	w.t.Helper()
	facts, more, err := w.log.Read(ctx, id, chat.Range{})
	if err != nil || more {
		w.t.Fatalf("read: %v %v", more, err)
	}
	evs, err := parse(facts)
	if err != nil {
		w.t.Fatal(err)
	}
	var prev chat.Hash
	var at chat.At
	for i, e := range evs {
		if e.Seq != chat.Seq(i+1) {
			w.t.Fatalf("event %d has number %d", i+1, e.Seq)
		}
		if e.Prev != prev {
			w.t.Fatalf("event %d does not follow the one before", e.Seq)
		}
		if e.At < at+core.AtStep {
			w.t.Fatalf("event %d is at %d after %d", e.Seq, e.At, at)
		}
		prev, at = facts[i].Hash(), e.At
	}
	return evs
}

// story returns the types of the events, with the important fields of their payloads.
func (w *testStore) story(id chat.SessionID) string {
	w.t.Helper()
	var out []string
	for _, e := range w.events(id) {
		line := e.Type
		switch b := e.Body.(type) {
		case chat.UserMessage:
			line += " " + b.Text
		case chat.AgentText:
			line += " " + b.Text
			if b.Partial {
				line += " (partial)"
			}
		case chat.TurnStarted:
			line += fmt.Sprintf(" for %d", b.Trigger)
		case chat.TurnCompleted:
			line += " " + string(b.Outcome)
		case chat.PromptClosed:
			line += " " + string(b.Reason)
		case chat.TurnInput:
			line += fmt.Sprint(" ", b.Sequences)
		case chat.AgentToolError:
			line += " " + b.Code
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func (w *testStore) wantStory(id chat.SessionID, lines ...string) {
	w.t.Helper()
	if got, want := w.story(id), strings.Join(lines, "\n"); got != want {
		w.t.Fatalf("the log is\n%s\n\nwant\n%s", got, want)
	}
}

// turn returns the running turn of the main line.
func (w *testStore) turn(id chat.SessionID) chat.TurnRef {
	w.t.Helper()
	st := w.state(id)
	t := st.Line("").Turn
	if t == nil {
		w.t.Fatalf("no turn runs")
	}
	return chat.TurnRef{Session: id, Turn: t.ID, Attempt: t.Attempt}
}

func (w *testStore) state(id chat.SessionID) *chat.State {
	w.t.Helper()
	st, err := w.State(ctx, chat.Trusted, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}

func (w *testStore) end(ref chat.TurnRef, o chat.Outcome) {
	w.t.Helper()
	if err := w.EndTurn(ctx, ref, o, ""); err != nil {
		w.t.Fatal(err)
	}
}

// draft returns a draft of the agent in a turn.
func draft(ref chat.TurnRef, b chat.Body) []chat.Draft {
	d := chat.NewDraft(b)
	d.Turn, d.Attempt = ref.Turn, ref.Attempt
	return []chat.Draft{d}
}

func piece(ref chat.TurnRef, block chat.BlockID, offset int, text string) []chat.Preview {
	return []chat.Preview{{Block: block, Offset: offset, Text: text, Turn: ref.Turn, Attempt: ref.Attempt}}
}

func (w *testStore) show(ref chat.TurnRef, block chat.BlockID, offset int, text string) {
	w.t.Helper()
	if err := w.Preview(ctx, bot, ref.Session, piece(ref, block, offset, text)); err != nil {
		w.t.Fatalf("preview: %v", err)
	}
}

func (w *testStore) wantCode(err error, want chat.Code) {
	w.t.Helper()
	if got := chat.CodeOf(err); got != want {
		w.t.Fatalf("got %q (%v), want %q", got, err, want)
	}
}

// ask opens a prompt and returns its id.
func (w *testStore) ask(id chat.SessionID, body chat.Body) string {
	w.t.Helper()
	e := w.append(bot, id, body)[0]
	p, ok := chat.AsPrompt(&e)
	if !ok {
		w.t.Fatalf("%s opened no prompt", e.Type)
	}
	return p.RequestID
}

// reader follows a session and folds the entries that it receives.
type reader struct {
	mu     sync.Mutex
	fold   chat.Transcript
	log    []string // events by number
	ats    []chat.At
	cursor chat.Cursor
	err    error
	moved  chan struct{}
	byPos  bool // in order of position, also what came before it
}

func newReader(from chat.Cursor) *reader { return &reader{cursor: from, moved: make(chan struct{}, 1)} }

// run follows the session from the reader's cursor until ctx ends.
func (r *reader) run(ctx context.Context, s *Sessions, c chat.Caller, id chat.SessionID) error {
	from := r.cursor
	from.Blocks = slices.Clone(from.Blocks)
	for batch, err := range s.Watch(ctx, c, id, core.Start{Cursor: &from, ByPosition: r.byPos}, nil) {
		if err != nil {
			return err
		}
		r.mu.Lock()
		for i := range batch.Entries {
			r.take(&batch.Entries[i])
		}
		r.cursor = batch.Cursor
		r.cursor.Blocks = slices.Clone(batch.Cursor.Blocks)
		r.mu.Unlock()
		select {
		case r.moved <- struct{}{}:
		default:
		}
	}
	return nil
}

func (r *reader) take(e *core.Entry) {
	r.ats = append(r.ats, e.At)
	if e.Piece != nil {
		r.fold.Preview(e.Piece)
		return
	}
	ev, err := e.Fact.Event()
	if err != nil {
		r.err = err
		return
	}
	r.log = append(r.log, string(e.Fact.JSON))
	r.fold.Apply(&ev)
}

// until waits until the condition holds for the reader.
func (r *reader) until(ok func() bool) {
	for {
		r.mu.Lock()
		done := ok()
		r.mu.Unlock()
		if done {
			return
		}
		<-r.moved
	}
}

// blockOf returns an open block.
func blockOf(h *hub.Hub, id chat.SessionID, block chat.BlockID) (b chat.Block, ok bool) {
	all := h.Blocks(id)
	i := slices.IndexFunc(all, func(b chat.Block) bool { return b.ID == block })
	if i >= 0 {
		b = all[i]
	}
	return b, i >= 0
}
