package remote

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// message is one word of the conversation as an endpoint is told it.
type message struct {
	at    chat.Seq // where it stands in the conversation
	id    string   // of the event
	block chat.BlockID
	role  string // user, assistant, tool
	text  string
	parts []chat.Part         // of a user's message, when it has more than text
	call  *chat.AgentToolCall // an assistant's message that is a call
	tool  string              // the call_id that a tool's message belongs to
	fault bool                // the tool failed
	asked bool                // it is a question, or the answer to one
}

// historyBytes bounds what is sent along of a conversation.
const historyBytes = 512 << 10

// told are the types of which a conversation is made.
var told = []string{
	"user.message", "user.message_withdrawn", "user.input_response", "agent.text", "agent.input_request", "agent.tool_call",
	"agent.tool_result", "agent.tool_error", "workstream.launched", "workstream.message", "turn.started", "turn.input",
}

// history is the conversation up to the turn's trigger, on the line of the turn,
// oldest first. What the turn itself said is not in it. A message that waited
// stands where its turn began, behind the answers that it waited for.
func (a *Agent) history(ctx context.Context, turn *agent.Turn) ([]message, error) {
	started, err := turn.Started(ctx)
	if err != nil {
		return nil, err
	}
	var all []message
	size := 0
	taken := map[chat.Seq]chat.Seq{} // messages, by where a turn took them up
	withdrawn := map[chat.Seq]bool{}
	for before := started.Seq; before > 1 && len(all) < a.opt.History && size < historyBytes; {
		facts, more, err := turn.Read(ctx, chat.Range{Before: before, Limit: 200, Desc: true, Types: told})
		if err != nil {
			return nil, err
		}
		for _, f := range facts {
			e, err := f.Event()
			if err != nil {
				return nil, err
			}
			before = e.Seq
			switch b := e.Body.(type) {
			case chat.UserMessageWithdrawn:
				withdrawn[b.Sequence] = true
			case chat.TurnStarted:
				taken[b.Trigger] = e.Seq
			case chat.TurnInput:
				for _, seq := range b.Sequences {
					taken[seq] = e.Seq
				}
			}
			m, ok := asMessage(turn.Workstream, &e)
			if at, answered := taken[e.Seq]; answered {
				m.at = at
			} else if m.role == "user" && !m.asked && e.Seq >= turn.Trigger.Seq {
				continue // the trigger itself, or it waits behind it
			}
			if ok && !withdrawn[e.Seq] && e.Seq != turn.Trigger.Seq && len(all) < a.opt.History-1 {
				all = append(all, m)
				size += len(m.text)
			}
		}
		if !more || len(facts) == 0 || len(all) >= a.opt.History-1 {
			break
		}
	}
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b message) int { return cmp.Compare(a.at, b.at) })
	// It begins with a person, not in the middle of an answer.
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

// ownMessages is what the rounds of a turn before one said, oldest first, and what tools
// gave at its beginning.
func ownMessages(ctx context.Context, turn *agent.Turn, round int) ([]message, error) {
	started, err := turn.Started(ctx)
	if err != nil {
		return nil, err
	}
	var out []message
	id := turn.Ref().Turn
	err = turn.Log(ctx, started.Seq, func(e chat.Event) {
		if e.Turn != id {
			return
		}
		m, ok := asMessage(turn.Workstream, &e)
		if !ok || m.role == "user" {
			return
		}
		for n := 1; n < round || n == round && m.tool != ""; n++ {
			if strings.HasPrefix(e.ClientID, string(id)+"/r"+strconv.Itoa(n)+".") {
				out = append(out, m)
				return
			}
		}
	})
	return out, err
}

// asMessage is an event as a word of the conversation of a line.
func asMessage(line string, e *chat.Event) (message, bool) {
	m := message{at: e.Seq, id: string(e.ID), role: "user"}
	here := e.Workstream == line
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
		m.asked = true
	case chat.WorkstreamLaunched:
		m.text, here = b.Task, b.ID == line && line != ""
	case chat.WorkstreamMessage:
		m.text, here = b.Text, b.ID == line && line != ""
	case chat.AgentText:
		m.role, m.text, m.block = "assistant", b.Text, b.Block
	case chat.AgentInputRequest:
		m.role, m.text, m.asked = "assistant", b.Text, true
	case chat.AgentToolCall:
		m.role, m.call = "assistant", &b
	case chat.AgentToolResult:
		m.role, m.tool, m.text = "tool", b.CallID, plain(b.Result)
	case chat.AgentToolError:
		m.role, m.tool, m.text, m.fault = "tool", b.CallID, b.Error, true
	default:
		return m, false
	}
	return m, here && (m.text != "" || len(m.parts) > 0 || m.call != nil || m.tool != "")
}

// spoken leaves out tools and puts what one side said in a row together: what
// endpoints understand that only know user and assistant.
func spoken(all []message) []message {
	var out []message
	for _, m := range all {
		if m.call != nil || m.tool != "" {
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].role == m.role {
			out[last].text = strings.TrimPrefix(out[last].text+"\n\n"+m.text, "\n\n")
			out[last].parts = append(slices.Clone(out[last].parts), m.parts...)
			continue
		}
		out = append(out, m)
	}
	return out
}

// Bounds of an image that is sent along.
const mostImage = 8 << 20

// image is where an endpoint finds an image: an address, or the image itself.
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
	if err != nil || len(data) > mostImage || !strings.HasPrefix(media, "image/") {
		a.opt.Logger.WarnContext(ctx, "an image could not be sent to an agent's endpoint", "session", turn.Ref().Session, "err", err)
		return ""
	}
	return "data:" + media + ";base64," + base64.StdEncoding.EncodeToString(data)
}

// nameOf is how a part is mentioned that cannot be sent.
func nameOf(p *chat.Part) string {
	for _, s := range []string{p.Name, p.Path, p.URL} {
		if s != "" && !strings.HasPrefix(s, "data:") {
			return s
		}
	}
	return p.Type
}
