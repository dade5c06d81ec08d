// Package gemini converts requests of package llm to requests of the Gemini API and
// decodes its streamed answers.
//
// The package does no I/O. Its functions do not change their arguments. A Stream is
// not safe for concurrent use; everything else is.
package gemini
