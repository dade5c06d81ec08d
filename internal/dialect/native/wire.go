package native

import (
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
)

// eventsBody answers an append.
type eventsBody struct {
	Events []chat.Event `json:"events"`
}

// eventsPage answers a read of events.
type eventsPage struct {
	Events []chat.Event `json:"events"`
	More   bool         `json:"more"`
}

type eventBody struct {
	Event chat.Event `json:"event"`
}

type stopBody struct {
	Workstream  string `json:"workstream_id,omitempty"`
	Workstreams bool   `json:"workstreams,omitempty"` // also all workstreams, which continue otherwise
	Reason      string `json:"reason,omitempty"`
}

// workstreamsBody lists the workstreams of a session.
type workstreamsBody struct {
	Workstreams []chat.WorkstreamStatus `json:"workstreams"` // in the order of their launch
}

// messageBody is a message to a workstream.
type messageBody struct {
	Message  string      `json:"message"`
	ClientID string      `json:"client_id,omitempty"`
	Turn     chat.TurnID `json:"turn_id,omitempty"` // the turn that sends it, for agents
	Attempt  int         `json:"attempt,omitempty"`
}

// steerBody is a directive to a workstream.
type steerBody struct {
	Command  string          `json:"command"` // add_instruction, set_priority, add_constraint, pause_requested, resume_requested
	Text     string          `json:"text,omitempty"`
	Payload  json.RawMessage `json:"payload,omitempty"` // an older name of text; other values are passed as JSON
	ClientID string          `json:"client_id,omitempty"`
	Turn     chat.TurnID     `json:"turn_id,omitempty"`
	Attempt  int             `json:"attempt,omitempty"`
}

// terminateBody ends a workstream.
type terminateBody struct {
	Reason  string      `json:"reason,omitempty"`
	Turn    chat.TurnID `json:"turn_id,omitempty"`
	Attempt int         `json:"attempt,omitempty"`
}

// patchBody changes a session.
type patchBody struct {
	Title    *string         `json:"title,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Agent    *string         `json:"agent,omitempty"`
	Policy   *chat.Policy    `json:"policy,omitempty"`
	Settings *chat.Settings  `json:"settings,omitempty"`
	Compact  bool            `json:"compact,omitempty"`
	Members  *[]chat.Member  `json:"members,omitempty"`
	Archived *bool           `json:"archived,omitempty"`
}

// previewBody is a piece as agents send it.
type previewBody struct {
	Block      chat.BlockID   `json:"block"`
	Offset     int            `json:"offset"`
	Text       string         `json:"text"`
	Kind       chat.BlockKind `json:"kind,omitempty"`
	Workstream string         `json:"workstream_id,omitempty"`
	Turn       chat.TurnID    `json:"turn_id,omitempty"`
	Attempt    int            `json:"attempt,omitempty"`
}

func (p previewBody) preview() chat.Preview {
	return chat.Preview{Block: p.Block, Offset: p.Offset, Text: p.Text, Kind: p.Kind, Workstream: p.Workstream, Turn: p.Turn, Attempt: p.Attempt}
}

// shownBody answers previews.
type shownBody struct {
	Shown int `json:"shown"` // how many pieces were taken
}

// agentsBody lists the agents; the runner defines the entries.
type agentsBody struct {
	Agents any `json:"agents"`
}

// agentInfo describes one of agentsBody in the OpenAPI document.
type agentInfo struct {
	Name        string              `json:"name"`
	Kind        string              `json:"kind"`
	Description string              `json:"description,omitempty"`
	Starters    []string            `json:"starters,omitempty"`
	Commands    []chat.AgentCommand `json:"commands,omitempty"`
	Models      []string            `json:"models,omitempty"`
	Default     bool                `json:"default,omitempty"`
	Healthy     bool                `json:"healthy"`
	Problem     string              `json:"problem,omitempty"`
	Workers     int                 `json:"workers,omitempty"`
	Running     int                 `json:"running"`
}

// filesBody lists the files of a session.
type filesBody struct {
	Artifacts []chat.FileInfo `json:"artifacts"`
	More      bool            `json:"more"`
}

// helloFrame is the first frame of a stream.
type helloFrame struct {
	Session   chat.SessionID `json:"session_id"`
	Last      chat.Seq       `json:"last"`
	Cursor    chat.Cursor    `json:"cursor"`
	ServerNow chat.At        `json:"server_now"`
}

type pingFrame struct {
	ServerNow chat.At `json:"server_now"`
}

// byeFrame ends a stream and says whether to reconnect.
type byeFrame struct {
	Error edge.ErrorInfo `json:"error"`
	Retry bool           `json:"retry"`
}

// clientFrame is what a WebSocket client sends: op is watch, unwatch, append,
// preview, answer or stop; for workers ready, append, preview, done, fail and the
// verbs of workstreams.
type clientFrame struct {
	Op         string              `json:"op"`
	ID         json.RawMessage     `json:"id,omitempty"` // a number or text, echoed in the answer
	Session    chat.SessionID      `json:"session_id,omitempty"`
	After      json.RawMessage     `json:"after,omitempty"`  // watch: a cursor; absent means from now on
	Events     json.RawMessage     `json:"events,omitempty"` // append: drafts
	Previews   []previewBody       `json:"previews,omitempty"`
	Preview    *previewBody        `json:"preview,omitempty"`
	RequestID  string              `json:"request_id,omitempty"` // answer
	Answer     *chat.Answer        `json:"answer,omitempty"`
	Workstream string              `json:"workstream_id,omitempty"` // stop
	Reason     string              `json:"reason,omitempty"`
	All        bool                `json:"workstreams,omitempty"` // stop: also all workstreams
	Slots      int                 `json:"slots,omitempty"`       // ready: how many turns at once
	Turns      []chat.TurnID       `json:"turns,omitempty"`       // ready: turns it still holds
	Commands   []chat.AgentCommand `json:"commands,omitempty"`    // ready: that the agent understands
	Turn       chat.TurnID         `json:"turn_id,omitempty"`
	Error      string              `json:"error,omitempty"` // fail: why

	Launch   *chat.Launch             `json:"launch,omitempty"`   // launch_workstream
	Command  string                   `json:"command,omitempty"`  // steer_workstream
	Text     string                   `json:"text,omitempty"`     // message_workstream, steer_workstream
	Progress *chat.WorkstreamProgress `json:"progress,omitempty"` // workstream_progress
	ClientID string                   `json:"client_id,omitempty"`

	raw []byte // the bytes of the frame; valid while it is handled
}

// serverFrame answers a client's frame, or is sent without a request.
type serverFrame struct {
	Op          string                  `json:"op"` // ok, error, ping, bye; for workers also turn, event, stop
	ID          json.RawMessage         `json:"id,omitempty"`
	Session     chat.SessionID          `json:"session_id,omitempty"`
	Cursor      *chat.Cursor            `json:"cursor,omitempty"`
	Last        *chat.Seq               `json:"last,omitempty"`
	Events      []chat.Event            `json:"events,omitempty"`
	Event       *chat.Event             `json:"event,omitempty"`
	Stop        *chat.StopResult        `json:"stop,omitempty"`
	Error       *edge.ErrorInfo         `json:"error,omitempty"`
	Retry       *bool                   `json:"retry,omitempty"`
	Turn        *chat.Assignment        `json:"turn,omitempty"`
	TurnID      chat.TurnID             `json:"turn_id,omitempty"`
	Workstreams []chat.WorkstreamStatus `json:"workstreams,omitempty"` // answers of the verbs of workstreams
	ServerNow   *chat.At                `json:"server_now,omitempty"`
}
