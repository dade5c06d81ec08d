package remote

import (
	"context"
	"maps"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// input is what a run begins with.
func (u *aguiRun) input(ctx context.Context) (map[string]any, error) {
	all, err := u.a.history(ctx, u.r.turn)
	if err != nil {
		return nil, err
	}
	resume, err := u.resume(ctx)
	if err != nil {
		return nil, err
	}
	if u.r.n > 1 {
		mine, err := ownMessages(ctx, u.r.turn, u.r.n)
		if err != nil {
			return nil, err
		}
		all = append(all, mine...)
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
		"threadId": conversation(u.r.turn), "runId": run, "state": state, "messages": u.messages(ctx, all, ids),
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
	} else if u.r.before != nil && u.r.before.Run != "" {
		input["parentRunId"] = u.r.before.Run
	}
	return input, nil
}

// records reads what earlier runs left: the ids of messages by their blocks, and
// the last state.
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

// messages is the conversation in AG-UI's words.
func (u *aguiRun) messages(ctx context.Context, all []message, ids map[string]string) []aguiMessage {
	out := []aguiMessage{}
	if u.a.opt.Instructions != "" {
		out = append(out, aguiMessage{ID: "instructions", Role: "system", Content: u.a.opt.Instructions})
	}
	open := map[string]bool{} // calls without a result
	for _, m := range all {
		one := aguiMessage{ID: m.id, Role: m.role, Content: m.text}
		switch {
		case m.asked:
			continue // it stands as a call and its result, or goes along as resume
		case m.call != nil:
			c := aguiCall{ID: foreign(m.call.CallID), Type: "function"}
			c.Function.Name, c.Function.Arguments = m.call.Tool, string(m.call.Params)
			if c.Function.Arguments == "" {
				c.Function.Arguments = "{}"
			}
			one.Content, one.Calls = nil, []aguiCall{c}
			open[c.ID] = true
		case m.tool != "":
			if one.CallID = foreign(m.tool); !open[one.CallID] {
				continue
			}
			if delete(open, one.CallID); m.fault {
				one.Error = m.text
			}
		case m.role == "assistant":
			if id := ids[string(m.block)]; id != "" {
				one.ID = id
			}
		case len(m.parts) > 0:
			one.Content = u.parts(ctx, u.r.turn, &m)
		}
		out = append(out, one)
	}
	return out
}

func (u *aguiRun) parts(ctx context.Context, turn *agent.Turn, m *message) []map[string]any {
	var parts []map[string]any
	if m.text != "" {
		parts = append(parts, map[string]any{"type": "text", "text": m.text})
	}
	for i := range m.parts {
		p := &m.parts[i]
		at := u.a.image(ctx, turn, p)
		media, data, inline := strings.Cut(strings.TrimPrefix(at, "data:"), ";base64,")
		switch {
		case at != "" && inline:
			parts = append(parts, map[string]any{"type": "image", "source": map[string]any{"type": "data", "value": data, "mimeType": media}})
		case at != "":
			parts = append(parts, map[string]any{"type": "image", "source": map[string]any{"type": "url", "value": at}})
		case p.Type != "text":
			parts = append(parts, map[string]any{"type": "text", "text": "[attached: " + nameOf(p) + "]"})
		}
	}
	return parts
}

// foreign is the endpoint's id of a call.
func foreign(callID string) string {
	head, rest, ok := strings.Cut(callID, "-")
	if _, err := strconv.ParseUint(strings.TrimPrefix(head, "c"), 10, 64); !ok || err != nil {
		return callID
	}
	if i := strings.LastIndex(rest, "-a"); i > 0 {
		if n, err := strconv.Atoi(rest[i+2:]); err == nil && n > 1 && n < 10 { // an attempt, not the end of some id
			rest = rest[:i]
		}
	}
	return rest
}
