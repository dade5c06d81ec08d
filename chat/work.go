package chat

// Assignment is a turn for an agent to answer. A worker that is answering it already continues, under the attempt
// given here.
type Assignment struct {
	TurnRef
	Agent      string  `json:"agent"`
	Workstream string  `json:"workstream_id,omitempty"`
	Started    Event   `json:"-"`                // turn.started, for agents in the process
	Trigger    Event   `json:"trigger"`          // the event to answer
	Events     []Event `json:"events,omitempty"` // what earlier attempts left in the log
	Open       []Block `json:"open,omitempty"`   // open blocks, with the text that was shown

	Launch *WorkstreamLaunched `json:"launch,omitempty"` // what its line was launched for; absent on the main line
	Paused bool                `json:"paused,omitempty"` // its workstream is paused
}
