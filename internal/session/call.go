package session

import (
	"bytes"
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// call is a call of a method as it is sent to another node.
type call struct {
	Method  string         `json:"method"`
	Session chat.SessionID `json:"session"`
	Caller  chat.Caller    `json:"caller,omitzero"`

	Drafts []sentDraft `json:"drafts,omitempty"`
	Free   bool        `json:"free,omitempty"` // the quota of stored bytes does not apply to the drafts
	Pieces []sentPiece `json:"pieces,omitempty"`

	New      *chat.NewSession     `json:"new,omitempty"`
	ServedBy string               `json:"served_by,omitempty"` // of New
	Started  *chat.SessionStarted `json:"started,omitempty"`
	Update   *chat.SessionUpdated `json:"update,omitempty"`
	From     *chat.Session        `json:"from,omitempty"` // what Update was decided on; nil means not checked

	Request sentText     `json:"request,omitempty"`
	Answer  *chat.Answer `json:"answer,omitempty"`

	Turn    chat.TurnRef `json:"turn,omitzero"`
	Outcome chat.Outcome `json:"outcome,omitempty"`
	Cause   string       `json:"cause,omitempty"`
	Which   takenEvents  `json:"which,omitempty"`

	Line sentText `json:"line,omitempty"` // also the name of a workstream
	Ack  string   `json:"ack,omitempty"`
	All  bool     `json:"all,omitempty"`

	Seen   chat.TurnID   `json:"seen,omitempty"`   // of a stop: the turn that it is for, or the running one at the node that was asked; "" if it had none
	Before time.Duration `json:"before,omitempty"` // of a stop: how long it had waited before the call

	Launch      *chat.Launch             `json:"launch,omitempty"`
	Steering    *chat.Steering           `json:"steering,omitempty"`
	ClientID    string                   `json:"client_id,omitempty"`
	Progress    *chat.WorkstreamProgress `json:"progress,omitempty"`
	Workstreams []string                 `json:"workstreams,omitempty"`

	waited time.Duration // for the owner, at the node that has sent the call
}

// repeatable reports whether the call has the same effect when it is handled twice.
func (q *call) repeatable() bool {
	switch q.Method {
	case callAppend:
		return !slices.ContainsFunc(q.Drafts, func(d sentDraft) bool { return d.ClientID == "" })
	case callAnswer:
		return q.Answer.ClientID != ""
	case callLaunch:
		return q.Launch.ClientID != ""
	case callMessage, callSteer:
		return q.Steering.ClientID != ""
	case callReport:
		return q.ClientID != ""
	case callPreview:
		return !slices.ContainsFunc(q.Pieces, func(p sentPiece) bool { return p.AtEnd })
	case callTake:
		return false
	}
	return true
}

// sentText is a text of a request's path, which may be invalid UTF-8. JSON would replace such bytes, and the owner would refuse
// another text than the client has sent.
type sentText string

// MarshalJSON encodes text that is not valid UTF-8 as an array with its bytes.
func (t sentText) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal([][]byte{[]byte(t)})
}

// UnmarshalJSON decodes what MarshalJSON has encoded.
func (t *sentText) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '[' {
		return json.Unmarshal(b, (*string)(t))
	}
	var list [][]byte
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*t = sentText(bytes.Join(list, nil))
	return nil
}

// sentDraft is a chat.Draft, with the fields that clients cannot write.
type sentDraft struct {
	Type       string          `json:"type"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	ClientID   string          `json:"client_id,omitempty"`
	Workstream string          `json:"workstream,omitempty"`
	Parent     chat.EventID    `json:"parent,omitempty"`
	Turn       chat.TurnID     `json:"turn,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Via        string          `json:"via,omitempty"`
	Interrupt  bool            `json:"interrupt,omitempty"`
	Expect     *chat.Expected  `json:"expect,omitempty"`
	AfterSeq   chat.Seq        `json:"after,omitempty"`
	File       *chat.FileName  `json:"file,omitempty"`
}

// sendable returns the form of a normalized draft, whose payload has the body.
func sendable(d *chat.Draft) sentDraft {
	return sentDraft{
		Type: d.Type, Payload: d.Payload, ClientID: d.ClientID, Workstream: d.Workstream, Parent: d.Parent, Turn: d.Turn, Attempt: d.Attempt,
		Via: d.Via, Interrupt: d.Interrupt, Expect: d.Expect, AfterSeq: d.AfterSeq, File: d.File,
	}
}

func (d *sentDraft) draft() chat.Draft {
	return chat.Draft{
		Type: d.Type, Payload: d.Payload, ClientID: d.ClientID, Workstream: d.Workstream, Parent: d.Parent, Turn: d.Turn, Attempt: d.Attempt,
		Via: d.Via, Interrupt: d.Interrupt, Expect: d.Expect, AfterSeq: d.AfterSeq, File: d.File,
	}
}

func drafts(list []sentDraft) []chat.Draft {
	out := make([]chat.Draft, len(list))
	for i := range list {
		out[i] = list[i].draft()
	}
	return out
}

// sentPiece is a chat.Preview, with the fields that clients cannot write.
type sentPiece struct {
	chat.Preview
	Attempt int  `json:"attempt,omitempty"`
	AtEnd   bool `json:"at_end,omitempty"`
}

