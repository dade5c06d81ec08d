package main

import (
	"slices"
	"testing"
)

func TestFollowerAsksOnceForEachReply(t *testing.T) {
	const reply = "*1\r\n*2\r\n$1\r\ns\r\n*2\r\n*2\r\n$3\r\n7-0\r\n*2\r\n$1\r\nd\r\n$4\r\na\r\nb\r\n*2\r\n$3\r\n7-1\r\n*2\r\n$1\r\nd\r\n$1\r\nc\r\n"
	want := command(nil, "XREAD", "BLOCK", "0", "STREAMS", "s", "7-1")
	for size := 1; size <= len(reply); size++ {
		f := &follower{session: "s"}
		for round := range 2 {
			var got [][]byte
			for part := range slices.Chunk([]byte(reply), size) {
				if r := f.next(part); r != nil {
					got = append(got, r)
				}
			}
			if len(got) != 1 || string(got[0]) != string(want) {
				t.Fatalf("cut into %d, round %d: %q", size, round, got)
			}
		}
	}
}
