// Package chat is the vocabulary of Parley: sessions, events, drafts, previews,
// cursors, actors and errors, and the fold from events to what people see.
//
// A conversation is a log of facts. People and agents append drafts; the log
// numbers them and they become events; everybody reads from a cursor. While an
// agent writes, its text goes out as previews that take no number; the finished
// block is one event that replaces them.
//
// Everything here is pure: no I/O, no goroutine, no clock. Values may be shared
// between goroutines as long as they are not changed.
package chat
