package llm

import (
	"pgregory.net/rapid"
)

// Helpers that the tests of the providers share.
var (
	Dump      = dump
	PlainTalk = plainTalk
	TestTime  = testTime
)

// RandomMessages returns the messages of a random valid log.
func RandomMessages(rt *rapid.T, steps int) []Message { return whole(randomLog(rt, steps)) }
