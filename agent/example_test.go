package agent_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// An agent that asks a person, calls a tool and streams its answer. It runs in the process of the server, or as a worker
// with client.Work.
func Example() {
	weather := agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		city, err := turn.Ask(ctx, chat.AgentInputRequest{InputType: chat.InputText, Text: "Which city?"})
		if err != nil {
			return err
		}
		// The call and its result are stored; after a restart the tool is not called again.
		report, err := turn.Call(ctx, "weather", json.RawMessage(`{"city":"`+city.Text+`"}`), agent.CallOptions{}, func(context.Context) (json.RawMessage, error) {
			return json.RawMessage(`"sunny"`), nil
		})
		if err != nil {
			return err
		}
		w := turn.Stream(true)
		for word := range strings.FieldsSeq("It is " + string(report) + " in " + city.Text) {
			if err := w.Write(ctx, word+" "); err != nil {
				return err
			}
		}
		return w.Close(ctx)
	})

	if err := run(weather, "How is the weather?", "Paris"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// stores agent.input_request
	// stores agent.tool_call
	// stores agent.tool_result
	// shows "It "
	// shows "is "
	// shows "\"sunny\" "
	// shows "in "
	// shows "Paris "
	// stores agent.text
}

// run has an agent answer one message over a transport that prints and answers every prompt with the same text.
func run(a agent.Agent, message, answer string) error {
	t := &printer{in: agent.NewInbox(), answer: answer}
	turn := agent.NewTurn(chat.Assignment{
		TurnRef: t.Ref(), Agent: "weather", Trigger: chat.Event{Seq: 1, Type: "user.message", Body: chat.UserMessage{Text: message}},
	}, t.in, t)
	return a.Answer(context.Background(), turn)
}

type printer struct {
	agent.Transport
	in     *agent.Inbox
	answer string
	seq    chat.Seq
}

func (t *printer) Ref() chat.TurnRef { return chat.TurnRef{Session: "s-1", Turn: "t-1", Attempt: 1} }

func (t *printer) Append(_ context.Context, drafts []chat.Draft) (events []chat.Event, err error) {
	for _, d := range drafts {
		t.seq += 2
		e := chat.Event{Seq: t.seq, Type: d.Body.Type(), Body: d.Body}
		if q, ok := d.Body.(chat.AgentInputRequest); ok {
			q.RequestID = "p-1"
			e.Body = q
			t.in.Put(chat.Event{Seq: t.seq + 1, Body: chat.UserInputResponse{RequestID: "p-1", Text: t.answer}})
		}
		fmt.Println("stores", e.Type)
		events = append(events, e)
	}
	return events, nil
}

func (t *printer) Preview(_ context.Context, b chat.Block, shown int) error {
	fmt.Printf("shows %q\n", b.Text[shown:])
	return nil
}
