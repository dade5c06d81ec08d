// Package openai converts requests of package llm into those of OpenAI's Chat
// Completions and Responses APIs and reads their streamed answers.
//
// Nothing is sent here. The functions do not change their arguments. A stream may
// be used by one goroutine at a time; everything else by any number.
package openai
