package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// toy is an encoding with one line per entry and the cursor first, so that a reader can be
// disconnected at any byte and resume.
type toy struct{}

func (toy) Name() string { return "toy" }

func (toy) AppendEvent(dst []byte, e *core.Entry) []byte {
	dst = append(e.Cursor.Append(dst), ' ')
	return append(append(dst, e.Fact.JSON...), '\n')
}

func (toy) AppendPiece(dst []byte, e *core.Entry) []byte {
	dst = append(e.Cursor.Append(dst), " p"...)
	return append(e.Piece.AppendJSON(dst), '\n')
}

// follower reads toy lines, is disconnected at any byte, and resumes.
type follower struct {
	cursor chat.Cursor
	fold   chat.Transcript
	log    []string
	shown  map[chat.BlockID]string // the text it has received of each block
}

// read follows until it has received the event last or, if cut is not 0, that many bytes.
func (f *follower) read(s *Sessions, id chat.SessionID, last chat.Seq, cut int) error {
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	var rest []byte
	from := f.cursor
	for batch, err := range s.Watch(watch, ann, id, core.Start{Cursor: &from}, toy{}) {
		if err != nil {
			return err
		}
		got := batch.Bytes
		if cut > 0 && len(got) > cut {
			got = got[:cut]
		}
		rest = append(rest, got...)
		for {
			i := slices.Index(rest, '\n')
			if i < 0 {
				break
			}
			if err := f.line(string(rest[:i])); err != nil {
				return err
			}
			rest = rest[i+1:]
		}
		if cut > 0 {
			if cut -= len(got); cut <= 0 {
				return nil
			}
		}
		if batch.Live && f.cursor.Seq >= last {
			return nil
		}
	}
	return nil
}

func (f *follower) line(s string) (err error) {
	at, body, _ := strings.Cut(s, " ")
	if f.cursor, err = chat.ParseCursor(at); err != nil {
		return err
	}
	if body[0] == 'p' {
		var p chat.Preview
		if err := json.Unmarshal([]byte(body[1:]), &p); err != nil {
			return err
		}
		// The cursor of an old event does not list open blocks, so a reader that resumes
		// after one receives text again. The offsets show it.
		have := f.shown[p.Block]
		if p.Offset > len(have) || !strings.HasPrefix(have[p.Offset:], p.Text) && !strings.HasPrefix(p.Text, have[p.Offset:]) {
			return fmt.Errorf("block %s is %q and goes on at %d with %q", p.Block, have, p.Offset, p.Text)
		}
		f.shown[p.Block] = have[:p.Offset] + p.Text + have[min(len(have), p.End):]
		f.fold.Preview(&p)
		return nil
	}
	e, err := chat.ParseEvent([]byte(body))
	if err != nil {
		return err
	}
	if want := chat.Seq(len(f.log) + 1); e.Seq != want {
		return fmt.Errorf("event %d where %d was due", e.Seq, want)
	}
	if b, ok := e.Body.(chat.AgentText); ok && !strings.HasPrefix(b.Text, f.shown[b.Block]) {
		return fmt.Errorf("block %s was shown as %q and became %q", b.Block, f.shown[b.Block], b.Text)
	}
	delete(f.shown, chat.FinishedBlock(e.Body))
	f.log = append(f.log, body)
	f.fold.Apply(&e)
	return nil
}

// TestAllReadersGetTheSame runs random operations of several callers, with restarts,
// while readers are disconnected and resume.
func TestAllReadersGetTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := startTestStore(t, Options{MaxCached: 1})
		defer w.close()
		policy := rapid.SampledFrom([]chat.Policy{chat.Queue, chat.Steer, chat.Interrupt}).Draw(t, "policy")
		id := w.begin("s", chat.NewSession{Policy: policy, Members: []chat.Member{{Actor: bob.Actor, Role: chat.Answerer}}})
		readers := []*follower{{shown: map[chat.BlockID]string{}}, {shown: map[chat.BlockID]string{}}}
		for range rapid.IntRange(1, 25).Draw(t, "rounds") {
			// These may be refused; other tests check the rules.
			var acts []func()
			for range rapid.IntRange(1, 4).Draw(t, "at once") {
				acts = append(acts, w.act(t, id))
			}
			var wg sync.WaitGroup
			for _, act := range acts {
				wg.Go(act)
			}
			cut := rapid.IntRange(0, 600).Draw(t, "cut")
			for _, f := range readers {
				wg.Go(func() {
					if cut > 0 {
						if err := f.read(w.Sessions, id, 1, cut); err != nil {
							t.Errorf("cut reader: %v", err)
						}
					}
				})
			}
			wg.Wait()
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				w.restart()
			}
		}
		last := w.state(id).Last
		readers = append(readers, &follower{shown: map[chat.BlockID]string{}})
		for i, f := range readers {
			if err := f.read(w.Sessions, id, last, 0); err != nil {
				t.Fatalf("reader %d: %v", i, err)
			}
		}
		same(t, w, id, readers)
	})
}

