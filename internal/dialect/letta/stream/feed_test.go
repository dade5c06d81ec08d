package stream

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/turnlog"
)

// newEvents returns a turn and a function that makes its events, a millisecond apart.
func newEvents(t *testing.T) (chat.TurnID, func(chat.Seq, chat.Body) chat.Event) {
	number := core.NumberFor("s-1", 0)
	turn := chat.TurnID(chat.MakeID(number, 2).Text(chat.TurnPrefix))
	return turn, func(seq chat.Seq, b chat.Body) chat.Event {
		d := chat.Draft{Body: b}
		if err := d.Normalize(); err != nil {
			t.Fatal(err)
		}
		id := chat.EventID(chat.MakeID(number, seq).Text(chat.EventPrefix))
		return chat.Event{Session: "s-1", Seq: seq, At: chat.At(seq * 1000), ID: id, Type: d.Type, Turn: turn, Payload: d.Payload, Body: d.Body}
	}
}

// fakeLog has the ends of the previews of finished blocks.
type fakeLog struct {
	turnlog.Sessions
	ends map[chat.Seq][]chat.End
}

func (l fakeLog) Ends(_ context.Context, _ chat.Caller, _ chat.SessionID, seq chat.Seq) ([]chat.End, error) {
	return l.ends[seq], nil
}

// take returns the items of stored events for a stream that begins after them, each in one line.
func take(t *testing.T, f *Feed, log fakeLog, events ...chat.Event) (out []string) {
	t.Helper()
	batch := core.Batch{Live: true}
	for _, e := range events {
		batch.Entries = append(batch.Entries, core.Entry{Fact: e.Fact(), At: e.At, Block: chat.FinishedBlock(e.Body)})
	}
	_, err := turnlog.NewDecoder(log, chat.Trusted, "s-1").Take(t.Context(), batch, func(entries []turnlog.Entry, _ bool) (bool, error) {
		items, err := f.Take(entries)
		for _, it := range items {
			out = append(out, fmt.Sprintf("%s %q %q at %d", it.Kind, it.text, it.signature, it.Seq))
		}
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A signature is stored after the next text was shown. A late stream shows both at the positions of a live stream.
func TestLateStreamOfASignatureAfterTheNextText(t *testing.T) {
	turn, event := newEvents(t)
	started := event(2, chat.TurnStarted{TurnID: turn, Agent: "boss"})
	thought := event(3, chat.AgentThinking{Block: "b2-1", Text: "Hm.", Signature: "S"})
	said := event(4, chat.AgentText{Block: "b2-2", Text: "Four."})
	log := fakeLog{ends: map[chat.Seq][]chat.End{3: {{Bytes: 3, At: 2100}}, 4: {{Bytes: 2, At: 2500}, {Bytes: 5, At: 2900}}}}
	for _, c := range []struct {
		after chat.At
		want  []string
	}{
		{0, []string{`reasoning_message "Hm." "" at 2100`, `assistant_message "Four." "" at 2900`, `reasoning_message "" "S" at 3000`}},
		{2100, []string{`assistant_message "Four." "" at 2900`, `reasoning_message "" "S" at 3000`}},
		{2500, []string{`assistant_message "ur." "" at 2900`, `reasoning_message "" "S" at 3000`}},
		{2900, []string{`reasoning_message "" "S" at 3000`}},
		{3000, nil},
	} {
		f := NewFeed(&Run{ID: llm.RunID(turn), Turn: turn, Started: started}, false, true, c.after, nil)
		if got := take(t, f, log, thought, said); !slices.Equal(got, c.want) {
			t.Errorf("after %d: got  %q\nwant %q", c.after, got, c.want)
		}
	}
}

// A workstream is launched in the middle of a text. A late stream shows the text before and after the launch at the
// positions of a live stream.
func TestLateStreamOfALaunchInTheMiddleOfAText(t *testing.T) {
	turn, event := newEvents(t)
	started := event(2, chat.TurnStarted{TurnID: turn, Agent: "boss"})
	launched := event(3, chat.WorkstreamLaunched{ID: "w1", Task: "dig"})
	said := event(5, chat.AgentText{Block: "b2-1", Text: "I look, and wait."})
	log := fakeLog{ends: map[chat.Seq][]chat.End{5: {{Bytes: 2, At: 2500}, {Bytes: 8, At: 2900}, {Bytes: 17, At: 4500}}}}
	f := NewFeed(&Run{ID: llm.RunID(turn), Turn: turn, Started: started}, false, true, 0, nil)
	want := []string{
		`assistant_message "I look, " "" at 2900`,
		`system_message "Workstream w1 was launched: dig" "" at 3000`,
		`assistant_message "and wait." "" at 4500`,
	}
	if got := take(t, f, log, launched, said); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
