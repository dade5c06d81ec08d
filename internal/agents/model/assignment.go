package model

// assignment returns the additional instructions of the workstream's assignment.
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
