package chat

import (
	"maps"
	"slices"
)

// View is the part of a session's state that people see. Its JSON form is
// public, in snapshots, and the clients' own fold makes the same.
type View struct {
	Title       string       `json:"title,omitempty"`
	Agent       string       `json:"agent,omitempty"`
	Policy      Policy       `json:"policy,omitempty"`
	Status      Status       `json:"status"`
	Error       string       `json:"error,omitempty"` // why the session failed
	Turns       []TurnView   `json:"turns"`           // running ones, the main line first
	Queued      []Seq        `json:"queued"`          // messages and other triggers that wait, in order per line
	Prompts     []Prompt     `json:"prompts"`         // open ones, oldest first
	Plan        *AgentPlan   `json:"plan,omitempty"`  // the last one
	Workstreams []Workstream `json:"workstreams"`     // in the order of their launch
	Usage       Usage        `json:"usage"`           // of the whole session
}

// TurnView is a running turn.
type TurnView struct {
	ID         TurnID `json:"turn_id"`
	Workstream string `json:"workstream_id,omitempty"`
	Agent      string `json:"agent,omitempty"`
	Trigger    Seq    `json:"trigger"`
	Attempt    int    `json:"attempt"`
	StartedAt  At     `json:"started_at"`
	Stopping   bool   `json:"stopping,omitempty"`
	Usage      Usage  `json:"usage"`
}

// View returns what people see of the state. It shares nothing that Apply
// changes.
func (s *State) View() View {
	v := View{
		Title: s.Session.Title, Agent: s.Session.Agent, Policy: s.Session.Policy, Status: s.Session.Status, Error: s.Session.Error,
		Turns: []TurnView{}, Queued: []Seq{}, Prompts: []Prompt{}, Plan: s.Plan, Workstreams: []Workstream{}, Usage: s.Usage,
	}
	for _, name := range slices.Sorted(maps.Keys(s.Lines)) {
		l := s.Lines[name]
		if t := l.Turn; t != nil {
			v.Turns = append(v.Turns, TurnView{
				ID: t.ID, Workstream: name, Agent: t.Agent, Trigger: t.Trigger, Attempt: t.Attempt,
				StartedAt: t.StartedAt, Stopping: t.Stopping, Usage: t.Usage,
			})
			v.Queued = append(v.Queued, t.Steered...)
		}
		v.Queued = append(v.Queued, l.Queue...)
	}
	for _, p := range s.Prompts {
		v.Prompts = append(v.Prompts, *p)
	}
	for _, w := range s.Workstreams {
		v.Workstreams = append(v.Workstreams, *w)
	}
	return v
}
