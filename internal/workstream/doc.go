// Package workstream holds the rules of workstreams: which launches are valid, how the deadline is measured, which events
// are due at a time, and which commands steer.
//
// A line launches a workstream, which runs in the background as a line of the same session and ends in one of four states.
// Its deadline is 300 s by default, between 30 s and 1800 s. After 75 % and 90 % of it the line that launched the
// workstream gets a warning, once each; after 80 % the child gets the directive to wrap up; after 100 % the workstream
// ends as timeout, whatever its agent does. A canceled workstream has 60 s to end by itself.
//
// The clock of a workstream runs from its launch, through pauses and restarts of the server. The clock of an interactive
// one runs only during its turns.
//
// Everything here is pure: no I/O, no goroutine, no clock of its own. Due events are a function of the workstream's state
// and the time. They can be computed again after a crash; an event that is in the log is not due again.
package workstream
