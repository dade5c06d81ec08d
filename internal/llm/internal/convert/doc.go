// Package convert contains the code that the conversions for the providers share:
// valid names, supported images, and answers that are streamed in pieces.
//
// All functions are pure. Names and Builder are not safe for concurrent use.
package convert
