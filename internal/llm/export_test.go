package llm

import (
	"pgregory.net/rapid"
)

// What the tests over all providers share with those of this package.
var (
	Dump      = dump
	PlainTalk = plainTalk
	TestTime  = testTime
)

// RandomMessages is what a log gives that the rules let through.
func RandomMessages(rt *rapid.T, steps int) []Message { return whole(randomLog(rt, steps)) }
