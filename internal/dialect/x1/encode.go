package x1

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
)

// As returns a stored event in this dialect's form.
func (d *Dialect) As(_ context.Context, f chat.Fact) (any, error) {
	b, err := encode(f)
	return json.RawMessage(b), err
}

// encode returns a stored event as it is published on events and archive. Most are sent
// byte for byte as they are stored. Where a payload has the field names of x1's programs
// and not those of x1's protocol page, the page's fields are added. Usage has x1's count of
// input tokens.
func encode(f chat.Fact) ([]byte, error) {
	label, err := f.Label()
	if err != nil {
		return nil, err
	}
	spell := pageFields[label.Type]
	if spell == nil {
		return f.JSON, nil
	}
	e, err := f.Event()
	if err != nil {
		return nil, err
	}
	switch e.Type {
	case usageType:
		e.Payload = moveCached(e.Payload, -1)
	case startedType:
		e.Type = "session.started"
	}
	if e.Payload, err = addMissing(e.Payload, spell(&e)); err != nil {
		return nil, err
	}
	return e.AppendJSON(make([]byte, 0, len(f.JSON)+64)), nil
}

// field is a field that a payload must have.
type field struct {
	name  string
	value any
}

// pageFields returns the fields of the protocol page, for types that have other field
// names in x1's programs.
var pageFields = map[string]func(*chat.Event) []field{
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
	usageType: func(*chat.Event) []field { return nil }, // only its input_tokens differ
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

// addMissing adds the fields that an object lacks and changes nothing else.
func addMissing(payload json.RawMessage, want []field) (json.RawMessage, error) {
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
		out = json.AppendString(out, f.name)
		out = append(append(append(out, ':'), v...), '}')
		have[f.name] = v
	}
	return out, nil
}

// encodePreview returns a preview as it is published on delta: an envelope without a
// sequence.
func encodePreview(id chat.SessionID, p *chat.Preview) []byte {
	b := make([]byte, 0, 192+len(p.Text))
	b = append(b, `{"session_id":"`...)
	b = append(b, id...)
	b = append(b, `","timestamp":"`...)
	b = append(b, p.At.String()...)
	b = append(b, `","type":"`...)
	b = append(b, deltaType(p.Kind)...)
	b = append(b, `","payload":`...)
	b = p.AppendJSON(b)
	return append(b, '}')
}

// deltaType is the type of a preview's envelope.
func deltaType(k chat.BlockKind) string {
	if k == chat.ThinkingBlock {
		return "agent.thinking.delta"
	}
	return "agent.text.delta"
}

// permissionMessage encodes a permission decision as the user message that x1's agents
// expect. It is not stored.
func permissionMessage(e *chat.Event) (json.RawMessage, bool) {
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

// EncodeInput returns a stored user event as it is published on the input of a sidecar;
// ok is false for types that are not published there.
func EncodeInput(e *chat.Event) (b []byte, ok bool) {
	out := *e
	switch e.Body.(type) {
	case chat.UserMessage, chat.UserApprovalResponse:
	case chat.UserInputResponse:
		p, err := addMissing(e.Payload, pageFields[e.Type](e))
		if err != nil {
			return nil, false
		}
		out.Payload = p
	case chat.UserPermissionResponse:
		if out.Payload, ok = permissionMessage(e); !ok {
			return nil, false
		}
		out.Type = chat.UserMessage{}.Type()
	case chat.TurnStopRequested:
	default:
		return nil, false
	}
	return out.AppendJSON(nil), true
}

// problem is an error as it is sent. Its code is the HTTP status, which JetStream's
// clients expect.
func problem(err error) *Problem {
	e := chat.Public(err)
	return &Problem{Code: edge.Status(e.Code), Reason: e.Code, Refusal: e.Reason, Description: e.Msg, Details: e.Details}
}
