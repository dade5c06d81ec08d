// Package convert is what the conversions for the providers share: names that a
// provider takes, pictures that can be sent, answers that come in pieces.
//
// Everything here is pure. Names and a Builder belong to one goroutine at a time.
package convert
