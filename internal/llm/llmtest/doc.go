// Package llmtest supports tests of the conversions. It contains the structural rules
// that providers enforce on requests, and helpers that read streamed answers. It has
// no state, so tests may run in parallel.
package llmtest
