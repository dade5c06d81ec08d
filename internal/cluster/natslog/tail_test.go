package natslog

import (
	"context"
	"errors"
	"testing"
)

// A leader that needs long for a large frame gets more time. One that refuses does not: a reader that is cut off then would wait for
// all of that time before it asks again.
func TestOnlyASlowLeaderGetsMoreTime(t *testing.T) {
	l, _ := single(t)
	for err, want := range map[error]bool{errors.New("temporarily unavailable"): false, context.DeadlineExceeded: true} {
		r := &reader{log: l, width: 8, limit: attempt}
		r.adapt(t.Context(), nil, err)
		if longer := r.limit > attempt; longer != want || r.width != 1 {
			t.Errorf("after %v the limit is %s and the width %d", err, r.limit, r.width)
		}
	}
}
