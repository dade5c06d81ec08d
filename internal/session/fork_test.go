package session

import (
	"bytes"
	"encoding/base64"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/attachment"
)

func TestForkHasTheEventsOfTheOriginal(t *testing.T) {
	var told []chat.Event
	w := newTestStore(t, Options{Observers: []Observer{{Committed: func(evs []chat.Event) { told = append(told, evs...) }}}})
	id := w.begin("s", chat.NewSession{Title: "Plans", Members: []chat.Member{{Actor: bob.Actor, Role: chat.Viewer}}})
	w.say(id, "first secret")
	ref := w.turn(id)
	request := w.ask(id, chat.AgentInputRequest{InputType: chat.InputText, Text: "Name?"})
	if _, err := w.Answer(ctx, ann, id, request, chat.Answer{Text: "Ann"}); err != nil {
		t.Fatal(err)
	}
	w.launch(id, chat.Launch{ID: "w1"})
	w.append(bot, id, chat.AgentText{Text: `He said "turn_id":"` + string(ref.Turn) + `".`})
	w.end(ref, chat.Done)
	archived := true
	if sess, err := w.Update(ctx, ann, id, chat.SessionUpdated{Archived: &archived}); err != nil || !sess.Archived {
		t.Fatalf("%+v %v", sess, err)
	}
	last := w.state(id).Last

	// A member with read access can fork, and is the only owner of the fork.
	fork, err := w.Fork(ctx, bob, id, chat.Fork{})
	if err != nil {
		t.Fatal(err)
	}
	if fork.ForkedOf != id || fork.ForkedAt != last || !fork.Owner.Same(bob.Actor) || len(fork.Members) != 0 || fork.Archived || fork.Title != "Plans" || fork.Status != chat.Idle {
		t.Fatalf("%+v", fork)
	}
	_, err = w.Get(ctx, ann, fork.ID)
	w.wantCode(err, chat.NotFound)

	// The events have the same content with the fork's ids; events checks their chain.
	before, after := w.events(id), w.events(fork.ID)
	if len(after) <= len(before) {
		t.Fatalf("%d events of %d", len(after), len(before))
	}
	number := w.state(fork.ID).Number
	for i, e := range before {
		f := after[i]
		if f.Type != e.Type || f.At != e.At || f.Workstream != e.Workstream || f.Session != fork.ID || i > 0 && f.Actor != e.Actor {
			t.Fatalf("%+v became %+v", e, f)
		}
		if gid, ok := chat.ParseID(chat.EventPrefix, string(f.ID)); !ok || gid != chat.MakeID(number, f.Seq) {
			t.Fatalf("event %d has the id %s", f.Seq, f.ID)
		}
		if e.Type != "agent.text" && bytes.Contains(f.Payload, []byte(ref.Turn)) || f.Turn == ref.Turn {
			t.Fatalf("%s still names a turn of the other session", f.Payload)
		}
		if b, ok := f.Body.(chat.AgentText); ok && b.Text != e.Body.(chat.AgentText).Text {
			t.Fatalf("the text became %q", b.Text)
		}
	}
	// Ids resolve within the fork.
	turn, _ := chat.ParseID(chat.TurnPrefix, string(after[2].Body.(chat.TurnStarted).TurnID))
	if sess, seq, err := w.ByID(ctx, bob, turn); err != nil || sess.ID != fork.ID || seq != 3 {
		t.Fatal(sess.ID, seq, err)
	}
	// The open turn is ended in the fork and continues in the original.
	if s := w.status(id, "w1"); s.State != chat.WorkRunning {
		t.Fatalf("%+v", s)
	}
	if st, err := w.State(ctx, bob, fork.ID); err != nil || st.Workstream("w1").State != chat.WorkCanceled || st.Busy() {
		t.Fatal(st, err)
	}
	// The two are independent, also after a restart and after one is erased.
	w.restart()
	if _, err := w.Append(ctx, bob, fork.ID, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "my way"})}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(w.story(id), "my way") {
		t.Fatal("the first one hears what is said in the fork")
	}
	if _, err := w.Erase(ctx, ann, id); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(w.story(fork.ID), "first secret") || !strings.Contains(w.story(fork.ID), "my way") {
		t.Fatal("the fork lost its past")
	}
	if len(told) == 0 {
		t.Fatal("nobody was told")
	}
}

