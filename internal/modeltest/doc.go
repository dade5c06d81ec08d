// Package modeltest is a model that does what a script says: an HTTP server that
// speaks the streams of OpenAI's Chat Completions and Responses, of Anthropic's
// Messages and of Gemini, and that can fail in the ways in which real ones do. It
// serves tests and measurements.
//
// A Server answers any number of requests at once; its script is called from
// their goroutines.
package modeltest
