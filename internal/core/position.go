package core

import "github.com/parley-hq/parley/chat"

// AtStep is the least distance between two positions of a session. A dialect
// that makes several frames of one event uses at, at+1, … below it.
const AtStep = 16

// After returns the position for something that happens now, after last.
func After(last, now chat.At) chat.At { return max(now, last+AtStep) }
