package model

import (
	"slices"
	"strings"
)

// model is the one that is asked: that of the agent, unless the line of work was
// launched for another.
func (r *round) model() string {
	if a, ok := r.turn.Assignment(); ok && a.Model != "" {
		return a.Model
	}
	return r.opt.Model
}

// allowed reports whether the line of work may use a tool. A name with a plus
// adds to what the agent has, so it takes nothing away.
func (r *round) allowed(tool string) bool {
	a, ok := r.turn.Assignment()
	if !ok {
		return true
	}
	named := slices.DeleteFunc(slices.Clone(a.Tools), func(s string) bool { return strings.HasPrefix(s, "+") })
	return len(named) == 0 || slices.Contains(named, tool) || slices.Contains(a.Tools, "+"+tool)
}

// assignment is what a line of work is told beside its task.
func (r *round) assignment() string {
	a, ok := r.turn.Assignment()
	if !ok {
		return ""
	}
	text := "You work on one part of a larger task, in the background. Your last message is your result; nobody sees the others as it comes. " +
		"When you are told to wrap up, finish with what you have."
	if len(a.Context) > 0 && string(a.Context) != "null" {
		text += "\n\nWhat you need to know: " + string(a.Context)
	}
	return text
}
