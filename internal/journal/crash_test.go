package journal

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
)

var ctx = context.Background()

// randomBody draws something that the rules could have let through.
func randomBody(t *rapid.T, s *chat.State) chat.Body {
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0, 1, 2:
		return chat.UserMessage{Text: rapid.StringN(1, 20, 200).Draw(t, "text")}
	case 3:
		return chat.AgentText{Block: "b", Text: rapid.StringN(1, 20, 2000).Draw(t, "text")}
	case 4:
		title := rapid.String().Draw(t, "title")
		return chat.SessionUpdated{Title: &title}
	case 5:
		members := []chat.Member{{Actor: chat.Actor{Kind: chat.User, ID: rapid.StringMatching(`[a-c]`).Draw(t, "member")}, Role: chat.Viewer}}
		return chat.SessionUpdated{Members: &members}
	case 6:
		deadline := chat.At(rapid.Int64Range(0, 3).Draw(t, "deadline")) * epoch
		return chat.AgentInputRequest{RequestID: rapid.StringMatching(`r[0-9]`).Draw(t, "request"), InputType: chat.InputText, Text: "?", Deadline: deadline}
	case 7:
		if len(s.Prompts) > 0 {
			return chat.UserInputResponse{RequestID: s.Prompts[0].RequestID, Text: "!"}
		}
		return chat.SessionCompleted{}
	case 8:
		if l := s.Line(""); l.Turn != nil {
			return chat.TurnCompleted{TurnID: l.Turn.ID, Outcome: chat.Done}
		} else if len(l.Queue) > 0 {
			return chat.TurnStarted{TurnID: chat.TurnID(fmt.Sprint("t-", s.Last)), Trigger: l.Queue[0], Agent: "demo"}
		}
		return chat.AgentStatus{Message: "idle"}
	}
	return chat.AgentPlan{Tasks: []chat.Task{{ID: "1", Title: "one", Status: "done"}}}
}

// Whatever is committed, with restarts and erasures in between: what is loaded
// is the fold of what is read, and every index follows from the log.
func TestLoadIsTheFoldOfRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem()
		opt := quiet(Options{FS: fs, Sync: SyncMode(rapid.IntRange(0, 2).Draw(rt, "sync"))})
		j, err := Open("/data", opt)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { j.Close() }()
		authors := map[chat.SessionID]*author{}
		erased := map[chat.SessionID]bool{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			id := chat.SessionID(rapid.StringMatching(`s-[1-4]`).Draw(rt, "session"))
			switch what := rapid.IntRange(0, 19).Draw(rt, "step"); {
			case what == 0: // restart
				if err := j.Close(); err != nil {
					rt.Fatal(err)
				}
				if j, err = Open("/data", opt); err != nil {
					rt.Fatal(err)
				}
				for _, a := range authors {
					a.journal = j
				}
			case what == 1 && authors[id] != nil:
				if _, err := eraseNow(j, id); err != nil {
					rt.Fatal(err)
				}
				delete(authors, id)
				erased[id] = true
			case erased[id]:
			default:
				a := authors[id]
				if a == nil {
					if a, err = newAuthor(j, id); err != nil {
						rt.Fatal(err)
					}
					if err := a.try(chat.SessionStarted{Agent: "demo"}); err != nil {
						rt.Fatal(err)
					}
					authors[id] = a
				}
				state := a.State.Clone()
				a.Clock += chat.At(rapid.Int64Range(0, 3_000_000).Draw(rt, "pause"))
				var bodies []chat.Body
				for i := range rapid.IntRange(1, 4).Draw(rt, "events") {
					if rapid.Bool().Draw(rt, "keyed") {
						a.Key(i, fmt.Sprintf("c-%d-%d", a.State.Last, i))
					}
					bodies = append(bodies, randomBody(rt, state))
				}
				if err := a.try(bodies...); err != nil {
					rt.Fatal(err)
				}
			}
		}
		for id := range authors {
			if err := checkLog(ctx, j, id); err != nil {
				rt.Fatal(err)
			}
		}
		report, err := j.Verify(ctx, nil)
		if err != nil || report.Found != 0 || int(report.Sessions) != len(authors) {
			rt.Fatalf("%+v, %v", report, err)
		}
	})
}

// A power cut at any moment loses no acknowledged commit and leaves none half.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	const writers, rounds = 6, 6
	cut := func(seed uint64) {
		fs := vfs.NewCrashableMem()
		j := openTest(t, "/data", Options{FS: fs})
		var acked [writers]atomic.Uint64
		permits := make(chan struct{}, 200) // to write: the log must not outgrow the checks
		done := make(chan struct{}, 1000)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer close(permits)
		for w := range writers {
			a := begin(t, j, chat.SessionID(fmt.Sprint("s-", w)))
			acked[w].Store(1)
			wg.Go(func() {
				n := 0
				for range permits {
					n++
					size := n%3 + 1 // commits of one to three events, told by their text
					bodies := make([]chat.Body, size)
					for i := range bodies {
						bodies[i] = message("%d of %d", i+1, size)
					}
					if err := a.try(bodies...); err != nil {
						t.Error(err)
					}
					acked[w].Store(uint64(a.State.Last))
					done <- struct{}{}
				}
			})
		}
		rng := rand.New(rand.NewPCG(seed, 7))
		for range rounds {
			batch := 20 + rng.IntN(100)
			for range batch {
				permits <- struct{}{}
			}
			seen := rng.IntN(batch)
			for range seen {
				<-done
			}
			var floor [writers]uint64
			for w := range writers {
				floor[w] = acked[w].Load()
			}
			clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
			checkAfterCut(t, clone, floor[:])
			for range batch - seen {
				<-done
			}
		}
	}
	for seed := range uint64(2) {
		cut(seed)
	}
}

func checkAfterCut(t *testing.T, fs *vfs.MemFS, floor []uint64) {
	t.Helper()
	j, err := Open("/data", quiet(Options{FS: fs}))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for w, least := range floor {
		id := chat.SessionID(fmt.Sprint("s-", w))
		if err := checkLog(ctx, j, id); err != nil {
			t.Fatal(err)
		}
		facts, _, err := j.Read(ctx, id, chat.Range{})
		if err != nil {
			t.Fatal(err)
		}
		if uint64(len(facts)) < least {
			t.Fatalf("%s has %d events, %d were acknowledged", id, len(facts), least)
		}
		last, err := facts[len(facts)-1].Event()
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := last.Body.(chat.UserMessage); ok {
			var i, of int
			fmt.Sscanf(m.Text, "%d of %d", &i, &of)
			if i != of {
				t.Fatalf("%s ends in the middle of a commit: %s", id, m.Text)
			}
		}
	}
	report, err := j.Verify(ctx, nil)
	if err != nil || report.Found > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
}
