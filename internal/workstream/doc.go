// Package workstream holds the rules of parallel lines of work: which launches
// are sound, how the deadline is measured, what is due at a moment, and which
// commands steer.
//
// A workstream is launched by a line of work, runs in the background as a line
// of the same session, and ends in one of four states. Its deadline is 300 s
// unless said otherwise, between 30 s and 1800 s. When 75 % and 90 % of it have
// passed the line that launched it is warned, once each; at 80 % the child is
// told to wrap up; past it the workstream ends as timeout, whatever its agent
// does. A cancel gives it 60 s to end by itself.
//
// The clock of a workstream runs from its launch, through pauses and restarts
// of the server. That of an interactive one runs only while it works.
//
// Everything here is pure: no I/O, no goroutine, no clock of its own. What is due
// is a function of the workstream's state and the time, so it can be asked again
// after a crash and says nothing twice that is in the log.
package workstream
