package chat

import (
	"slices"

	"github.com/parley-hq/parley/internal/json"
)

// Status is what a session list shows.
type Status string

// The states of a session.
const (
	Idle        Status = "idle"      // nothing to do
	Running     Status = "running"   // a turn is under way
	Waiting     Status = "waiting"   // a prompt is open: a person is needed
	Completed   Status = "completed" // ended; a user message reopens it
	FailedState Status = "failed"    // ended with an error; a user message reopens it
)

// Session is a session's record: a projection of its log.
type Session struct {
	ID          SessionID       `json:"session_id"`
	Workspace   string          `json:"workspace"`
	Owner       Actor           `json:"owner"`
	Members     []Member        `json:"members,omitempty"`
	Agent       string          `json:"agent"`
	Agents      []string        `json:"agents,omitempty"` // others, that answer in its workstreams
	Title       string          `json:"title,omitempty"`
	Heading     string          `json:"heading,omitempty"` // made from the first message when there is no title, without what may be secret
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	Summary     string          `json:"summary,omitempty"`
	Policy      Policy          `json:"policy"`
	Settings    Settings        `json:"settings,omitzero"`
	Archived    bool            `json:"archived,omitempty"` // people have put it away; it works as before
	Status      Status          `json:"status"`
	Error       string          `json:"error,omitempty"` // why it failed
	OpenPrompts int             `json:"open_prompts"`
	ForkedOf    SessionID       `json:"forked_of,omitempty"`
	ForkedAt    Seq             `json:"forked_at,omitempty"`
	Parent      SessionID       `json:"parent,omitempty"`    // the session whose agent started this one; only the server sets it
	Grant       string          `json:"grant_id,omitempty"`  // that allowed the start; only the server sets it
	ServedBy    string          `json:"served_by,omitempty"` // the agent whose sidecar answers in place of Agent; only the server sets it
	CreatedAt   At              `json:"created_at"`
	UpdatedAt   At              `json:"updated_at"` // the last event's
	Last        Seq             `json:"last"`       // the last event's

	// Partition of the cluster that the session is in. It follows from the id and is not
	// stored; nil on a single server.
	Partition *int `json:"partition,omitempty"`
}

// RoleOf returns what the actor may do in the session, "" for nothing.
func (s *Session) RoleOf(a Actor) Role {
	if s.Owner.Same(a) {
		return Owner
	}
	for _, m := range s.Members {
		if m.Actor.Same(a) {
			return m.Role
		}
	}
	return ""
}

// SessionPage is a part of a list, the most recently active first.
type SessionPage struct {
	Sessions []Session `json:"sessions"`
	Next     string    `json:"next_cursor,omitempty"` // "" at the end
}

// Range asks for stored events of a session.
type Range struct {
	After      Seq      // only events after it
	Before     Seq      // only events before it; 0 means no bound
	Limit      int      // most events to return; 0 means no bound but MaxBytes
	MaxBytes   int      // stop after about so many bytes, but give at least one event; 0 means no bound
	Desc       bool     // newest first
	Types      []string // only these types; nil means all
	Workstream *string  // only this line; "" is the main line; nil means all
}

// Receipt says what an erase removed.
type Receipt struct {
	Session   SessionID `json:"session_id"`
	Events    uint64    `json:"events"`
	Artifacts int       `json:"artifacts"`
	Bytes     int64     `json:"bytes"`
	ErasedAt  At        `json:"erased_at"`
	Note      string    `json:"note"` // what the erasure does not cover

	Nodes   []string `json:"nodes,omitempty"`         // of a cluster: those that have removed the session
	Pending []string `json:"nodes_pending,omitempty"` // those that did not answer; they remove it when they are back, before they serve it
}

// NewSession is what a session begins with.
type NewSession struct {
	ID       SessionID       `json:"id,omitempty"`    // made by the server when absent
	Agent    string          `json:"agent,omitempty"` // "" means the default agent, "none" means no agent
	Title    string          `json:"title,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Policy   Policy          `json:"policy,omitempty"`
	Settings Settings        `json:"settings,omitzero"`
	Members  []Member        `json:"members,omitempty"`

	ServedBy string `json:"-"` // see [Session.ServedBy]; no request of a client carries it
}

// StopResult says what a stop did.
type StopResult struct {
	Stopped bool   `json:"stopped"` // false: nothing was running
	TurnID  TurnID `json:"turn_id,omitempty"`
	Acks    bool   `json:"-"` // the end of the turn will carry the acknowledgement of this stop
}

// FileInfo describes a file of a session.
type FileInfo struct {
	Path      string `json:"path"`
	MediaType string `json:"media_type"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"` // of the bytes, in hexadecimal; serves as an entity tag
	StoredAt  At     `json:"stored_at"`
}

// FileName is a change of a path of a session's files that is stored with an event.
type FileName struct {
	FileInfo      // without SHA256 if the path is removed
	IfAbsent bool `json:"if_absent,omitempty"` // refuse with a conflict when the path is there already
}

// RoleIn returns what the caller may do in a session, "" for nothing. The server's
// own sessions can only be looked at, and only by administrators of all workspaces.
func (c Caller) RoleIn(s *Session) Role {
	switch system := s.ID.System(); {
	case system && c.Actor != System:
		if c.AdministersAll() {
			return Viewer
		}
		return ""
	case c.Administers(s.Workspace):
		return Owner
	}
	if c.In() != s.Workspace {
		return ""
	}
	if r := s.RoleOf(c.Actor); r != "" {
		return r
	}
	// The worker of an agent may write to the sessions that name the agent.
	if c.MayServe(s.Agent) || slices.ContainsFunc(s.Agents, c.MayServe) {
		return Answerer
	}
	return ""
}

// May returns an error if the caller does not have a role in a session. Package session
// checks this for every event; others call May before they store something outside of
// the log. For a caller without any role the session does not exist.
func (c Caller) May(s *Session, want Role) error {
	role := c.RoleIn(s)
	if role == "" {
		return Errorf(NotFound, "there is no session %q, or it is not yours", string(s.ID))
	}
	if !role.Includes(want) {
		return Errorf(Denied, "you are a %s of this session; this needs the role %s", role, want)
	}
	return nil
}
