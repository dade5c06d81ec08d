package sidecar

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// frames reads all of a stream.
func frames(r io.Reader) (out []frame) {
	d := newDecoder(r)
	for {
		f, err := d.next()
		if err != nil {
			return out
		}
		out = append(out, f)
	}
}

func TestSSE(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"one", "data: a\n\n", "a"},
		{"several lines", "data: a\ndata: b\n\n", "a\nb"},
		{"no space, CRLF, a comment", "data:a\r\n\r\n:hi\r\ndata:b\r\n\r\n", "a|b"},
		{"only CR", "data: a\r\rdata: b\r\r", "a|b"},
		{"a cut event is none", "data: a\n\ndata: b\n", "a"},
		{"a byte order mark", "\xef\xbb\xbfdata: a\n\n", "a"},
		{"other fields", "event: x\nretry: 3\nnonsense\ndata: a\n\n", "a"},
		{"many bytes per character", "data: žluťoučký 🐎\n\n", "žluťoučký 🐎"},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in))} {
			var got []string
			for _, f := range frames(r) {
				got = append(got, string(f.data))
			}
			if strings.Join(got, "|") != c.want {
				t.Errorf("%s, %s: %q", c.name, name, got)
			}
		}
	}
	if f := frames(strings.NewReader("id: 7\ndata: a\n\ndata: b\n\n")); len(f) != 2 || f[1].id != "7" {
		t.Errorf("an id stays: %+v", f)
	}
}

// FuzzSSE: where the network cuts makes no difference.
func FuzzSSE(f *testing.F) {
	f.Add([]byte("data: {\"type\":\"a\"}\n\nid: 1\r\ndata: ž\r\n\r\n"), uint64(1))
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		whole := frames(bytes.NewReader(in))
		cut := frames(&chunks{b: in, r: rand.New(rand.NewPCG(seed, 1))})
		if fmt.Sprint(whole) != fmt.Sprint(cut) {
			t.Fatalf("%q: %v, in pieces %v", in, whole, cut)
		}
		for _, fr := range whole {
			_, _ = parse(fr) // must not panic
		}
	})
}

// chunks gives a few bytes at a time.
type chunks struct {
	b []byte
	r *rand.Rand
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+c.r.IntN(7))], c.b)
	c.b = c.b[n:]
	return n, nil
}

// However an agent talks, and whenever its reader comes and goes: what is stored
// in the end is what it said, once and in order, as long as it remembers.
func TestTapeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory := rapid.IntRange(1, 12).Draw(t, "memory")
		var history, stored []digest
		word := func() digest { // few words, so that much is repeated
			return digest{byte(rapid.IntRange(0, 2).Draw(t, "word"))}
		}
		for range rapid.IntRange(1, 6).Draw(t, "connections") {
			// While nobody listens it says no more than it can repeat.
			for range rapid.IntRange(0, max(0, memory-1)).Draw(t, "before") {
				if len(history)-len(stored) < memory {
					history = append(history, word())
				}
			}
			tp := tape{have: slices.Clone(stored), replay: memory}
			feed := func(list []said) {
				for _, s := range list {
					if s.place != len(stored) {
						t.Fatalf("place %d after %d", s.place, len(stored))
					}
					stored = append(stored, s.digest)
				}
			}
			for _, d := range history[max(0, len(history)-memory):] {
				feed(tp.feed(said{digest: d}))
			}
			if len(history) <= memory { // it repeats all: no doubt is possible
				if !slices.Equal(stored, history) {
					t.Fatalf("stored %v of %v", stored, history)
				}
			}
			feed(tp.quiet())
			for range rapid.IntRange(0, 3).Draw(t, "live") {
				if len(history) > memory {
					break
				}
				d := word()
				history = append(history, d)
				feed(tp.feed(said{digest: d}))
			}
			if len(history) > memory {
				return // repeated words can be read in two ways then
			}
			if !slices.Equal(stored, history) {
				t.Fatalf("stored %v of %v", stored, history)
			}
		}
	})
}

// With words that differ nothing is ambiguous, however short the memory is.
func TestTapeWithShortMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory := rapid.IntRange(1, 10).Draw(t, "memory")
		var history, stored []digest
		say := func() { history = append(history, digest{byte(len(history)), byte(len(history) >> 8)}) }
		for range rapid.IntRange(1, 8).Draw(t, "connections") {
			for range rapid.IntRange(0, 10).Draw(t, "before") {
				if len(history)-len(stored) < memory {
					say()
				}
			}
			tp := tape{have: slices.Clone(stored), replay: memory}
			for _, d := range history[max(0, len(history)-memory):] {
				for _, s := range tp.feed(said{digest: d}) {
					stored = append(stored, s.digest)
				}
			}
			for _, s := range tp.quiet() {
				stored = append(stored, s.digest)
			}
			for range rapid.IntRange(0, 3).Draw(t, "live") {
				say()
				for _, s := range tp.feed(said{digest: history[len(history)-1]}) {
					stored = append(stored, s.digest)
				}
			}
			if !slices.Equal(stored, history) {
				t.Fatalf("stored %v of %v", stored, history)
			}
		}
	})
}
