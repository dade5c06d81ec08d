package x1

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Encode gives a stored event as it goes out on events and archive. Most are sent
// byte for byte as they are stored; where a payload is in the spelling of x1's
// code, or lacks what x1's page promises, the page's fields are added to it.
func Encode(f chat.Fact) ([]byte, error) {
	label, err := f.Label()
	if err != nil {
		return nil, err
	}
	spell := spelled[label.Type]
	if spell == nil {
		return f.JSON, nil
	}
	e, err := f.Event()
	if err != nil {
		return nil, err
	}
	if e.Type == startedType {
		e.Type = "session.started"
	}
	if e.Payload, err = complete(e.Payload, spell(&e)); err != nil {
		return nil, err
	}
	return e.AppendJSON(make([]byte, 0, len(f.JSON)+64)), nil
}

// field is what a payload must have.
type field struct {
	name  string
	value any
}

// spelled says, per type that has two spellings, what the page's one is.
var spelled = map[string]func(*chat.Event) []field{
	"session.started": func(e *chat.Event) []field {
		b, _ := e.Body.(chat.SessionStarted)
		return []field{{"agent_id", b.Agent}, {"session_id", e.Session}}
	},
	startedType: func(e *chat.Event) []field { return []field{{"session_id", e.Session}} },
	"session.failed": func(e *chat.Event) []field {
		b, _ := e.Body.(chat.SessionFailed)
		return []field{{"error_message", b.ErrorMessage}}
	},
	"agent.tool_call": func(e *chat.Event) []field {
		b, _ := e.Body.(chat.AgentToolCall)
		return []field{{"tool", b.Tool}, {"params", b.Params}, {"call_id", b.CallID}}
	},
	"agent.tool_result": func(e *chat.Event) []field {
		b, _ := e.Body.(chat.AgentToolResult)
		return []field{{"tool", b.Tool}, {"result", b.Result}, {"call_id", b.CallID}}
	},
	"agent.tool_error": func(e *chat.Event) []field {
		b, _ := e.Body.(chat.AgentToolError)
		return []field{{"tool", b.Tool}, {"error", b.Error}, {"call_id", b.CallID}}
	},
	"agent.status": func(e *chat.Event) []field {
		b, _ := e.Body.(chat.AgentStatus)
		return []field{{"message", b.Message}}
	},
	"agent.artifact": func(e *chat.Event) []field {
		b, _ := e.Body.(chat.AgentArtifact)
		return []field{{"type", b.ArtifactType}, {"data", b.Data}}
	},
	"agent.input_request": func(e *chat.Event) []field {
		b, _ := e.Body.(chat.AgentInputRequest)
		return []field{{"question", b.Text}}
	},
	"user.input_response": func(e *chat.Event) []field {
		b, _ := e.Body.(chat.UserInputResponse)
		text := b.Text
		if text == "" {
			text = strings.Join(b.Values, ", ")
		}
		return []field{{"text", text}, {"request_id", b.RequestID}}
	},
}

// complete adds the fields that an object lacks. What is there stays as it is.
func complete(payload json.RawMessage, want []field) (json.RawMessage, error) {
	var have map[string]json.RawMessage
	if len(payload) == 0 || payload[0] != '{' || json.Unmarshal(payload, &have) != nil {
		return payload, nil
	}
	out := payload
	for _, f := range want {
		if raw, ok := f.value.(json.RawMessage); ok && raw == nil || have[f.name] != nil {
			continue
		}
		v, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		if len(out) == len(payload) { // the stored bytes are shared
			out = slices.Grow(slices.Clone(out), len(v)+len(f.name)+8)
		}
		out = bytes.TrimSuffix(out, []byte("}"))
		if len(have) > 0 {
			out = append(out, ',')
		}
		out = chat.AppendString(out, f.name)
		out = append(append(append(out, ':'), v...), '}')
		have[f.name] = v
	}
	return out, nil
}

// EncodePreview gives a piece as it goes out on delta: an envelope without a
// sequence, whose type says what the block will become.
func EncodePreview(id chat.SessionID, p *chat.Preview) []byte {
	b := make([]byte, 0, 192+len(p.Text))
	b = append(b, `{"session_id":"`...)
	b = append(b, id...)
	b = append(b, `","timestamp":"`...)
	b = append(b, p.At.String()...)
	b = append(b, `","type":"`...)
	b = append(b, DeltaType(p.Kind)...)
	b = append(b, `","payload":`...)
	b = p.AppendJSON(b)
	return append(b, '}')
}

// DeltaType is the type of a preview's envelope.
func DeltaType(k chat.BlockKind) string {
	if k == chat.ThinkingBlock {
		return "agent.thinking.delta"
	}
	return "agent.text.delta"
}

// Synthetic is a permission decision as x1's agents are told of it: a user
// message that wakes them. It is an encoding of the fact, never a second one.
func Synthetic(e *chat.Event) (json.RawMessage, bool) {
	b, ok := e.Body.(chat.UserPermissionResponse)
	if !ok {
		return nil, false
	}
	text := "Permission denied: " + strings.Join(b.Denied, ", ")
	if len(b.Granted) > 0 {
		text = "Permission granted: " + strings.Join(b.Granted, ", ")
		if len(b.Denied) > 0 {
			text += "; denied: " + strings.Join(b.Denied, ", ")
		}
	}
	raw, err := json.Marshal(map[string]any{
		"text": text, "user_id": e.Actor.ID, "is_synthetic": true, "kind": "permission", "source": "platform", "event_id": e.ID,
		"request_id": b.RequestID, "granted": b.Granted, "denied": b.Denied, "duration": b.Duration,
	})
	return raw, err == nil
}

// EncodeInput gives a committed user fact as it goes to a session's sidecar; ok is
// false for what a sidecar is not told.
func EncodeInput(e *chat.Event) (b []byte, ok bool) {
	out := *e
	switch e.Body.(type) {
	case chat.UserMessage, chat.UserApprovalResponse:
	case chat.UserInputResponse:
		p, err := complete(e.Payload, spelled[e.Type](e))
		if err != nil {
			return nil, false
		}
		out.Payload = p
	case chat.UserPermissionResponse:
		if out.Payload, ok = Synthetic(e); !ok {
			return nil, false
		}
		out.Type = chat.UserMessage{}.Type()
	case chat.TurnStopRequested:
	default:
		return nil, false
	}
	return out.AppendJSON(nil), true
}

// status maps codes to the numbers of HTTP, which JetStream's clients know too.
var status = map[chat.Code]int{
	chat.Invalid: http.StatusBadRequest, chat.Unauthenticated: http.StatusUnauthorized, chat.Denied: http.StatusForbidden,
	chat.NotFound: http.StatusNotFound, chat.Conflict: http.StatusConflict, chat.Gone: http.StatusGone,
	chat.TooLarge: http.StatusRequestEntityTooLarge, chat.SlowDown: http.StatusTooManyRequests,
	chat.Unavailable: http.StatusServiceUnavailable, chat.Internal: http.StatusInternalServerError,
}

// problem is an error as it goes out.
func problem(err error) *Problem {
	e := chat.Public(err)
	return &Problem{Code: status[e.Code], Reason: e.Code, Refusal: e.Reason, Description: e.Msg, Details: e.Details}
}