func same(t *rapid.T, w *testStore, id chat.SessionID, readers []*follower) {
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var want []string
	facts, _, err := w.log.Read(ctx, id, chat.Range{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		want = append(want, string(f.JSON))
	}
	w.events(id)
	lived := text(w.state(id))
	w.restart()
	if replayed := text(w.state(id)); replayed != lived {
		t.Fatalf("lived through %s\nreplayed %s", lived, replayed)
	}
	for i, f := range readers {
		if !slices.Equal(f.log, want) {
			t.Fatalf("reader %d has other events", i)
		}
		if a, b := text(f.fold.Items), text(readers[0].fold.Items); a != b {
			t.Fatalf("reader %d has items\n%s\nnot\n%s", i, a, b)
		}
		if a, b := text(f.fold.Open), text(readers[0].fold.Open); a != b && len(f.fold.Open)+len(readers[0].fold.Open) > 0 {
			t.Fatalf("reader %d has open blocks\n%s\nnot\n%s", i, a, b)
		}
		for _, b := range w.hub.Blocks(id) {
			if f.shown[b.ID] != b.Text {
				t.Fatalf("reader %d has %q of block %s, not %q", i, f.shown[b.ID], b.ID, b.Text)
			}
		}
	}
}

// act runs one random operation.
func (w *testStore) act(t *rapid.T, id chat.SessionID) func() {
	st := w.state(id)
	ref := chat.TurnRef{Session: id}
	if turn := st.Line("").Turn; turn != nil {
		ref.Turn, ref.Attempt = turn.ID, turn.Attempt
	}
	c := rapid.SampledFrom([]chat.Caller{ann, bob}).Draw(t, "who")
	key := rapid.SampledFrom([]string{"", "k1", "k2", "k3"}).Draw(t, "key")
	// The same ids in every turn, as workers would use them.
	block := chat.BlockID(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "block"))
	open, _ := blockOf(w.hub, id, block)
	word := rapid.SampledFrom([]string{"one ", "zwei ", "três ", "四 "}).Draw(t, "word")
	what := rapid.SampledFrom([]string{"say", "say", "preview", "preview", "preview", "finish", "status", "ask", "answer", "stop", "end", "resume", "take", "array"}).Draw(t, "what")
	if ref.Turn == "" && (what == "preview" || what == "finish") {
		what = "say"
	}
	switch what {
	case "say":
		return func() { _, _ = w.Append(ctx, c, id, []chat.Draft{chat.NewDraft(chat.UserMessage{Text: word}).As(key)}) }
	case "preview":
		return func() { _ = w.Preview(ctx, bot, id, piece(ref, block, len(open.Text), word)) }
	case "finish":
		return func() {
			_, _ = w.Append(ctx, bot, id, draft(ref, chat.AgentText{Block: block, Text: open.Text + word}))
		}
	case "status":
		return func() { _, _ = w.Append(ctx, bot, id, draft(ref, chat.AgentStatus{Message: word})) }
	case "ask":
		return func() {
			_, _ = w.Append(ctx, bot, id, draft(ref, chat.AgentInputRequest{InputType: chat.InputText, Text: word, Timeout: 3600}))
		}
	case "answer":
		if len(st.Prompts) > 0 {
			return func() { _, _ = w.Answer(ctx, c, id, st.Prompts[0].RequestID, chat.Answer{Text: word, ClientID: key}) }
		}
	case "stop":
		return func() { _, _ = w.Stop(ctx, c, id, "", word) }
	case "end":
		return func() { _ = w.EndTurn(ctx, ref, chat.Done, "") }
	case "resume":
		return func() { _, _, _ = w.ResumeTurn(ctx, ref, word, true) }
	case "take":
		return func() { _, _ = w.TakeSteered(ctx, ref) }
	case "array":
		return func() {
			_, _ = w.Append(ctx, c, id, []chat.Draft{
				chat.NewDraft(chat.UserMessage{Text: word}).As(key), chat.NewDraft(chat.UserMessage{Text: "and"}), chat.NewDraft(chat.UserMessage{Text: word}).As("k2"),
			})
		}
	}
	return func() {}
}
