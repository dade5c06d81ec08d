package letta

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// boss launches a workstream in the middle of a sentence and ends the sentence
// when the workstream has ended.
type boss struct{ ended chan struct{} }

func (b boss) Answer(ctx context.Context, t *agent.Turn) error {
	s := t.Stream(false)
	if err := s.Write(ctx, "I look, "); err != nil {
		return err
	}
	if _, err := t.Launch(ctx, chat.Launch{ID: "w1", Name: "Mine", Instruction: "/echo gold", Agent: "demo"}); err != nil {
		return err
	}
	select {
	case <-b.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.Write(ctx, "and wait. "); err != nil {
		return err
	}
	if err := s.Close(ctx); err != nil {
		return err
	}
	if _, err := t.Await(ctx, "w1"); err != nil {
		return err
	}
	return t.Say(ctx, "There is gold.")
}

// Who follows a run sees what it launches and what comes of it, under the names
// that the list has, and a sentence of the agent keeps its name over the news.
func TestWorkstreamsAreTold(t *testing.T) {
	for _, tokens := range []string{"false", "true"} {
		t.Run("tokens="+tokens, func(t *testing.T) {
			ended := make(chan struct{})
			w := newWorld(t, setup{agents: map[string]agent.Agent{"boss": boss{ended}}})
			a := w.agent(`{"model":"parley/boss"}`)
			r := w.open("/v1/agents/"+a+"/messages", message("go", `,"streaming":true,"stream_tokens":`+tokens))
			first, _ := r.next()
			for batch, err := range w.sessions.Watch(t.Context(), owner, chat.SessionID(a), chat.Start{Cursor: &chat.Cursor{}}, nil) {
				if err != nil {
					t.Fatal(err)
				}
				found := false
				for i := range batch.Entries {
					found = found || batch.Entries[i].Label.Type == chat.WorkstreamCompleted{}.Type()
				}
				if found {
					break
				}
			}
			close(ended)
			live := r.rest()

			var says []string // what a client has put together, in the order of the list
			text, last := map[string]string{}, first.Seq
			for _, m := range live {
				key := m.Type + " " + m.ID + " " + m.OTID
				if m.Run != first.Run {
					t.Errorf("%s is of run %q", key, m.Run)
				}
				if m.Seq <= last {
					t.Errorf("%s has position %d after %d", key, m.Seq, last)
				}
				last = m.Seq
				s, _ := m.Content.(string)
				text[key] += s
			}
			listed := get[[]shownMessage](w, "GET", "/v1/agents/"+a+"/messages?order=asc", "")
			for _, m := range listed[1:] {
				key := m.Type + " " + m.ID + " " + m.OTID
				if text[key] != m.Content {
					t.Errorf("%s: %q was streamed and %q is listed", key, text[key], m.Content)
				}
				says = append(says, m.Type+": "+m.Content.(string))
			}
			want := "system_message: Workstream w1 (Mine) was launched: /echo gold\n" +
				"system_message: Workstream w1 completed. gold\n" +
				"assistant_message: I look, and wait. \n" +
				"assistant_message: There is gold."
			if got := strings.Join(says, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if of := get[[]shownMessage](w, "GET", "/v1/runs/"+first.Run+"/messages", ""); len(of) != len(listed) {
				t.Errorf("the run has %d of %d messages", len(of), len(listed))
			}
			all := picture(live)
			for cut := range live {
				rest := w.open("/v1/runs/"+first.Run+"/stream", fmt.Sprintf(`{"starting_after":%d,"include_pings":false}`, live[cut].Seq)).rest()
				if p := picture(append(append([]shownMessage{}, live[:cut+1]...), rest...)); p != all {
					t.Errorf("cut after frame %d:\n%swant\n%s", cut, p, all)
				}
			}
		})
	}
}

// logged makes events of one turn, a millisecond apart.
func logged(t *testing.T) (chat.TurnID, func(chat.Seq, chat.Body) chat.Event) {
	number := chat.NumberFor("s-1", 0)
	turn := chat.TurnID(chat.MakeID(number, 2).Text(chat.TurnPrefix))
	return turn, func(seq chat.Seq, b chat.Body) chat.Event {
		d := chat.Draft{Body: b}
		if err := d.Settle(); err != nil {
			t.Fatal(err)
		}
		id := chat.EventID(chat.MakeID(number, seq).Text(chat.EventPrefix))
		return chat.Event{Session: "s-1", Seq: seq, At: chat.At(seq * 1000), ID: id, Type: d.Type, Turn: turn, Payload: d.Payload, Body: d.Body}
	}
}

// A thought whose signature comes when the text behind it was shown already: who is
// late gets both where they were shown to those who were there.
func TestSignatureBehindTheNextText(t *testing.T) {
	turn, event := logged(t)
	started := event(2, chat.TurnStarted{TurnID: turn, Agent: "boss"})
	thought := event(3, chat.AgentThinking{Block: "b2-1", Text: "Hm.", Signature: "S"})
	said := event(4, chat.AgentText{Block: "b2-2", Text: "Four."})
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
		f := newFeed(&run{id: llm.RunID(turn), turn: turn, started: started}, form{}, true, c.after)
		f.known = 4
		f.ended = func(seq chat.Seq) ([]chat.End, error) {
			if seq == thought.Seq {
				return []chat.End{{Bytes: 3, At: 2100}}, nil
			}
			return []chat.End{{Bytes: 2, At: 2500}, {Bytes: 5, At: 2900}}, nil
		}
		f.ahead = func(seq chat.Seq) ([]chat.Event, error) { return []chat.Event{thought, said}[seq-2:], nil }
		var got []string
		for _, e := range []chat.Event{thought, said} {
			items, err := f.take(&chat.Entry{Fact: e.Fact(), At: e.At})
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range items {
				got = append(got, fmt.Sprintf("%s %q %q at %d", it.kind, it.text, it.signature, it.seq))
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("after %d: got  %q\nwant %q", c.after, got, c.want)
		}
	}
}

// A reader that gets a text only when it is finished has what there was of it
// before the news that came in the middle, and both where they were shown to
// those who were there.
func TestNewsInTheMiddleOfATextForWhoIsLate(t *testing.T) {
	turn, event := logged(t)
	started := event(2, chat.TurnStarted{TurnID: turn, Agent: "boss"})
	launched := event(3, chat.WorkstreamLaunched{ID: "w1", Task: "dig"})
	said := event(5, chat.AgentText{Block: "b2-1", Text: "I look, and wait."})
	f := newFeed(&run{id: llm.RunID(turn), turn: turn, started: started}, form{}, true, 0)
	f.ended = func(chat.Seq) ([]chat.End, error) {
		return []chat.End{{Bytes: 2, At: 2500}, {Bytes: 8, At: 2900}, {Bytes: 17, At: 4500}}, nil
	}
	f.ahead = func(chat.Seq) ([]chat.Event, error) { return []chat.Event{said}, nil }
	var got []string
	for _, e := range []chat.Event{launched, said} {
		items, err := f.take(&chat.Entry{Fact: e.Fact(), At: e.At})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			got = append(got, fmt.Sprintf("%s %q at %d", it.kind, it.text, it.seq))
		}
	}
	want := []string{
		`assistant_message "I look, " at 2900`,
		`system_message "Workstream w1 was launched: dig" at 3000`,
		`assistant_message "and wait." at 5000`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
