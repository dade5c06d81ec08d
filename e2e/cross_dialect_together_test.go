// Test of one question that clients of every dialect see at once.

package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/internal/dialecttest"
)

// TestEveryDialectSeesTheSameQuestion: while clients of all dialects are connected, each in turn asks for an approval and the next
// one approves. All see the question, all see what the agent says to the answer, and every other answer is refused in the way of its
// dialect, with the name of the first answerer.
func TestEveryDialectSeesTheSameQuestion(t *testing.T) {
	t.Parallel()
	s := startShared(t, t.TempDir())
	s.nemo = s.connectNemo(t)
	native, ctx := s.followNative(t)
	clients := make([]dialecttest.Client, len(dialects))
	for i, d := range dialects {
		c, err := dialecttest.New(d, dialecttest.Options{URLs: []string{"http://" + s.addr}, NATS: []string{s.bus}, Session: s.id})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		clients[i] = c
	}
	// each calls all clients at the same time.
	each := func(what string, end dialecttest.End, call func(i int, c dialecttest.Client) (dialecttest.Seen, error)) []dialecttest.Seen {
		t.Helper()
		seen, errs := make([]dialecttest.Seen, len(clients)), make([]error, len(clients))
		var all sync.WaitGroup
		for i, c := range clients {
			all.Go(func() { seen[i], errs[i] = call(i, c) })
		}
		all.Wait()
		for i, d := range dialects {
			if errs[i] != nil || seen[i].End != end && seen[i].End != "" {
				t.Fatalf("%s: %s sees %+v, %v", what, d, seen[i], errs[i])
			}
		}
		return seen
	}
	want := questions[1]
	for asker, d := range dialects {
		answerer := (asker + 1) % len(dialects)
		what := "asked in " + d + ", answered in " + dialects[answerer]
		from := s.nemo.count()
		seen := each(what, dialecttest.Asks, func(i int, c dialecttest.Client) (dialecttest.Seen, error) {
			if i == asker {
				return c.Say(ctx, "ask-"+d, want.ask)
			}
			e, err := native.until(ctx, nth("turn.started", asker+1))
			if err != nil {
				return dialecttest.Seen{}, err
			}
			return c.Join(ctx, string(e.Turn))
		})
		event, err := native.until(ctx, nth(want.event, asker+1)) // it may come to this reader last
		if err != nil {
			t.Fatal(err)
		}
		q := questionOf(t, event, want.kind)
		q.parent = s.nemo.until(t, from, func(f nemoFrame) bool { return f.Type == "system_interaction_message" }).Parent
		for i, one := range seen {
			if p := one.Prompt; one.End != dialecttest.Asks || p.Call != "" && p.Call != q.call || p.Call == "" && p.Request == "" {
				t.Errorf("%s: %s sees the question %+v, not %+v", what, dialects[i], one, q)
			}
		}
		seen = each(what, dialecttest.Done, func(i int, c dialecttest.Client) (dialecttest.Seen, error) {
			if i != answerer {
				return c.Rest(ctx)
			}
			p := seen[i].Prompt
			p.Approval = true
			return c.Answer(ctx, p, "answer-"+d, "")
		})
		for i, one := range seen {
			name := dialects[i]
			if one.End == "" && i != answerer && (name == "letta" || name == "agui" || name == "aisdk") {
				continue // these clients need another request; their lists are below
			}
			if strings.Join(one.Texts, "") != want.answer || i == answerer && one.Late {
				t.Errorf("%s: %s sees %+v", what, name, one)
			}
		}
		for name, list := range map[string][]string{"letta": s.lettaList(), "agui": s.aguiList(), "aisdk": s.aisdkList()} {
			if !slices.Contains(list[len(list)-2:], line("agent", want.answer)) {
				t.Errorf("%s: %s lists %q", what, name, list)
			}
		}
		for i, other := range dialects {
			if i == answerer {
				continue
			}
			if refused, ok := s.answer(other, q, true); !ok || !strings.Contains(refused, "local") {
				t.Errorf("%s: the refusal in %s does not name the first answerer: %s", what, other, refused)
			}
		}
	}
	if _, err := native.until(ctx, nth("turn.completed", len(dialects))); err != nil {
		t.Fatal(err)
	}
	if n := count(native, "user.approval_response"); n != len(dialects) {
		t.Errorf("%d answers are stored for %d questions", n, len(dialects))
	}
}
