package httpagent

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// message is one message of the conversation that is sent to an endpoint.
type message struct {
	seq        chat.Seq // its position in the conversation
	id         string   // of the event
	block      chat.BlockID
	role       string // user, assistant, tool
	text       string
	parts      []chat.Part         // of a user's message, when it has more than text
	call       *chat.AgentToolCall // of an assistant's message that is a call
	resultOf   string              // the call_id of a tool's message
	failed     bool                // the tool failed
	fromPrompt bool                // a prompt, or the answer to one
}

// historyBytes bounds the text of a conversation that is sent.
const historyBytes = 512 << 10

// historyTypes are the events of which a conversation consists.
var historyTypes = []string{
	"user.message", "user.message_withdrawn", "user.input_response", "agent.text", "agent.input_request", "agent.tool_call",
	"agent.tool_result", "agent.tool_error", "workstream.launched", "workstream.message", "turn.started", "turn.input",
}

// history is the conversation up to the trigger of the turn, on the turn's main
// line or workstream, oldest first, without the output of the turn itself. A
// message that was queued is placed where its turn started, after the answers
// that it was queued behind.
func (a *Agent) history(ctx context.Context, turn *agent.Turn) ([]message, error) {
	started, err := turn.Started(ctx)
	if err != nil {
		return nil, err
	}
	var all []message
	size := 0
	startedAt := map[chat.Seq]chat.Seq{} // where a turn took up a message, by message
	withdrawn := map[chat.Seq]bool{}
	for e, err := range turn.Events(ctx, chat.Range{Before: started.Seq, Desc: true, Types: historyTypes}) {
		if err != nil {
			return nil, err
		}
		if len(all) >= a.opt.History-1 || size >= historyBytes {
			break
		}
		switch b := e.Body.(type) {
		case chat.UserMessageWithdrawn:
			withdrawn[b.Sequence] = true
		case chat.TurnStarted:
			startedAt[b.Trigger] = e.Seq
		case chat.TurnInput:
			for _, seq := range b.Sequences {
				startedAt[seq] = e.Seq
			}
		}
		m, ok := asMessage(turn.Workstream, &e)
		if at, answered := startedAt[e.Seq]; answered {
			m.seq = at
		} else if m.role == "user" && !m.fromPrompt && e.Seq >= turn.Trigger.Seq {
			continue // the trigger itself, or a message queued behind it
		}
		if ok && !withdrawn[e.Seq] && e.Seq != turn.Trigger.Seq {
			all = append(all, m)
			size += len(m.text)
		}
	}
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b message) int { return cmp.Compare(a.seq, b.seq) })
	// The conversation starts with a user's message, not in the middle of an answer.
	if i := slices.IndexFunc(all, func(m message) bool { return m.role == "user" }); i > 0 {
		all = all[i:]
	} else if i < 0 {
		all = nil
	}
	last, ok := asMessage(turn.Workstream, &turn.Trigger)
	if !ok {
		last = message{id: string(turn.Trigger.ID), role: "user", text: turn.Text()}
	}
	return append(all, last), nil
}

// conversation is the history and the output of the earlier rounds of the turn,
// with the tool results that the current round has stored before its call.
func (a *Agent) conversation(ctx context.Context, r *round) ([]message, error) {
	all, err := a.history(ctx, r.turn)
	if err != nil || r.n == 1 {
		return all, err
	}
	started, err := r.turn.Started(ctx)
	if err != nil {
		return nil, err
	}
	id := r.turn.Ref().Turn
	err = r.turn.Log(ctx, started.Seq, func(e chat.Event) {
		if e.Turn != id {
			return
		}
		m, ok := asMessage(r.turn.Workstream, &e)
		n := roundOf(&e)
		if ok && m.role != "user" && n > 0 && (n < r.n || n == r.n && m.resultOf != "") {
			all = append(all, m)
		}
	})
	return all, err
}

