package core

import "github.com/parley-hq/parley/chat"

// Filter narrows a list of sessions. The zero value lists all a caller may see.
type Filter struct {
	Workspace string
	Actor     *chat.Actor // only sessions this actor owns or is a member of; nil means all
	Agent     string
	User      string // only sessions that the user with this id owns or is a member of
	Status    chat.Status
	Archived  *bool   // only archived sessions, or only others; nil means both
	Since     chat.At // only sessions that were last active at this time or later; 0 means no bound
	Until     chat.At // only sessions that were last active before this time; 0 means no bound
	Query     string  // words that must occur in title, summary or id, in any case
	System    bool    // also the server's own sessions
	Limit     int
	Cursor    string // opaque, from the page before
}
