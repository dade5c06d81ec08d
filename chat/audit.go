package chat

// AuditEntry is one entry of the audit log: who did what, to which session, from
// where, and whether it was allowed. It has no secrets and no text of messages.
type AuditEntry struct {
	ID        string         `json:"id"` // a value for after and before
	At        At             `json:"timestamp"`
	Event     string         `json:"event"` // such as sign_in_refused or session_erased
	Outcome   string         `json:"outcome"`
	Actor     *Actor         `json:"actor,omitempty"`     // absent when the actor is not known
	Workspace string         `json:"workspace,omitempty"` // absent when it concerns the whole server
	Session   SessionID      `json:"session_id,omitempty"`
	Address   string         `json:"address,omitempty"`
	Count     int            `json:"count,omitempty"` // how many times, when that is more than once
	Details   map[string]any `json:"details,omitempty"`
}

// AuditDone is the outcome of a successful operation. An operation that was refused or
// failed has the code of the error as its outcome.
const AuditDone = "done"

// AuditQuery selects entries of the audit log.
type AuditQuery struct {
	After   string    // only entries after this one
	Before  string    // only entries before this one
	Event   string    // only this event; "" means all
	Session SessionID // only about this session; "" means all
	Limit   int
	Desc    bool // newest first
}

// AuditPage is a part of the audit log.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	More    bool         `json:"more"`           // there may be further entries after last
	Last    string       `json:"last,omitempty"` // the id of the last entry that was read, also if it does not match the query
}
