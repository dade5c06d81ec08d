package agentpool_test

import (
	"context"
	"strings"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
)

// written lets an agent write pieces and returns the stored blocks.
func written(t *testing.T, pieces ...string) []chat.AgentText {
	t.Helper()
	p := newServer(t, agent.Func(func(ctx context.Context, t *agent.Turn) error {
		w := t.Stream(true)
		for _, s := range pieces {
			if err := w.Write(ctx, s); err != nil {
				return err
			}
		}
		return w.Close(ctx)
	}))
	p.startTurn()
	p.awaitEnd(chat.Done)
	facts, _, err := p.Read(ctx, ann, "s", chat.Range{Types: []string{"agent.text"}})
	if err != nil {
		t.Fatal(err)
	}
	var out []chat.AgentText
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Body.(chat.AgentText))
	}
	return out
}

func TestCharactersAreNotSplit(t *testing.T) {
	euro := "€"
	for name, tt := range map[string]struct {
		pieces []string
		want   string
	}{
		"split":          {[]string{"a" + euro[:1], euro[1:2], euro[2:] + "b"}, "a€b"},
		"broken":         {[]string{"a\xff", "b"}, "a\uFFFDb"},
		"never finished": {[]string{"a" + euro[:2]}, "a\uFFFD"},
		"split, broken":  {[]string{"a" + euro[:2], "b"}, "a\uFFFDb"},
		"empty":          {[]string{"", ""}, ""},
	} {
		if got := written(t, tt.pieces...); len(got) != 1 || got[0].Text != tt.want || !got[0].Final {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestLongTextIsContinued(t *testing.T) {
	for name, unit := range map[string]string{"plain": "0123456789abcde ", "wide": "€uro ", "wild": "\x01\"\n"} {
		whole := strings.Repeat(unit, 1_100_000/len(unit))
		var pieces []string
		for rest := whole; rest != ""; {
			n := min(len(rest), 100_001)
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		got := written(t, pieces...)
		var all string
		for i, b := range got {
			all += b.Text
			if b.Final != (i == len(got)-1) || b.Partial || len(b.Text) > chat.MaxBlock {
				t.Errorf("%s: block %d of %d has %d bytes, final %v", name, i, len(got), len(b.Text), b.Final)
			}
		}
		if all != whole || len(got) < 3 {
			t.Errorf("%s: %d blocks, %d bytes of %d", name, len(got), len(all), len(whole))
		}
	}
}
