package chat

// Snapshot is a session at one moment: enough to draw it, and the cursor from
// which to follow it.
type Snapshot struct {
	Session   Session `json:"session"`
	State     View    `json:"state"`
	Items     []Item  `json:"items"` // the last ones, oldest first
	More      bool    `json:"more"`  // there are older ones
	Open      []Item  `json:"open"`  // blocks that are being written
	Cursor    Cursor  `json:"cursor"`
	ServerNow At      `json:"server_now"`
	Caller    Actor   `json:"caller,omitzero"` // the actor that read it
}

// ItemPage is a part of a session's items, oldest first.
type ItemPage struct {
	Items  []Item `json:"items"`
	More   bool   `json:"more"`             // there are older ones
	Before Seq    `json:"before,omitempty"` // ask for these with before
}

// SearchPage has the results of a search, newest first.
type SearchPage struct {
	Hits   []Hit `json:"hits"`
	More   bool  `json:"more"`             // older events were not searched yet
	Before Seq   `json:"before,omitempty"` // the value of before for the next page
}

// Hit is an event in which the text occurs.
type Hit struct {
	Seq        Seq    `json:"sequence"`
	At         At     `json:"timestamp"`
	Type       string `json:"type"`
	Workstream string `json:"workstream_id,omitempty"`
	Turn       TurnID `json:"turn_id,omitempty"`
	Call       string `json:"call_id,omitempty"` // of a tool call, its progress and its result
	Snippet    string `json:"snippet"`           // the text around the match
}
