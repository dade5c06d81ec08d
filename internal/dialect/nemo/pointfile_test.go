package nemo

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
)

// A file that is large because of its points is not rewritten for every change.
func TestLargePointFileIsNotRewrittenEachTime(t *testing.T) {
	t.Parallel()
	f, _ := openPointFile(t.TempDir(), slog.New(slog.DiscardHandler))
	p := savedPoint{groups: []clients{{at: position{Base: 1}, when: time.Now(), state: connectionLost}}}
	all := func(yield func(savedPoint) bool) {
		for i := range 500 {
			p.key = fmt.Sprintf("%010000d", i)
			if !yield(p) {
				return
			}
		}
	}
	if err := f.rewrite(all); err != nil {
		t.Fatal(err)
	}
	defer func() { f.file.Close() }()
	if f.size <= maxPointFile {
		t.Fatalf("a file of %d bytes is not large", f.size)
	}
	file := f.file
	for i := range 20 {
		f.append(savedPoint{key: "one", groups: p.groups, moves: uint64(i)}, all)
		if f.file != file {
			t.Fatalf("change %d rewrote the file", i)
		}
	}
}

func TestPointLines(t *testing.T) {
	at := position{chat.Cursor{Seq: 42, Blocks: []chat.Mark{{Block: "b7", Bytes: 120}}}, 40, 41, 39}
	p := savedPoint{"3f2a", []clients{{7, at, time.Unix(1_800_000_000, 0), connectionLost}, {2, positionAt(50), time.UnixMicro(1_800_000_000_000_001), connected}}, 3, "n1-3f2a"}
	line := strings.TrimSuffix(string(appendPoint(nil, p)), "\n")
	got, ok := parsePoint(line)
	same := func(a, b clients) bool {
		return a.count == b.count && a.at.equal(b.at) && a.when.Equal(b.when) && a.state == b.state
	}
	if !ok || got.key != p.key || !slices.EqualFunc(got.groups, p.groups, same) || got.moves != p.moves || got.node != p.node {
		t.Errorf("%q is read as %v", line, got)
	}
	for _, bad := range []string{"", "3f2a 7", "3f2a x 42 4 0 0 1 lost ", "3f2a 7 ~ 4 0 0 1 lost ", "3f2a 7 42 x 0 0 1 lost ", "3f2a 7 42 4 x 0 1 lost ", "3f2a 7 42 4 0 0 x lost ", "3f2a 7 42 4 0 0 1 lost x @n ", "3f2a 3 @n ", "3f2a 7 42 4 0 0 1 lost 7 42 4 0 0 1 lost "} {
		if _, ok := parsePoint(bad + checksum(bad)); ok {
			t.Errorf("%q is taken for a point", bad)
		}
	}
	for i := range line {
		if _, ok := parsePoint(line[:i]); ok {
			t.Errorf("%q is taken for a point", line[:i])
		}
		changed := []byte(line)
		changed[i] ^= 1
		if _, ok := parsePoint(string(changed)); ok {
			t.Errorf("%q is taken for a point", changed)
		}
	}
}
