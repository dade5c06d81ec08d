// Package llmtest is for tests of the conversions: the structural rules of the
// providers, as far as breaking them gets a request refused, and helpers to read
// answers as an SDK would. Nothing here keeps anything, so tests may run at the
// same time.
package llmtest
