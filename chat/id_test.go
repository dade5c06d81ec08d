package chat

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var uuid4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestIDsRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := Number(rapid.Uint64Range(1, 1<<52-1).Draw(rt, "number"))
		seq := Seq(rapid.Uint64Range(1, uint64(MaxSeq)).Draw(rt, "seq"))
		id := MakeID(n, seq)
		if !uuid4.MatchString(id.UUID()) {
			rt.Fatalf("%s is no version 4 UUID", id.UUID())
		}
		for _, text := range []string{id.Text(EventPrefix), EventPrefix + id.UUID(), EventPrefix + strings.ToUpper(id.UUID())} {
			back, ok := ParseID(EventPrefix, text)
			if !ok || back != id {
				rt.Fatalf("%s is read as %x, %v", text, back, ok)
			}
		}
		// The low bits are free for names below an event.
		low := id
		low[15] |= byte(rapid.IntRange(0, 127).Draw(rt, "low"))
		if gn, gs, ok := low.Parts(); !ok || gn != n || gs != seq {
			rt.Fatalf("parts of %x: %d %d %v", low, gn, gs, ok)
		}
		// An id with any other bit set is refused.
		bit := rapid.IntRange(7, 127).Draw(rt, "bit")
		wrong := id
		wrong[15-bit/8] ^= 1 << (bit % 8)
		if gn, gs, ok := wrong.Parts(); ok && (gn != n || gs != seq) {
			rt.Fatalf("with bit %d changed it names event %d of %d", bit, gs, gn)
		} else if ok {
			rt.Fatalf("bit %d does not count", bit)
		}
	})
}

func TestInvalidIDsAreRefused(t *testing.T) {
	id := MakeID(7, 42)
	good := id.Text(TurnPrefix)
	for _, s := range []string{
		"", "t-", good[2:], "e-" + good[2:], good + "0", good[:len(good)-1], strings.ToLower(good), "t-8" + good[3:], "t-" + strings.Repeat("U", 26),
		"t-" + strings.ReplaceAll(id.UUID(), "-", ""), "t-" + strings.Replace(id.UUID(), "-", "x", 1),
		"t-" + "-" + strings.Replace(id.UUID(), "-", "", 1), "t-" + strings.Repeat("g", 36), "t-" + strings.Repeat("é", 13),
	} {
		if got, ok := ParseID(TurnPrefix, s); ok {
			t.Errorf("%q is read as %x", s, got)
		}
	}
	for _, s := range []string{"00000000-0000-4000-8000-000000000000", "ffffffff-ffff-4fff-bfff-ffffffffffff", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"} {
		id, ok := ParseID("", s)
		if !ok {
			t.Fatal(s)
		}
		if n, seq, ok := id.Parts(); ok && n != 0 {
			t.Errorf("%s names event %d of %d", s, seq, n)
		}
	}
}

func TestInvalidSessionAndBlockIDsAreRefused(t *testing.T) {
	for s, ok := range map[string]bool{
		"a": true, "s-01J": true, "A.b_c-9": true, "...": true, strings.Repeat("x", 128): true,
		"": false, ".": false, "..": false, "a/b": false, "a b": false, "é": false, "a\x00": false, "a\"": false, strings.Repeat("x", 129): false,
	} {
		if (SessionID(s).Validate() == nil) != ok {
			t.Errorf("session %q: %v", s, !ok)
		}
	}
	for s, ok := range map[string]bool{"b7": true, "A_-9": true, strings.Repeat("b", 64): true, "": false, "a.b": false, "a~b": false, strings.Repeat("b", 65): false} {
		if (BlockID(s).Validate() == nil) != ok {
			t.Errorf("block %q: %v", s, !ok)
		}
	}
}

func TestCursorsRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := Cursor{Seq: Seq(rapid.Uint64Range(0, uint64(MaxSeq)).Draw(rt, "seq"))}
		for range rapid.IntRange(0, 5).Draw(rt, "marks") {
			c.Blocks = append(c.Blocks, Mark{
				BlockID(rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(rt, "block")), rapid.IntRange(0, MaxBlock).Draw(rt, "bytes"),
			})
		}
		got, err := ParseCursor(c.String())
		if err != nil || got.Seq != c.Seq || !slices.Equal(got.Blocks, c.Blocks) {
			rt.Fatalf("%s is read as %s, %v", c, got, err)
		}
		if !regexp.MustCompile(`^[A-Za-z0-9_~.-]+$`).MatchString(c.String()) {
			rt.Fatalf("%s is not safe in a URL", c)
		}
		var viaJSON Cursor
		if err := json.Unmarshal([]byte(jsonOf(rt, c)), &viaJSON); err != nil || viaJSON.String() != c.String() {
			rt.Fatal(viaJSON, err)
		}
	})
	for _, bad := range []string{
		"", "x", "-1", "+1", "01", "1.5", " 1", "1 ", "1~", "~b.1", "1~b", "1~b.", "1~.1", "1~b.-1", "1~b.x", "1~a b.1", "1~b.1~", "274877906944",
		"99999999999999999999", "1~b.2147483648", "1" + strings.Repeat("~b.1", maxMarks+1), "1~" + strings.Repeat("b", 65) + ".1",
	} {
		if c, err := ParseCursor(bad); CodeOf(err) != Invalid {
			t.Errorf("%q is read as %s, %v", bad, c, err)
		}
	}
}

func TestCursorAdvances(t *testing.T) {
	var c Cursor
	c.PassEvent(41, "")
	c.PassPiece("b7", 100)
	c.PassPiece("b9", 4)
	c.PassPiece("b7", 120)
	if c.String() != "41~b7.120~b9.4" || c.Bytes("b7") != 120 || c.Bytes("b1") != 0 {
		t.Error(c)
	}
	c.PassEvent(42, "b7")
	if c.String() != "42~b9.4" {
		t.Error(c)
	}
}

func TestTimesRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		at := At(rapid.Int64Range(-1<<45, 1<<53).Draw(rt, "at"))
		var back At
		if err := json.Unmarshal([]byte(jsonOf(rt, at)), &back); err != nil || back != at || AtOf(at.Time()) != at {
			rt.Fatalf("%s is read as %s, %v", at, back, err)
		}
	})
	var at At
	for _, bad := range []string{`"today"`, `7`, `""`, `"2026-01-02"`} {
		if json.Unmarshal([]byte(bad), &at) == nil {
			t.Errorf("%s is a time", bad)
		}
	}
}
