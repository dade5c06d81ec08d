package httpagent

import (
	"context"
	"maps"
	"strconv"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/aguiwire"
	"github.com/parley-hq/parley/internal/json"
)

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
	if u.rec.State = state; state == nil {
		state = json.RawMessage("{}")
	}
	u.state = state
	ref := u.r.turn.Ref()
	run := string(ref.Turn) + "-r" + strconv.Itoa(u.r.n)
	if ref.Attempt > 1 {
		run += "-a" + strconv.Itoa(ref.Attempt)
	}
	u.rec.Run = run
	input := map[string]any{
		"threadId": threadID(u.r.turn), "runId": run, "state": state, "messages": u.messages(ctx, all, ids),
		"tools": []any{}, "context": []any{},
	}
	if !u.a.opt.NoAsk {
		input["tools"] = []any{askTool}
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

// records reads the records of earlier runs: the ids of messages by their blocks,
// and the last state.
func (u *aguiRun) records(ctx context.Context) (ids map[string]string, state json.RawMessage, err error) {
	ids = map[string]string{}
	facts, _, err := u.r.turn.Read(ctx, chat.Range{Limit: 1000, Desc: true, Types: []string{recordType}})
	if err != nil {
		return nil, nil, err
	}
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			return nil, nil, err
		}
		rec, ok := recordOf(&e)
		if !ok || e.Workstream != u.r.turn.Workstream {
			continue
		}
		maps.Copy(ids, rec.Messages)
		if state == nil {
			state = rec.State
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
