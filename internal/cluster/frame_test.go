package cluster

import (
	"bytes"
	"reflect"
	"testing"
)

func frames() []*Frame {
	return []*Frame{
		{Cluster: "c1", Partition: 2, Epoch: 7, Claim: Claim{Node: "a-1f2e", Process: 1 << 63, Handover: true}},
		{Cluster: "c1", Partition: 2, Epoch: 7, Claim: Claim{Node: "a-1f2e"}},
		{Cluster: "", Partition: 65535, Epoch: 1 << 40, Number: 300, Digest: Digest{1, 2}, Records: []Record{{Kind: 1, Data: []byte("x")}, {Kind: 2, Data: []byte{}}}},
	}
}

func TestFramesAreReadBack(t *testing.T) {
	for _, f := range frames() {
		b := f.Encoded()
		got, err := ParseFrame(b)
		if err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("%+v became %+v, %v", f, got, err)
		}
		for n := range b {
			if cut, err := ParseFrame(b[:n]); err == nil && len(cut.Records) >= len(f.Records) {
				t.Errorf("the first %d bytes of %+v pass for a frame", n, f)
			}
		}
	}
}

func FuzzParseFrame(f *testing.F) {
	for _, one := range frames() {
		f.Add(one.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := ParseFrame(b)
		if err == nil && !bytes.Equal(frame.Append(nil), b) {
			t.Fatalf("%x is %+v, which is written as %x", b, frame, frame.Append(nil))
		}
	})
}

// A node stops at what an undamaged log cannot contain.
func TestDamageIsNoticed(t *testing.T) {
	claim := &Frame{Epoch: 1, Claim: Claim{Node: "a", Process: 1}}
	one, _ := Copy{}.Apply(1, claim)
	first := &Frame{Epoch: 1, Number: 1, Digest: one.Digest, Records: []Record{{Kind: 1}}}
	two, _ := one.Apply(2, first)
	for name, c := range map[string]struct {
		have Copy
		pos  Pos
		f    *Frame
	}{
		"a gap in the log":     {one, 3, first},
		"a missing claim":      {one, 2, &Frame{Epoch: 2, Number: 1, Digest: one.Digest}},
		"a skipped claim":      {one, 2, &Frame{Epoch: 3, Claim: claim.Claim}},
		"a missing frame":      {two, 3, &Frame{Epoch: 1, Number: 3, Digest: two.Digest}},
		"other frames counted": {two, 3, &Frame{Epoch: 1, Number: 2, Digest: one.Digest}},
	} {
		if after, v := c.have.Apply(c.pos, c.f); v != Damaged || after != c.have {
			t.Errorf("%s: %s, %s", name, v, after)
		}
	}
}
