// Package anthropic converts requests of package llm to requests of Anthropic's
// Messages API and decodes its streamed answers.
//
// The package does no I/O. Its functions do not change their arguments. A Stream is
// not safe for concurrent use; everything else is.
package anthropic
