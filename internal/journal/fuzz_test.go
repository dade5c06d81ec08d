package journal

import (
	"bytes"
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

func FuzzDecodeKey(f *testing.F) {
	t := hashOf("x")
	for _, k := range [][]byte{
		{kFormat}, numberKey(nil, kName, 7), seqKey(nil, kEvent, 7, 9), headKey(nil, 7), numberHashKey(nil, kClient, 7, t),
		deadlineKey(nil, -5, 7, t), activityKey(nil, t, 3, 7), aliasOfKey(nil, t, t), hashKey(nil, kID, t), copyKey(nil, 3), {}, {0xff, 1},
	} {
		f.Add(k)
	}
	f.Fuzz(func(t *testing.T, k []byte) {
		d, ok := decodeKey(k)
		if !ok {
			return
		}
		var back []byte
		switch d.kind {
		case kFormat:
			back = []byte{kFormat}
		case kHead:
			back = headKey(nil, d.number)
		case kID, kAlias, kTombstone:
			back = hashKey(nil, d.kind, d.hash)
		case kEvent, kState, kEnds:
			back = seqKey(nil, d.kind, d.number, d.seq)
		case kClient, kPrompt, kFileName:
			back = numberHashKey(nil, d.kind, d.number, d.hash)
		case kDeadline:
			back = deadlineKey(nil, d.at, d.number, d.hash)
		case kActivity:
			back = activityKey(nil, d.hash, d.bucket, d.number)
		case kCopy:
			back = copyKey(nil, d.partition)
		case kStored:
			back = accountKey(nil, account{d.hash, d.second})
		case kAliasOf:
			back = aliasOfKey(nil, d.hash, d.second)
		default:
			back = numberKey(nil, d.kind, d.number)
		}
		if !bytes.Equal(back, k) {
			t.Fatalf("%x became %x", k, back)
		}
	})
}

func FuzzValues(f *testing.F) {
	f.Add(logEnd{1, 2, chat.Hash{3}, 4}.append(nil))
	f.Add(appendClient(nil, 4, 5))
	f.Add(promptValue{core.PromptRef{Asked: 1, Ended: 2}, -3, "r"}.append(nil))
	f.Add(appendEnds(nil, []chat.End{{Bytes: 3, At: 9}, {Bytes: 8, At: 30}}))
	f.Fuzz(func(t *testing.T, v []byte) {
		if p, ok := decodeLogEnd(v); ok && !bytes.Equal(p.append(nil), v) {
			t.Fatal("end of the log")
		}
		if seq, digest, ok := decodeClient(v); ok {
			if s, d, ok := decodeClient(appendClient(nil, seq, digest)); !ok || s != seq || d != digest {
				t.Fatal("client")
			}
		}
		if p, ok := decodePrompt(v); ok {
			if q, ok := decodePrompt(p.append(nil)); !ok || p != q {
				t.Fatal("prompt")
			}
		}
		if e, ok := decodeEnds(v); ok {
			if g, ok := decodeEnds(appendEnds(nil, e)); !ok || !slices.Equal(e, g) {
				t.Fatal("ends")
			}
		}
		decodeNumber(v)
	})
}

func FuzzCursor(f *testing.F) {
	f.Add(orderedCursor{5, "s-1"}.cursor())
	f.Add(indexCursor{5, 7}.cursor())
	f.Add("")
	f.Add("AQAAAAAAAAAF")
	f.Fuzz(func(t *testing.T, s string) {
		p, in, err := parseCursor(s)
		switch {
		case err != nil && chat.CodeOf(err) != chat.Invalid:
			t.Fatal(err)
		case p != nil && p.cursor() != s || in != nil && in.cursor() != s || (err == nil) != (p != nil || in != nil) || p != nil && in != nil:
			t.Fatalf("%q became %v, %v, %v", s, p, in, err)
		}
	})
}

// Byte order of keys is the order of what they stand for.
func TestKeyOrder(t *testing.T) {
	who := hashOf("w")
	ats := []chat.At{-1 << 62, -1, 0, 1, 1 << 20, 1 << 50, 1 << 62}
	for i := range len(ats) - 1 {
		if bytes.Compare(deadlineKey(nil, ats[i], 9, who), deadlineKey(nil, ats[i+1], 1, who)) >= 0 {
			t.Errorf("deadline %d is not before %d", ats[i], ats[i+1])
		}
		if a, b := bucketOf(ats[i]), bucketOf(ats[i+1]); a != b && bytes.Compare(activityKey(nil, who, b, 9), activityKey(nil, who, a, 1)) >= 0 {
			t.Errorf("the later of %d and %d is not listed first", ats[i], ats[i+1])
		}
	}
	if hashOf("ab", "c") == hashOf("a", "bc") || hashOf("a") == hashOf("a", "") {
		t.Error("texts run into each other")
	}
}
