// Package llmtest is for tests of the conversions: the structural rules whose
// violation makes a provider refuse a request, and helpers that read streamed
// answers. It has no state, so tests may run at the same time.
package llmtest
