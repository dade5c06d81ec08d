package vertesia

import (
	"context"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// Event types of this dialect, for what the common vocabulary has no type for.
// Other dialects pass them on or leave them out.
const (
	typeFiles     = "vertesia.files"     // all attachments of the run
	typeStopped   = "vertesia.stopped"   // the acknowledgement of a stop when no turn ended by it
	typeRestarted = "vertesia.restarted" // a run that had ended is open again
	typeSignal    = "vertesia.signal"    // a signal that no other event stands for
	typeTelemetry = "vertesia.telemetry" // what a worker reported about itself
)

// stoppedBody is the body of vertesia.stopped.
type stoppedBody struct {
	Message  string `json:"message,omitempty"`
	ClientID string `json:"client_message_id,omitempty"`
}

// dialectDraft is a draft of one of the types above.
func dialectDraft(typ string, body any) chat.Draft {
	b, err := json.Marshal(body)
	if err != nil {
		panic("vertesia: the body of " + typ + " cannot be written as JSON: " + err.Error())
	}
	return chat.Draft{Type: typ, Payload: b, Via: via}
}

// dialectMessages are the messages of an event of one of the types above.
func dialectMessages(e *chat.Event, b chat.Unknown) []message {
	switch b.Name {
	case typeFiles:
		var files attachments
		if json.Unmarshal(b.Payload, &files) != nil {
			return nil
		}
		return one(e, System, "", files.details())
	case typeStopped:
		var s stoppedBody
		if json.Unmarshal(b.Payload, &s) != nil {
			return nil
		}
		return []message{stopMessage(e.Workstream, s.Message, s.ClientID, nil)}
	case typeRestarted:
		return one(e, Restarting, "The run was opened again.", details{Class: "activity"})
	}
	return nil
}

// lastEvent returns the last event of a session that fits a range, or nil.
func (d *Dialect) lastEvent(ctx context.Context, c chat.Caller, id chat.SessionID, r chat.Range) (*chat.Event, error) {
	r.Limit, r.Desc = 1, true
	for e, err := range d.opt.Sessions.Events(ctx, c, id, r) {
		return &e, err
	}
	return nil, nil
}
