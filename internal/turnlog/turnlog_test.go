package turnlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/servertest"
	"github.com/parley-hq/parley/internal/turnlog"
)

var owner = chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "local"}, Scopes: []chat.Scope{chat.ScopeAdmin}}

// interleavingAgent writes several blocks at once and stores other events between their pieces. It pauses where hold says.
func interleavingAgent(rng *rand.Rand, steps int, hold func(step int)) agent.Agent {
	return agent.Func(func(ctx context.Context, turn *agent.Turn) error {
		open := map[int]*agent.Writer{}
		for i := range steps {
			hold(i)
			switch n := rng.IntN(10); {
			case n == 0:
				if err := turn.Status(ctx, fmt.Sprint("step ", i), ""); err != nil {
					return err
				}
			case n == 1 && len(open) > 0:
				k := slices.Sorted(keys(open))[0]
				if err := open[k].Close(ctx); err != nil {
					return err
				}
				delete(open, k)
			default:
				k := rng.IntN(3)
				w := open[k]
				switch {
				case w != nil:
				case k == 0:
					w = turn.Think()
				default:
					w = turn.Stream(false)
				}
				open[k] = w
				if err := w.Write(ctx, strings.Repeat("ü", 1+rng.IntN(4))+" "); err != nil {
					return err
				}
			}
		}
		for _, k := range slices.Sorted(keys(open)) {
			if err := open[k].Close(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

func keys(m map[int]*agent.Writer) func(func(int) bool) {
	return func(yield func(int) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// describe names an entry so that two readers can be compared.
func describe(e *turnlog.Entry) string {
	if p := e.Piece; p != nil {
		return fmt.Sprintf("%d %s %s %d-%d %q", e.At, p.Kind, p.Block, p.Offset, p.End, p.Text)
	}
	return fmt.Sprintf("%d %d %s", e.At, e.Event.Seq, e.Event.Type)
}

// follow returns the entries until the n-th turn has ended.
func follow(t *testing.T, s *servertest.Server, id chat.SessionID, n int) (out []string) {
	err := turnlog.Read(t.Context(), s.Sessions, owner, id, 0, 0, nil, func(entries []turnlog.Entry, _ bool) (bool, error) {
		for i := range entries {
			e := &entries[i]
			out = append(out, describe(e))
			if e.Event != nil && e.Event.Type == (chat.TurnCompleted{}).Type() {
				if n--; n == 0 {
					return true, nil
				}
			}
		}
		return false, nil
	})
	if err != nil {
		t.Error(err)
	}
	return out
}

func TestAllReadersGetTheSameEntries(t *testing.T) {
	const steps, turns = 300, 2
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var readers sync.WaitGroup
		results := make(chan []string, 100)
		dir := t.TempDir()
		var s *servertest.Server
		const id = chat.SessionID("s")
		read := func() {
			readers.Go(func() { results <- follow(t, s, id, turns) })
		}
		hold := func(step int) {
			if step%60 == 30 {
				read() // a reader that joins in the middle of open blocks
			}
		}
		s = servertest.Open(t, servertest.Options{Dir: dir, Agents: map[string]agent.Agent{"a": interleavingAgent(rng, steps, hold)}, DefaultAgent: "a"})
		s.Serve(nil)
		if _, _, err := s.Sessions.Create(t.Context(), owner, chat.NewSession{ID: id}); err != nil {
			t.Fatal(err)
		}
		read()
		for i := range turns {
			draft := chat.NewDraft(chat.UserMessage{Text: fmt.Sprint("go ", i)})
			if _, err := s.Sessions.Append(t.Context(), owner, id, []chat.Draft{draft}); err != nil {
				t.Fatal(err)
			}
			s.Until(id, chat.TurnCompleted{}.Type(), i+1)
		}
		late := follow(t, s, id, turns)
		readers.Wait()
		close(results)
		for got := range results {
			compare(t, seed, "a reader during the turn", got, late)
		}
		s.Close()
		again := servertest.Open(t, servertest.Options{Dir: dir})
		again.Serve(nil)
		compare(t, seed, "a reader after a restart", follow(t, again, id, turns), late)
		again.Close()
		if pieces := slices.IndexFunc(late, func(e string) bool { return strings.Contains(e, "thinking") }); pieces < 0 {
			t.Errorf("seed %d: there are no pieces of thinking: %q", seed, late)
		}
	}
}

func compare(t *testing.T, seed uint64, who string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("seed %d: %s differs at entry %d of %d and %d:\n%s\n%s", seed, who, i, len(got), len(want), at(got, i), at(want, i))
			return
		}
	}
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "(nothing)"
}
