// Package anthropic converts requests of package llm into those of Anthropic's
// Messages API and reads its streamed answers.
//
// Nothing is sent here. The functions do not change their arguments. A Stream
// may be used by one goroutine at a time; everything else by any number.
package anthropic