func TestForkAtAnEventEndsTheOpenTurn(t *testing.T) {
	var told []chat.Event
	w := newTestStore(t, Options{Observers: []Observer{{Committed: func(evs []chat.Event) { told = append(told, evs...) }}}})
	id := w.begin("s")
	q := w.say(id, "why?")
	ref := w.turn(id)
	w.append(bot, id, chat.AgentToolCall{CallID: "c", Tool: "grep"})
	cut := w.state(id).Last
	w.append(bot, id, chat.AgentToolResult{CallID: "c", Tool: "grep"}, chat.AgentText{Text: "Because."})
	w.end(ref, chat.Done)

	// Forked after the message: it starts a new turn.
	told = nil
	again, err := w.Fork(ctx, ann, id, chat.Fork{ID: "again", After: q.Seq, Title: "Another answer", Agent: "other"})
	if err != nil {
		t.Fatal(err)
	}
	w.wantStory("again", "session.started", "user.message why?", "session.updated", "turn.started for 2")
	if again.Agent != "other" || again.Title != "Another answer" || again.Status != chat.Running {
		t.Fatalf("%+v", again)
	}
	if n := len(told); n != 2 || told[n-1].Body.(chat.TurnStarted).Agent != "other" {
		t.Fatal("the runner is not told of the turn")
	}
	// Forked in the middle of a turn: the turn is ended.
	if _, err := w.Fork(ctx, ann, id, chat.Fork{ID: "half", After: cut}); err != nil {
		t.Fatal(err)
	}
	w.wantStory("half", "session.started", "user.message why?", "turn.started for 2", "agent.tool_call",
		"agent.tool_error unknown_outcome", "turn.completed interrupted", "session.updated")

	// Messages that are queued for an ended workstream are withdrawn.
	w.launch(id, chat.Launch{ID: "w1"})
	waits := chat.NewDraft(chat.UserMessage{Text: "and this?"})
	waits.Workstream = "w1"
	if _, err := w.Append(ctx, ann, id, []chat.Draft{waits}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Fork(ctx, ann, id, chat.Fork{ID: "late"}); err != nil {
		t.Fatal(err)
	}
	if evs := w.events("late"); !slices.ContainsFunc(evs, func(e chat.Event) bool { return e.Type == "user.message_withdrawn" && e.Workstream == "w1" }) {
		t.Fatal(w.saga("late"))
	}

	_, err = w.Fork(ctx, ann, id, chat.Fork{ID: "half"})
	w.wantCode(err, chat.Conflict)
	// The id of another user's session does not reveal that the session exists.
	if _, _, err := w.Create(ctx, bob, chat.NewSession{ID: "bobs", Agent: chat.NoAgent}); err != nil {
		t.Fatal(err)
	}
	hidden, err := w.Fork(ctx, ann, id, chat.Fork{ID: "bobs"})
	if err != nil || hidden.ID == "bobs" {
		t.Fatal(hidden, err)
	}
	if id, err := w.Resolve(ctx, ann, "bobs"); err != nil || id != hidden.ID {
		t.Fatal(id, err)
	}
	_, err = w.Fork(ctx, ann, id, chat.Fork{After: 999})
	w.wantCode(err, chat.Invalid)
	_, err = w.Fork(ctx, bob, id, chat.Fork{})
	w.wantCode(err, chat.NotFound)
	_, err = w.Fork(ctx, ann, id, chat.Fork{ID: "no/slash"})
	w.wantCode(err, chat.Invalid)
}

func TestForkOfManyEvents(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Agent: chat.NoAgent})
	bodies := make([]chat.Body, 900)
	for i := range bodies {
		bodies[i] = chat.UserMessage{Text: "x"}
	}
	w.append(ann, id, bodies...)
	w.append(ann, id, bodies...)
	fork, err := w.Fork(ctx, ann, id, chat.Fork{})
	if err != nil {
		t.Fatal(err)
	}
	w.restart()
	if n := len(w.events(fork.ID)); n != 1802 {
		t.Fatalf("%d events", n)
	}
}

