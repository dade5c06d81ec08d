package chat

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestStampMatchesTheLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := At(rapid.Int64Range(-1<<55, 1<<57).Draw(t, "at"))
		if got, want := at.String(), at.Time().Format(stampLayout); got != want {
			t.Fatalf("%d is %s, want %s", at, got, want)
		}
	})
}

func BenchmarkStamp(b *testing.B) {
	at, buf := AtOf(time.Now()), make([]byte, 0, 64)
	for b.Loop() {
		buf = at.appendStamp(buf[:0])
	}
}