func pieces(list []sentPiece) []chat.Preview {
	out := make([]chat.Preview, len(list))
	for i, p := range list {
		out[i] = p.Preview
		out[i].Attempt, out[i].AtEnd = p.Attempt, p.AtEnd
	}
	return out
}

// callResult is the result of a call.
type callResult struct {
	Error     *sentError             `json:"error,omitempty"`
	Sequences []chat.Seq             `json:"sequences,omitempty"`
	Session   *chat.Session          `json:"session,omitempty"`
	OK        bool                   `json:"ok,omitempty"`
	Stop      chat.StopResult        `json:"stop,omitzero"`
	Acks      bool                   `json:"acks,omitempty"` // of Stop
	Status    *chat.WorkstreamStatus `json:"status,omitempty"`
	Receipt   *chat.Receipt          `json:"receipt,omitempty"`
}

// sentError is an error.
type sentError struct {
	Code    chat.Code                  `json:"code,omitempty"`
	Reason  chat.Reason                `json:"reason,omitempty"`
	Text    string                     `json:"text,omitempty"`
	Details map[string]json.RawMessage `json:"details,omitempty"`
	Foreign bool                       `json:"foreign,omitempty"` // errForeign
	Seen    bool                       `json:"seen,omitempty"`    // of errForeign
	Missing bool                       `json:"missing,omitempty"` // errNoSession
}

// The methods.
const (
	callAppend    = "append"
	callPreview   = "preview"
	callCreate    = "create"
	callUpdate    = "update"
	callAnswer    = "answer"
	callWithdraw  = "withdraw_prompt"
	callEndTurn   = "end_turn"
	callTake      = "take_events"
	callStop      = "stop"
	callLaunch    = "launch"
	callMessage   = "message_workstream"
	callSteer     = "steer_workstream"
	callTerminate = "terminate_workstream"
	callReport    = "report_workstream"
	callErase     = "erase"
)

// handlers handle the calls on the node that owns the session. beginCall handles appends and previews.
var handlers map[string]func(ctx context.Context, s *Sessions, q *call) (*callResult, error)

func init() {
	status := func(w chat.WorkstreamStatus, err error) (*callResult, error) { return &callResult{Status: &w}, err }
	session := func(sess chat.Session, ok bool, err error) (*callResult, error) {
		return &callResult{Session: &sess, OK: ok}, err
	}
	handlers = map[string]func(context.Context, *Sessions, *call) (*callResult, error){
		callCreate: func(ctx context.Context, s *Sessions, q *call) (*callResult, error) {
			n := *q.New
			n.ServedBy = q.ServedBy
			return session(s.beginHere(ctx, q.Caller, n, *q.Started))
		},
		callUpdate: func(ctx context.Context, s *Sessions, q *call) (*callResult, error) {
			sess, err := s.updateHere(ctx, q.Caller, q.Session, *q.Update, q.From)
			return session(sess, true, err)
		},
		callAnswer: func(ctx context.Context, s *Sessions, q *call) (*callResult, error) {
			e, err := s.answerHere(ctx, q.Caller, q.Session, string(q.Request), *q.Answer)
			return &callResult{Sequences: []chat.Seq{e.Seq}}, err
		},
		callWithdraw: func(ctx context.Context, s *Sessions, q *call) (*callResult, error) {
			return &callResult{}, s.withdrawHere(ctx, q.Turn, string(q.Request))
		},
		callEndTurn: func(ctx context.Context, s *Sessions, q *call) (*callResult, error) {
			return &callResult{}, s.endTurnHere(ctx, q.Turn, q.Outcome, q.Cause)
		},
		callTake: func(ctx context.Context, s *Sessions, q *call) (*callResult, error) {
			taken, err := s.takeHere(ctx, q.Turn, q.Which, q.Workstreams)
			return &callResult{Sequences: taken}, err
		},
		callStop: func(ctx context.Context, s *Sessions, q *call) (*callResult, error) {
			res, err := s.stopHere(ctx, q)
			return &callResult{Stop: res, Acks: res.Acks}, err
		},
		callLaunch: func(ctx context.Context, s *Sessions, q *call) (*callResult, error) {
			return status(s.launchHere(ctx, q.Caller, q.Session, *q.Launch))
		},
		callMessage: func(ctx context.Context, s *Sessions, q *call) (*callResult, error) {
			return status(s.messageHere(ctx, q.Caller, q.Session, string(q.Line), *q.Steering))
		},
		callSteer: func(ctx context.Context, s *Sessions, q *call) (*callResult, error) {
			return status(s.steerHere(ctx, q.Caller, q.Session, string(q.Line), *q.Steering))
		},
		callTerminate: func(ctx context.Context, s *Sessions, q *call) (*callResult, error) {
			return status(s.terminateHere(ctx, q.Caller, q.Session, string(q.Line), *q.Steering))
		},
		callReport: func(ctx context.Context, s *Sessions, q *call) (*callResult, error) {
			return &callResult{}, s.reportHere(ctx, q.Turn, q.ClientID, *q.Progress)
		},
		callErase: func(ctx context.Context, s *Sessions, q *call) (*callResult, error) {
			receipt, err := s.eraseHere(ctx, q.Caller, q.Session)
			return &callResult{Receipt: &receipt}, err
		},
	}
}
