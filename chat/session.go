package chat

import (
	"io"
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
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	Summary     string          `json:"summary,omitempty"`
	Policy      Policy          `json:"policy"`
	Settings    Settings        `json:"settings,omitzero"`
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

// Filter narrows a list of sessions. The zero value lists all a caller may see.
type Filter struct {
	Workspace string
	Actor     *Actor // only sessions this actor owns or is a member of; nil means all
	Agent     string
	Status    Status
	Query     string // words that must occur in title, summary or id, in any case
	System    bool   // also the server's own sessions
	Limit     int
	Cursor    string // opaque, from the page before
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
}

// Erasure is the intention to erase a session. It is stored before anything is
// removed and deleted when nothing of the session is left.
type Erasure struct {
	Number    Number  `json:"number"`
	Workspace string  `json:"workspace"`
	Owner     Actor   `json:"owner"`
	Receipt   Receipt `json:"receipt"` // given to the caller once the erasure is complete
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

// FileWrite says how a file is stored.
type FileWrite struct {
	Max      int64 // most bytes to take; 0 means the store's limit, and never more than that
	IfAbsent bool  // refuse with a conflict when the path is there already

	// Commit stores the event of the change; nil means that there is none. It is
	// called when the file is stored. If it fails, the path gets its old content
	// back. Commits of one path are called one after the other.
	Commit func(FileInfo) error
	After  Seq // the last event of the session; Commit stores its event after it
}

// FileChange is a change of a file, or of all files of a session, that was
// interrupted: the log may have its event or not.
type FileChange struct {
	Session SessionID `json:"session"`
	Path    string    `json:"path,omitempty"` // "" means all files of a session that is a copy and may not have been created
	After   Seq       `json:"after,omitempty"`
	Old     *FileInfo `json:"old,omitempty"` // nil when there was none
	New     *FileInfo `json:"new,omitempty"` // nil when it was removed
}

// FilePut is a file that is put into a session, see FileUploaded.
type FilePut struct {
	Path       string
	MediaType  string
	Body       io.Reader
	Max        int64
	IfAbsent   bool
	Workstream string
	Via        string
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
	// An agent works in the sessions that name it, and who may serve it does, too.
	if c.MayServe(s.Agent) || slices.ContainsFunc(s.Agents, c.MayServe) {
		return Answerer
	}
	return ""
}

// May reports why the caller cannot do in a session what needs a role. The rules
// check that with every fact; it is asked before where something is stored beside
// the log. For a caller without a role the session does not exist.
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
