package chat

// Commit is what the rules decided and a committer orders and stores, as one
// atomic unit. It can be applied only to a session whose last event is After.
type Commit struct {
	Session SessionID
	Number  Number
	After   Seq
	AfterAt At      // position of the last event before, 0 for none
	Events  []Event // at least one, contiguous from After+1
	Facts   []Fact  // the same, as stored
	Keys    []Key   // idempotency keys of the events that have one
	Ends    []BlockEnds
	State   *State // after the last event, its Head that of the last fact; read only until Commit returns
	Record  bool   // the session's record changed beyond its last event
}

// Key ties a sender's idempotency key to the event it made.
type Key struct {
	Actor    string // Actor.Key
	ClientID string
	Digest   uint64 // of the draft
	Seq      Seq
}

// BlockEnds keeps where the pieces of a finished block ended.
type BlockEnds struct {
	Seq  Seq // the event that finished it
	Ends []End
}

// CheckpointEvery is the number of events between stored states of a session.
const CheckpointEvery = 1000

// PromptRef says where a prompt was asked and where it ended.
type PromptRef struct {
	Asked Seq
	Ended Seq // answer or prompt.closed; 0 while it is open
}

// Deadline is the time at which an open prompt expires.
type Deadline struct {
	Session   SessionID
	RequestID string
	At        At
}
