// Package openai converts requests of package llm to requests of OpenAI's Chat
// Completions and Responses APIs and decodes their streamed answers.
//
// The package does no I/O. Its functions do not change their arguments. Streams are
// not safe for concurrent use; everything else is.
package openai
