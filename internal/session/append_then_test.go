package session

import (
	"fmt"
	"sync"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// answered receives the answer of AppendThen.
type answered struct {
	events []chat.Event
	err    error
	done   func()
}

func (a *answered) Answer(events []chat.Event, err error) {
	a.events, a.err = events, err
	a.done()
}

func (a *answered) Flush() {}

// appendThen calls AppendThen and runs what it leaves to its caller.
func (w *testStore) appendThen(c chat.Caller, id chat.SessionID, wg *sync.WaitGroup, drafts ...chat.Draft) (*answered, error) {
	a := &answered{done: wg.Done}
	wg.Add(1)
	run, err := w.AppendThen(ctx, c, id, drafts, a)
	if err != nil {
		wg.Done()
	}
	if run != nil {
		go run()
	}
	return a, err
}

// Appends for which nobody waits have the order of their calls, also among other requests.
func TestAppendThenKeepsTheOrder(t *testing.T) {
	w := newTestStore(t, Options{})
	const sessions, each = 20, 50
	var wg sync.WaitGroup
	all := map[chat.SessionID][]*answered{}
	var ids []chat.SessionID
	for i := range sessions {
		ids = append(ids, w.begin(chat.SessionID(fmt.Sprint("s", i)), chat.NewSession{Agent: chat.NoAgent}))
	}
	for n := range each {
		for i, id := range ids {
			a, err := w.appendThen(ann, id, &wg, chat.NewDraft(chat.UserMessage{Text: fmt.Sprint(n)}))
			if err != nil {
				t.Fatal(err)
			}
			all[id] = append(all[id], a)
			if n%10 == i%10 {
				wg.Go(func() { w.state(id) })
			}
		}
	}
	wg.Wait()
	for _, id := range ids {
		for n, a := range all[id] {
			if a.err != nil || len(a.events) != 1 || a.events[0].Seq != chat.Seq(n+2) {
				t.Fatalf("append %d of %s: %v, %v", n, id, a.events, a.err)
			}
		}
		w.events(id)
	}
}

// A refused append, and one that the journal refuses, get the error that Append returns.
func TestAppendThenReportsErrors(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Agent: chat.NoAgent})
	w.say(id, "first")
	var wg sync.WaitGroup
	late := chat.NewDraft(chat.UserMessage{Text: "late"})
	late.AfterSeq = 1
	refused, err := w.appendThen(ann, id, &wg, late)
	if err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	w.wantCode(refused.err, chat.Conflict)
	if _, err := w.appendThen(ann, "none", &wg, late); chat.CodeOf(err) != chat.NotFound {
		t.Errorf("a session that does not exist: %v", err)
	}
	conflicts := 1
	w.log.before = func(*core.Commit) error {
		if conflicts--; conflicts >= 0 {
			return chat.Errorf(chat.Conflict, "not now").WithReason(chat.CommitConflict)
		}
		return nil
	}
	again, err := w.appendThen(ann, id, &wg, chat.NewDraft(chat.UserMessage{Text: "decided twice"}))
	if err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if again.err != nil || again.events[0].Seq != 3 {
		t.Errorf("after a conflict: %v, %v", again.events, again.err)
	}
	w.log.before = func(*core.Commit) error { return chat.Errorf(chat.Unavailable, "the disk is full") }
	full, err := w.appendThen(ann, id, &wg, chat.NewDraft(chat.UserMessage{Text: "not stored"}))
	if err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	w.wantCode(full.err, chat.Unavailable)
	w.log.before = nil
	if e := w.say(id, "stored"); e.Seq != 4 {
		t.Errorf("the next event is %d", e.Seq)
	}
}