// An edited message is one step: the fork, its settings and the message are stored together or not at all.
func TestForkBeginsWithAMessage(t *testing.T) {
	picture := strings.Repeat("\x00\xff", attachment.MaxInline/2)
	link := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(picture))
	files, err := artifact.Open(t.TempDir(), artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newTestStore(t, Options{Artifacts: files})
	id := w.begin("s", chat.NewSession{Agent: "demo", Title: "Plans", Settings: chat.Settings{Approvals: chat.ApproveAll, Effort: "low"}})
	w.say(id, "first")
	w.turn(id)
	queued := w.say(id, "second")

	fork := chat.Fork{
		ID: "f", After: queued.Seq, Agent: "other", Settings: &chat.Settings{Effort: "high"},
		Message: &chat.UserMessage{Text: "second, better", Content: []chat.Part{{Type: "image", URL: link, Name: "n"}}},
	}
	sess, err := w.Fork(ctx, ann, id, fork)
	if err != nil || sess.Title != "" || sess.Agent != "other" || sess.Settings.Effort != "high" || sess.Settings.Approvals != "" || sess.Status != chat.Running {
		t.Fatalf("%+v %v", sess, err)
	}
	w.wantStory("f", "session.started", "user.message first", "turn.started for 2", "user.message second", "turn.completed interrupted", "session.updated",
		"user.message_withdrawn", "user.message second, better", "turn.started for 8")
	part := w.events("f")[7].Body.(chat.UserMessage).Content[0]
	body, info, err := files.Get(ctx, "f", part.Path)
	if err != nil || part.URL != "" || part.Name != "n" || info.MediaType != "image/png" {
		t.Fatalf("%+v %+v %v", part, info, err)
	}
	got, err := io.ReadAll(body)
	if err != nil || string(got) != picture || body.Close() != nil {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if _, err := files.Stat(ctx, id, part.Path); chat.CodeOf(err) != chat.NotFound {
		t.Error("the original has the file of the fork:", err)
	}

	// What cannot be stored leaves no fork.
	fork.ID = "g"
	for _, message := range []chat.UserMessage{{}, {Text: strings.Repeat("x", chat.MaxEvent)}, {Content: []chat.Part{{Type: "image", URL: link}, {Type: "text", Text: strings.Repeat("x", chat.MaxEvent)}}}} {
		fork.Message = &message
		if _, err := w.Fork(ctx, ann, id, fork); err == nil {
			t.Fatal("a message that cannot be stored was stored")
		}
		if _, err := w.Get(ctx, ann, "g"); chat.CodeOf(err) != chat.NotFound {
			t.Error("the fork is there without its message:", err)
		}
		if n, _, err := files.Usage(ctx, "g"); n != 0 || err != nil {
			t.Errorf("%d files are left, %v", n, err)
		}
	}
	// Only a person turns on automatic approval.
	program := ann
	program.Actor = chat.Actor{Kind: chat.Agent, ID: "program"}
	fork.Message, fork.Settings = nil, &chat.Settings{Approvals: chat.ApproveAll}
	if _, _, err := w.Create(ctx, program, chat.NewSession{ID: "own"}); err != nil {
		t.Fatal(err)
	}
	_, err = w.Fork(ctx, program, "own", chat.Fork{Settings: fork.Settings})
	w.wantCode(err, chat.Denied)
}