// asMessage turns an event into a message of the conversation on a workstream, or
// on the main line for "".
func asMessage(workstream string, e *chat.Event) (message, bool) {
	m := message{seq: e.Seq, id: string(e.ID), role: "user"}
	here := e.Workstream == workstream
	switch b := e.Body.(type) {
	case chat.UserMessage:
		m.text = b.PlainText()
		if slices.ContainsFunc(b.Content, func(p chat.Part) bool { return p.Type != "text" }) {
			m.parts = b.Content
		}
	case chat.UserInputResponse:
		if m.text = b.Text; m.text == "" {
			m.text = strings.Join(b.Values, ", ")
		}
		m.fromPrompt = true
	case chat.WorkstreamLaunched:
		m.text, here = b.Task, b.ID == workstream && workstream != ""
	case chat.WorkstreamMessage:
		m.text, here = b.Text, b.ID == workstream && workstream != ""
	case chat.AgentText:
		m.role, m.text, m.block = "assistant", b.Text, b.Block
	case chat.AgentInputRequest:
		m.role, m.text, m.fromPrompt = "assistant", b.Text, true
	case chat.AgentToolCall:
		m.role, m.call = "assistant", &b
	case chat.AgentToolResult:
		m.role, m.resultOf, m.text = "tool", b.CallID, json.Text(b.Result)
	case chat.AgentToolError:
		m.role, m.resultOf, m.text, m.failed = "tool", b.CallID, b.Error, true
	default:
		return m, false
	}
	return m, here && (m.text != "" || len(m.parts) > 0 || m.call != nil || m.resultOf != "")
}

// mergeByRole leaves out tools and joins consecutive messages of one role, for
// endpoints that only have user and assistant messages in turn. With apart the user's
// messages stay as they are.
func mergeByRole(all []message, apart bool) []message {
	var out []message
	for _, m := range all {
		if m.call != nil || m.resultOf != "" {
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].role == m.role && !(apart && m.role == "user") {
			out[last].text = strings.TrimPrefix(out[last].text+"\n\n"+m.text, "\n\n")
			out[last].parts = append(slices.Clone(out[last].parts), m.parts...)
			continue
		}
		out = append(out, m)
	}
	return out
}

// maxImage is the largest image that is sent.
const maxImage = 8 << 20

// image returns the address of an image, or the image itself as a data URL; "" for
// a part that is none or cannot be read.
func (a *Agent) image(ctx context.Context, turn *agent.Turn, p *chat.Part) string {
	if p.Type != "image" {
		return ""
	}
	if p.URL != "" {
		return p.URL
	}
	if a.opt.Files == nil {
		return ""
	}
	data, media, err := a.opt.Files(ctx, turn.Ref().Session, p.Path)
	if err != nil || len(data) > maxImage || !strings.HasPrefix(media, "image/") {
		a.opt.Logger.WarnContext(ctx, "an image could not be sent to an agent's endpoint", "session", turn.Ref().Session, "err", err)
		return ""
	}
	return "data:" + media + ";base64," + base64.StdEncoding.EncodeToString(data)
}

// contentParts is a user's message as content parts: its text, its images in the
// form of the protocol, and the names of other parts.
func (a *Agent) contentParts(ctx context.Context, turn *agent.Turn, m *message, image func(url string) map[string]any) []map[string]any {
	var parts []map[string]any
	if m.text != "" {
		parts = append(parts, map[string]any{"type": "text", "text": m.text})
	}
	for i := range m.parts {
		p := &m.parts[i]
		if url := a.image(ctx, turn, p); url != "" {
			parts = append(parts, image(url))
		} else if p.Type != "text" {
			parts = append(parts, map[string]any{"type": "text", "text": "[attached: " + partName(p) + "]"})
		}
	}
	return parts
}

// partName names a part that cannot be sent.
func partName(p *chat.Part) string {
	for _, s := range []string{p.Name, p.Path, p.URL} {
		if s != "" && !strings.HasPrefix(s, "data:") {
			return s
		}
	}
	return p.Type
}
