// Package chat is the vocabulary of Parley: sessions, events, drafts, previews,
// cursors, actors and errors, and the fold from events to what people see.
//
// A conversation is a log of events. People and agents append drafts; the server
// numbers and stores them as events; readers read from a cursor. While an agent
// writes, its text is sent as previews, which have no number; the finished block
// is one event that replaces them.
//
// Everything here is pure: no I/O, no goroutine, no clock. Values may be shared
// between goroutines as long as they are not changed.
package chat
