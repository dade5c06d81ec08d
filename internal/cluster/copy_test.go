package cluster

import (
	"bytes"
	"testing"
)

func TestCopiesAreReadBack(t *testing.T) {
	for _, c := range []Copy{{}, {Pos: 1 << 40, Epoch: 3, Claim: Claim{Node: "a-1f2e", Process: 9, Handover: true}, Number: 5, Digest: Digest{1, 2}}} {
		b := c.Append(nil)
		if got, err := ParseCopy(b); err != nil || got != c {
			t.Errorf("%v became %v, %v", c, got, err)
		}
		for n := range b {
			if _, err := ParseCopy(b[:n]); err == nil {
				t.Errorf("the first %d bytes of %v pass for a copy", n, c)
			}
		}
		if _, err := ParseCopy(append(bytes.Clone(b), 0)); err == nil {
			t.Error("a longer copy was read")
		}
	}
}

func FuzzParseCopy(f *testing.F) {
	f.Add(Copy{Pos: 7, Epoch: 1, Claim: Claim{Node: "a"}, Number: 1}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := ParseCopy(b); err == nil && !bytes.Equal(c.Append(nil), b) {
			t.Fatalf("%x is %v, which is written as %x", b, c, c.Append(nil))
		}
	})
}
