package httpagent

import (
	"context"
	"maps"
	"strconv"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/aguiwire"
	"github.com/parley-hq/parley/internal/json"
)

// aguiThread is the id of the conversation at the endpoint.
func aguiThread(turn *agent.Turn) string { return threadID(turn) + "." + turn.Agent }

// input is the RunAgentInput of a run.
func (u *aguiRun) input(ctx context.Context) (map[string]any, error) {
	resume, err := u.resume(ctx) // stores tool results, which are part of the conversation
	if err != nil {
		return nil, err
	}
	all, err := u.a.conversation(ctx, u.r)
	if err != nil {
		return nil, err
	}
	ids, state, err := u.records(ctx)
	if err != nil {
		return nil, err
	}
	if state == nil {
		state = json.RawMessage("{}")
	}
	u.state = state
	tools := []chat.ClientTool{}
	if !u.a.opt.NoAsk && !ofPage(u.r.turn, askName) {
		tools = append(tools, askTool)
	}
	ref := u.r.turn.Ref()
	run := string(ref.Turn) + "-r" + strconv.Itoa(u.r.n)
	if ref.Attempt > 1 {
		run += "-a" + strconv.Itoa(ref.Attempt)
	}
	u.rec.Run = run
	input := map[string]any{
		"threadId": aguiThread(u.r.turn), "runId": run, "state": state, "messages": u.messages(ctx, all, ids),
		"tools": append(tools, u.r.turn.ClientTools()...), "context": []any{},
	}
	props := map[string]any{}
	maps.Copy(props, u.a.opt.Extra)
	input["forwardedProps"] = props
	if len(resume) > 0 {
		input["resume"] = resume
	}
	if answer := u.graphResume(); answer != nil {
		props["command"] = map[string]any{"resume": answer}
	} else if u.r.previous != nil && u.r.previous.Run != "" {
		input["parentRunId"] = u.r.previous.Run
	}
	return input, nil
}

// pageOf is what a page of AG-UI has sent with a message.
func pageOf(e *chat.Event) aguiwire.Stored {
	m, _ := e.Body.(chat.UserMessage)
	return aguiwire.Own[aguiwire.Stored](m.Context)
}

// records reads what earlier runs and their pages have stored: the ids of messages by
// their blocks, and the newest state.
func (u *aguiRun) records(ctx context.Context) (ids map[string]string, state json.RawMessage, err error) {
	ids = map[string]string{}
	for e, err := range u.r.turn.Events(ctx, chat.Range{Limit: 2000, Desc: true, Workstream: &u.r.turn.Workstream, Types: []string{recordType, chat.UserMessage{}.Type()}}) {
		if err != nil {
			return nil, nil, err
		}
		var has json.RawMessage
		if rec, ok := recordOf(&e); ok {
			maps.Copy(ids, rec.Messages)
			has = rec.State
		} else if e.Seq <= u.r.turn.Trigger.Seq { // later messages are for later turns
			has = pageOf(&e).State
		}
		if state == nil {
			state = has
		}
	}
	return ids, state, nil
}

// messages is the conversation as AG-UI messages.
func (u *aguiRun) messages(ctx context.Context, all []message, ids map[string]string) []aguiwire.Message {
	out := []aguiwire.Message{}
	if u.a.opt.Instructions != "" {
		out = append(out, aguiwire.Message{ID: "instructions", Role: "system", Content: json.AppendString(nil, u.a.opt.Instructions)})
	}
	if m, ok := u.r.turn.Trigger.Body.(chat.UserMessage); ok && m.System() != "" {
		out = append(out, aguiwire.Message{ID: "page-instructions", Role: "system", Content: json.AppendString(nil, m.System())})
	}
	open := map[string]bool{} // calls without a result
	for _, m := range all {
		one := aguiwire.Message{ID: m.id, Role: m.role, Content: json.AppendString(nil, m.text)}
		switch {
		case m.fromPrompt:
			continue // sent as a call and its result, or as resume
		case m.call != nil:
			c := aguiwire.NewCall(endpointCallID(m.call.CallID), m.call.Tool, m.call.Params)
			one.Content, one.Calls = nil, []aguiwire.Call{c}
			open[c.ID] = true
		case m.resultOf != "":
			if one.CallID = endpointCallID(m.resultOf); !open[one.CallID] {
				continue
			}
			if delete(open, one.CallID); m.failed {
				one.Error = m.text
			}
		case m.role == "assistant":
			if id := ids[string(m.block)]; id != "" {
				one.ID = id
			}
		case len(m.parts) > 0:
			one.Content, _ = json.Marshal(u.a.contentParts(ctx, u.r.turn, &m, aguiImage)) // strings only
		}
		out = append(out, one)
	}
	return out
}

// aguiImage is an image as a content part of AG-UI.
func aguiImage(url string) map[string]any {
	return map[string]any{"type": "image", "source": aguiwire.NewSource(url, "")}
}
