// Package anthropic turns requests of package llm into those of Anthropic's
// Messages API, and its answers and conversations back.
//
// Everything here is pure: it fills and reads the values of the SDK and sends
// nothing. What a function is given it never changes. A Stream belongs to one
// goroutine at a time; everything else may be called from any number of them.
package anthropic
