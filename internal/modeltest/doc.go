// Package modeltest is a scripted model for tests and benchmarks: an HTTP server with the streaming protocols of OpenAI
// (Chat Completions and Responses), Anthropic (Messages) and Gemini. It can also fail like real models.
//
// A Server answers any number of requests at the same time and calls its script from their goroutines.
package modeltest
