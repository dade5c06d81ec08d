package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

func TestInvalidPreviewsAreRefused(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "a")
	ref := w.turn(id)
	refuse := func(want chat.Code, p ...chat.Preview) error {
		t.Helper()
		err := w.Preview(ctx, bot, id, p)
		w.wantCode(err, want)
		return err
	}
	text := func(want string) {
		t.Helper()
		if b, _ := blockOf(w.hub, id, "b"); b.Text != want {
			t.Fatalf("the block is %q, not %q", b.Text, want)
		}
	}
	p := func(block chat.BlockID, offset int, s string) chat.Preview { return piece(ref, block, offset, s)[0] }
	w.show(ref, "b", 0, "Grü")
	if err := refuse(chat.Invalid, p("b", 5, "x")); chat.Public(err).Details["have"] != 4 {
		t.Fatal("a gap is not told what there is", err)
	}
	w.show(ref, "b", 0, "Grü") // again
	w.show(ref, "b", 2, "ü")   // a repeated part
	w.show(ref, "b", 0, "Grüße")
	text("Grüße")
	refuse(chat.Conflict, p("b", 0, "Hallo ihr")) // differs from the shown text
	refuse(chat.Conflict, p("b", 0, "Ha"))
	refuse(chat.Invalid, p("b", 7, "\xff"))
	thinking := p("b", 7, "x")
	thinking.Kind = chat.ThinkingBlock
	refuse(chat.Conflict, thinking)
	refuse(chat.TooLarge, p("b", 7, strings.Repeat("x", chat.MaxBlock)))
	// One invalid piece: the whole request is refused.
	if err := refuse(chat.Invalid, p("b", 7, " an"), p("c", 0, "x"), p("b", 99, "x")); chat.Public(err).Details["have"] != 7 {
		t.Fatal("what was not shown is counted as if it were there", err)
	}
	if err := refuse(chat.Invalid, p("new", 0, "one"), p("new", 99, "x")); chat.Public(err).Details["have"] != 0 {
		t.Fatal("what was not shown is counted as if it were there", err)
	}
	refuse(chat.Conflict, p("b", 7, " an"), p("b", 8, "um")) // differs from the piece before it
	text("Grüße")
	if _, ok := blockOf(w.hub, id, "c"); ok {
		t.Fatal("a piece of a refused request was shown")
	}
	if err := w.Preview(ctx, bot, id, []chat.Preview{p("b", 7, " an"), p("b", 10, " alle"), p("b", 0, "Grüße an")}); err != nil {
		t.Fatal(err)
	}
	text("Grüße an alle")

	finish := func(want chat.Code, body chat.Body) {
		t.Helper()
		_, err := w.Append(ctx, bot, id, draft(ref, body))
		w.wantCode(err, want)
	}
	finish(chat.Conflict, chat.AgentText{Block: "b", Text: "Grüße an"})      // shorter than the shown text
	finish(chat.Conflict, chat.AgentText{Block: "b", Text: "Hallo an alle"}) // differs from the shown text
	finish(chat.Conflict, chat.AgentThinking{Block: "b", Text: "Grüße an alle"})
	finish("", chat.AgentText{Block: "b", Text: "Grüße an alle."})
	finish(chat.Conflict, chat.AgentText{Block: "b", Text: "Grüße an alle."})
	refuse(chat.Conflict, p("b", 0, "x"))
	w.restart()
	refuse(chat.Conflict, p("b", 0, "x"))
	finish("", chat.AgentText{Block: "d", Text: "never previewed"})
	ends, err := w.Ends(ctx, ann, id, 4)
	if err != nil || len(ends) != 4 || ends[3].Bytes != len("Grüße an alle") {
		t.Fatal(ends, err)
	}

	// Bounded, because a cursor names every open block.
	for i := range maxOpen {
		w.show(ref, chat.BlockID(fmt.Sprint("o", i)), 0, "x")
	}
	refuse(chat.SlowDown, p("more", 0, "x"))
	w.show(ref, "o1", 1, "y")
	w.end(ref, chat.Stopped)
	if b := w.hub.Blocks(id); b != nil {
		t.Fatal("blocks outlive their turn")
	}
}

// A piece that is repeated after its block was finished must not open the block again.
func TestLatePieceDoesNotReopenABlock(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Agent: "demo"})
	show := func(block chat.BlockID, text string) error {
		return w.Preview(ctx, bot, id, []chat.Preview{{Block: block, Text: text}})
	}
	w.wantCode(show("b", "one"), "")
	w.append(bot, id, chat.AgentText{Block: "b", Text: "one two"})
	w.wantCode(show("b", "one"), chat.Conflict)
	w.restart()
	w.wantCode(show("b", "one"), chat.Conflict)
	if b := w.hub.Blocks(id); b != nil {
		t.Fatal(b)
	}

	// Much later, the block id may be used again, and readers receive its text.
	for i := range 64 {
		w.append(bot, id, chat.AgentText{Block: chat.BlockID(fmt.Sprint("c", i)), Text: "x"})
	}
	w.wantCode(show("b", "three"), "")
	snap, err := w.Snapshot(ctx, ann, id, 100)
	if err != nil || len(snap.Open) != 1 || snap.Open[0].Text.Text != "three" {
		t.Fatal(snap.Open, err)
	}
}

func TestTurnCannotUseABlockOutsideOfIt(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s", chat.NewSession{Agent: "demo"})
	// Outside of a turn, as agents do that this server does not run.
	if err := w.Preview(ctx, bot, id, []chat.Preview{{Block: "b", Text: "free"}}); err != nil {
		t.Fatal(err)
	}
	w.say(id, "a")
	ref := w.turn(id)
	w.wantCode(w.Preview(ctx, bot, id, piece(ref, "b", 4, "x")), chat.Conflict)
	_, err := w.Append(ctx, bot, id, draft(ref, chat.AgentText{Block: "b", Text: "free text"}))
	w.wantCode(err, chat.Conflict)
	w.end(ref, chat.Done)
	// The end of the session stores the shown text.
	w.append(bot, id, chat.SessionCompleted{})
	w.wantStory(id, "session.started", "user.message a", "turn.started for 2", "turn.completed done", "agent.text free (partial)", "session.completed")
	if b := w.hub.Blocks(id); b != nil {
		t.Fatal(b)
	}
}

func TestPreviewsSurviveAKill(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "a")
	ref := w.turn(id)
	w.show(ref, "b", 0, "one ")
	w.show(ref, "b", 4, "two ")
	before, _ := blockOf(w.hub, id, "b")
	w.restart()
	after, _ := blockOf(w.hub, id, "b")
	if after.Text != "one two " || len(after.Ends) != 2 || after.Ends[1] != before.Ends[1] {
		t.Fatal(after)
	}
	w.show(ref, "b", 8, "three")
	b, _ := blockOf(w.hub, id, "b")
	if b.Ends[2].At <= b.Ends[1].At {
		t.Fatal("a position went back over the restart")
	}
}
