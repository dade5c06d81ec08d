package nemo

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// Whatever a client sends, a frame is understood or refused with a code, and
// what is understood can become a fact.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		userMessage("c", "m", "chat_stream", "hi"),
		aiqMessage("c", "m", "hi"), aiqMessage("c", "m", "hi!"),
		`{"type":"user_message","schema_type":"generate","thread_id":"t","content":"plain","user":{"name":"x","other":[1]},"k":{"a":1}}`,
		`{"type":"user_message","schema_type":"chat","content":{"messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"image_url","image_url":"data:image/png;base64,aGk="},{"type":"input_audio","input_audio":{"data":"aGk","format":"mp3"}}]}]}}`,
		`{"type":"user_interaction_message","parent_id":"p","content":{"messages":[{"role":"user","content":[{"type":"text","text":"yes"}]}]}}`,
		`{"type":"auth_message","payload":{"method":"basic","username":"u","password":"p"}}`,
		`{"type":"system_response_message"}`, `[`, `{"type":7}`, "\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := decodeFrame(b)
		if err != nil {
			refused(t, err)
			return
		}
		switch frame.Type {
		case typeAuth:
			if token, err := decodeAuth(frame.Payload); err != nil {
				refused(t, err)
			} else if token == "" {
				t.Error("an empty token")
			}
		case typeAnswer:
			if _, err := decodeAnswer(frame.Content); err != nil {
				refused(t, err)
			}
		default:
			m, err := decodeUser(&frame, b)
			if err != nil {
				refused(t, err)
				return
			}
			if len(b)%2 == 0 {
				m.unpackQuery() // as for the AI-Q UI
			}
			text, content, err := attachments(m.Last.Content)
			if err != nil {
				refused(t, err)
				return
			}
			draft := chat.NewDraft(chat.UserMessage{Text: text, Content: content, Context: m.context()}).As(m.key())
			if err := draft.Normalize(); err != nil && chat.CodeOf(err) != chat.TooLarge && chat.CodeOf(err) != chat.Invalid {
				t.Errorf("%s: %v", b, err)
			}
			if strings.Contains(string(draft.Payload), `"security"`) && !strings.Contains(text, "security") && len(m.Extra) == 0 && m.System == "" {
				t.Errorf("the security block is stored: %s", draft.Payload)
			}
		}
	})
}

func refused(t *testing.T, err error) {
	t.Helper()
	if e := errorOf(err); e.Code == "" || e.Code == codeUnknown || e.Details == "" {
		t.Errorf("refused without a code: %v", err)
	}
}

// Every frame is valid in its schema, and the texts add up to the text of the blocks.
func FuzzFold(f *testing.F) {
	f.Add("Hello <b>world</b> ```x``` & more", "calc", `{"a":1}`, 3, true)
	f.Add("", "", `null`, 0, false)
	f.Add("héllo\x00\u2028", "x\"y", `"text"`, 2, true)
	f.Fuzz(func(t *testing.T, said, tool, params string, cut int, fail bool) {
		said = strings.ToValidUTF8(said, "?")
		tool = strings.ToValidUTF8(tool, "?")
		if !json.Valid([]byte(params)) || len(params) > 10_000 || len(said) > 100_000 || len(tool) > 200 {
			return
		}
		events := script(said, tool, json.RawMessage(params), fail)
		for name, schema := range schemaByName {
			enc := encoder{schema: schema, conversation: "c", thread: placeholder}
			fold, got := newFold("c", chat.Cursor{}), ""
			for i := range events {
				fact := events[i].Fact()
				items, err := fold.take(&core.Entry{At: events[i].At, Fact: fact})
				if err != nil {
					return // such an event cannot be stored
				}
				for j := range items {
					b := enc.appendItem(nil, &items[j], events[i].At)
					if len(b) == 0 {
						continue
					}
					checkFrame(t, name, b)
					if items[j].kind == itemText {
						got += items[j].text
					}
				}
			}
			if got != said {
				t.Errorf("%q, want %q", got, said)
			}
		}
		// Resumed after any event, the text is the same.
		whole := newFold("c", chat.Cursor{})
		cut = min(max(cut, 0), len(events))
		got := ""
		take := func(f *fold, e *chat.Event, shown bool) {
			items, err := f.take(&core.Entry{At: e.At, Fact: e.Fact()})
			if err != nil {
				return // such an event cannot be stored
			}
			for _, it := range items {
				if it.kind == itemText && shown {
					got += it.text
				}
			}
		}
		for i := range events[:cut] {
			take(whole, &events[i], true)
		}
		at := whole.position()
		again, base := newFold("c", at.Cursor), at.Base
		for i := range events {
			if events[i].Seq >= base {
				take(again, &events[i], true)
			}
		}
		if got != said {
			t.Errorf("cut at %d: %q, want %q", cut, got, said)
		}
		// Resumed after the last item of an event, the answer has its end.
		first := newFold("c", chat.Cursor{})
		for i := range events {
			items, err := first.take(&core.Entry{At: events[i].At, Fact: events[i].Fact()})
			if err != nil || len(items) == 0 || items[0].kind == itemEnd || events[i].Type == "turn.completed" {
				continue
			}
			at, ended := items[len(items)-1].pos, false
			later := newFold("c", at.Cursor)
			later.historyEnd = events[len(events)-1].Seq
			for j := range events {
				if events[j].Seq < at.Base {
					continue
				}
				items, _ := later.take(&core.Entry{At: events[j].At, Fact: events[j].Fact()})
				for _, it := range items {
					ended = ended || it.kind == itemEnd && it.turn.parent == "m1"
				}
			}
			if !ended {
				t.Errorf("resumed after %s there is no end", events[i].Type)
			}
		}
	})
}

// script is a short conversation.
func script(said, tool string, params json.RawMessage, fail bool) []chat.Event {
	number := core.NumberFor("c", 0)
	turn := chat.TurnID(chat.MakeID(number, 3).Text(chat.TurnPrefix))
	outcome := chat.Done
	if fail {
		outcome = chat.Failed
	}
	bodies := []chat.Body{
		chat.SessionStarted{Agent: "demo"}, chat.UserMessage{Text: "go"}, chat.TurnStarted{TurnID: turn, Trigger: 2, Agent: "demo"},
		chat.AgentToolCall{CallID: "k", Tool: tool, Params: params}, chat.AgentToolResult{CallID: "k", Result: params},
		chat.AgentText{Block: "b1", Text: said, Final: true}, chat.TurnCompleted{TurnID: turn, Outcome: outcome, Error: tool},
	}
	var events []chat.Event
	for i, b := range bodies {
		d := chat.NewDraft(b)
		if d.Normalize() != nil && b.Type() != "agent.tool_call" {
			continue
		}
		seq := chat.Seq(i + 1)
		e := chat.Event{
			Session: "c", Seq: seq, At: chat.At(1_700_000_000_000_000 + 16*int64(i)), Type: d.Type, ID: chat.EventID(chat.MakeID(number, seq).Text(chat.EventPrefix)),
			Actor: chat.Actor{Kind: chat.Agent, ID: "demo"}, Payload: d.Payload, Body: d.Body,
		}
		if i == 1 {
			e.Via, e.ClientID = via, "m1"
		}
		if i > 2 {
			e.Turn = turn
		}
		events = append(events, e)
	}
	return events
}
