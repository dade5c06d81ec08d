package demo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agentpool"
	"github.com/parley-hq/parley/internal/agents/demo"
	"github.com/parley-hq/parley/internal/hub"
	"github.com/parley-hq/parley/internal/journal/journaltest"
	"github.com/parley-hq/parley/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	ctx = context.Background()
	ann = chat.Caller{Actor: chat.Actor{Kind: chat.User, ID: "ann"}, Scopes: []chat.Scope{chat.ScopeUser}}
)

// life is one process: it begins the session or takes it up, answers what is
// asked, and returns the log when the turn has ended, or "" when it died.
func life(t *testing.T, disk vfs.FS, writes int64, say string, answer func(chat.Prompt) (chat.Answer, bool)) string {
	t.Helper()
	j := journaltest.Open(t, disk, writes)
	h := hub.New(j, hub.Options{})
	for id, blocks := range j.OpenBlocks() {
		h.Restore(id, blocks)
	}
	agents := agentpool.NewRegistry(agentpool.NewPool(agentpool.PoolOptions{}))
	agents.Add(demo.Info, demo.Agent{})
	runner := agentpool.NewRunner(agents, agentpool.Options{Grace: time.Millisecond, Clean: true, Store: func(_ context.Context, _ chat.SessionID, _, _ string, body io.Reader, commit func(int64) error) error {
		n, err := io.Copy(io.Discard, body)
		if err != nil {
			return err
		}
		return commit(n)
	}})
	moved := make(chan struct{}, 1)
	s := session.New(j, h, session.Options{Observers: []session.Observer{{Committed: func(evs []chat.Event) {
		runner.Committed(evs)
		select {
		case moved <- struct{}{}:
		default:
		}
	}}}})
	runner.Attach(s)
	run, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = runner.Run(run) })
	wg.Go(func() { _ = s.Run(run) })
	defer func() {
		j.KillAfter(0)
		end()
		wg.Wait()
		h.Close(nil)
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()

	if _, err := j.Record(ctx, "s"); err != nil {
		if _, _, err := s.Create(ctx, ann, chat.NewSession{ID: "s"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(ctx, ann, "s", []chat.Draft{chat.NewDraft(chat.UserMessage{Text: say})}); err != nil {
			t.Fatal(err)
		}
	}
	timeout := time.NewTimer(15 * time.Minute) // on a test's clock it may pass in no time
	defer timeout.Stop()
	for {
		st, err := s.State(ctx, ann, "s")
		if err != nil {
			t.Fatal(err)
		}
		if !st.Busy() {
			return story(t, j)
		}
		for _, p := range st.Prompts {
			if a, ok := answer(*p); ok {
				a.ClientID = "answer-" + p.RequestID
				if _, err := s.Answer(ctx, ann, "s", p.RequestID, a); err != nil && !errors.Is(err, journaltest.ErrKilled) && chat.CodeOf(err) != chat.Conflict {
					t.Fatal(err)
				}
			}
		}
		select {
		case <-moved:
		case <-j.Killed:
			return ""
		case <-timeout.C:
			t.Fatalf("%s has no end; the log says\n%s", say, story(t, j))
		}
	}
}

// story is what the agent put into the log, a line for each event.
func story(t *testing.T, j *journaltest.Journal) string {
	t.Helper()
	facts, _, err := j.Read(ctx, "s", chat.Range{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			t.Fatal(err)
		}
		switch b := e.Body.(type) {
		case chat.AgentText:
			if b.Partial {
				out = append(out, "PARTIAL "+b.Text)
			} else {
				out = append(out, fmt.Sprintf("text %s", b.Text))
			}
		case chat.AgentThinking:
			out = append(out, "thinking "+b.Text)
		case chat.AgentToolCall:
			out = append(out, fmt.Sprintf("call %s %s", b.Tool, b.Params))
		case chat.AgentToolResult:
			out = append(out, fmt.Sprintf("result %s %s", b.Tool, b.Result))
		case chat.AgentToolError:
			out = append(out, fmt.Sprintf("error %s %s%s", b.Tool, b.Error, b.Code))
		case chat.AgentPlan:
			s := "plan"
			for _, task := range b.Tasks {
				s += " " + task.Status
			}
			out = append(out, s)
		case chat.AgentArtifact:
			out = append(out, fmt.Sprintf("artifact %s %v", b.ArtifactType, b.Size > 0 || len(b.Data) > 0))
		case chat.AgentUsage:
			out = append(out, fmt.Sprintf("usage %d %d", b.InputTokens, b.OutputTokens))
		case chat.AgentStatus:
			out = append(out, "status "+b.Message)
		case chat.AgentInputRequest:
			out = append(out, fmt.Sprintf("ask %s %d", b.InputType, len(b.Options)))
		case chat.AgentApprovalRequest, chat.AgentPermissionRequest, chat.PromptClosed:
			out = append(out, e.Type)
		case chat.TurnCompleted:
			out = append(out, strings.TrimSpace(string(b.Outcome)+" "+b.Error))
		}
	}
	return strings.Join(out, "\n")
}

// allBut approves all calls but those of one tool.
func allBut(tool string) func(chat.Prompt) (chat.Answer, bool) {
	return func(p chat.Prompt) (chat.Answer, bool) {
		var a chat.Answer
		for _, c := range p.Approval.Calls {
			a.Decisions = append(a.Decisions, chat.Decision{CallID: c.CallID, Approve: c.Tool != tool})
		}
		return a, true
	}
}

func always(a chat.Answer) func(chat.Prompt) (chat.Answer, bool) {
	return func(p chat.Prompt) (chat.Answer, bool) {
		for i := range a.Decisions {
			a.Decisions[i].CallID = p.Approval.Calls[i].CallID
		}
		return a, true
	}
}

func never(chat.Prompt) (chat.Answer, bool) { return chat.Answer{}, false }

// commands are what DESIGN says of the demo agent, word for word.
var commands = []struct {
	say    string
	answer func(chat.Prompt) (chat.Answer, bool)
	want   []string
}{
	{"hello there", never, []string{"text You said: hello there", "done"}},
	{"Hi, what can you do?", never, []string{"text I am a demo agent without a model: I show how people and agents work together here. Type `/tour` for a bit of everything, or `/help` for my commands. Everything else I only repeat.", "done"}},
	{"/echo Grüße an alle, die dies lesen", never, []string{"text Grüße an alle, die dies lesen", "done"}},
	{"/echo\ntwo\nlines", never, []string{"text two\nlines", "done"}},
	{"/stream 5", never, []string{"text tok1 tok2 tok3 tok4 tok5", "done"}},
	{"/stream 4 500", never, []string{"text tok1 tok2 tok3 tok4", "done"}},
	{"/echo", never, []string{"text Usage: /echo TEXT", "done"}},
	{"/stream x", never, []string{"text Usage: /stream N [RATE], with N from 1 to 1000000.", "done"}},
	{"/stream 5 fast", never, []string{"text Usage: /stream N [RATE], with N from 1 to 1000000.", "done"}},
	{"/think about it for long", never, []string{"thinking about it for long", "text Done thinking.", "done"}},
	{`/tool search {"q":"a  b"}`, never, []string{`call search {"q":"a  b"}`, `result search {"q":"a  b"}`, `text search gave {"q":"a  b"}`, "done"}},
	{"/tool search {", never, []string{"text Usage: /tool NAME JSON", "done"}},
	{`/tools search {"q":"a; b"}; broken!; count [2]`, never, []string{`call search {"q":"a; b"}`, "call broken {}", "call count [2]",
		"result count [2]", "error broken broken failed on request", `result search {"q":"a; b"}`,
		"text search gave {\"q\":\"a; b\"}\nbroken failed: broken failed on request\ncount gave [2]", "done"}},
	{"/tools one; deploy?; rm? {}", allBut("rm"), []string{"call one {}", "agent.approval_request", "result one {}", "call deploy {}", "result deploy {}",
		"text one gave {}\ndeploy gave {}\nrm was not allowed", "done"}},
	{"/tools one {", never, []string{"text Usage: /tools NAME JSON; NAME JSON …, with 1 to 20 calls. NAME! fails, NAME? is asked for first.", "done"}},
	{"/tools", never, []string{"text Usage: /tools NAME JSON; NAME JSON …, with 1 to 20 calls. NAME! fails, NAME? is asked for first.", "done"}},
	{"/toolfail fetch", never, []string{"call fetch {}", "error fetch fetch failed on request", "text fetch failed.", "done"}},
	{"/ask text", always(chat.Answer{Text: "Ann"}), []string{"ask text 0", "text You answered: Ann", "done"}},
	{"/ask radio", always(chat.Answer{Values: []string{"sms"}}), []string{"ask radio 3", "text You answered: sms", "done"}},
	{"/ask dropdown", always(chat.Answer{Text: "push"}), []string{"ask dropdown 3", "text You answered: push", "done"}},
	{"/ask checkbox", always(chat.Answer{Values: []string{"email", "push"}}), []string{"ask checkbox 3", "text You answered: email, push", "done"}},
	{"/ask binary_choice", always(chat.Answer{Text: "cancel"}), []string{"ask binary_choice 2", "text You answered: cancel", "done"}},
	{"/ask oauth_consent", always(chat.Answer{Text: "ok"}), []string{"ask oauth_consent 0", "text You answered: ok", "done"}},
	{"/ask notification", never, []string{"ask notification 0", "text Notified.", "done"}},
	{"/ask radio timeout=0.05", never, []string{"ask radio 3", "prompt.closed", "text No answer in time.", "done"}},
	{"/ask radio timeout=soon", never, []string{"text Usage: /ask text|binary_choice|radio|checkbox|dropdown|notification|oauth_consent [timeout=S]", "done"}},
	{`/approve deploy {"env":"a  timeout=1 b"} timeout=60`, always(chat.Answer{Decisions: []chat.Decision{{Approve: true}}}),
		[]string{"agent.approval_request", `call deploy {"env":"a  timeout=1 b"}`, `result deploy {"env":"a  timeout=1 b"}`, `text deploy gave {"env":"a  timeout=1 b"}`, "done"}},
	{`/approve deploy {"env":"prod"}`, always(chat.Answer{Decisions: []chat.Decision{{Approve: true, Params: []byte(`{"env":"test"}`)}}}),
		[]string{"agent.approval_request", `call deploy {"env":"test"}`, `result deploy {"env":"test"}`, `text deploy gave {"env":"test"}`, "done"}},
	{`/approve deploy {}`, always(chat.Answer{Decisions: []chat.Decision{{Reason: "not today"}}}), []string{"agent.approval_request", "text Denied: not today", "done"}},
	{"/approve deploy timeout=0.05", never, []string{"agent.approval_request", "prompt.closed", "text No answer in time.", "done"}},
	{"/permission mail calendar", always(chat.Answer{Granted: &[]string{"mail", "calendar"}}), []string{"agent.permission_request", "text Granted: mail, calendar", "done"}},
	{"/permission mail calendar", always(chat.Answer{Granted: &[]string{}}), []string{"agent.permission_request", "text Denied: mail, calendar", "done"}},
	{"/permission mail calendar", always(chat.Answer{Granted: &[]string{"mail"}}), []string{"agent.permission_request", "text Granted: mail. Denied: calendar", "done"}},
	{"/plan 2 0.02", never, []string{"plan in_progress pending", "plan done in_progress", "plan done done", "text All 2 tasks are done.", "done"}},
	{"/artifact table", never, []string{"artifact table true", "text Here is the table.", "done"}},
	{"/artifact chart", never, []string{"artifact chart true", "text Here is the chart.", "done"}},
	{"/artifact image", never, []string{"artifact image true", "text Here is the image.", "done"}},
	{"/artifact file", never, []string{"artifact file true", "text Here is the file.", "done"}},
	{"/artifact html", never, []string{"artifact html true", "text Here is the html.", "done"}},
	{"/artifact car", never, []string{"text Usage: /artifact table|chart|image|file|html", "done"}},
	{"/work 1 0", never, []string{"plan in_progress", `call look_up {"part":1}`, `result look_up {"part":1}`,
		"text Part 1, chapter 1: word1 word2 word3 word4 word5 word6", "text Part 1, chapter 2: word1 word2 word3 word4 word5 word6",
		"text Part 1, chapter 3: word1 word2 word3 word4 word5 word6", "text Part 1, chapter 4: word1 word2 word3 word4 word5 word6",
		"artifact file true", "text Part 1 of 1 is done.", "done", "plan done",
		"text All 1 workstreams have ended.\n\n- w1: Part 1 of 1 is done.", "done"}},
	{"/work 0", never, []string{"text Usage: /work N [SECONDS] [deadline=S], with N from 1 to 100, up to 1800 seconds, and a deadline from 30 to 1800.", "done"}},
	{"/work 2 1 deadline=5", never, []string{"text Usage: /work N [SECONDS] [deadline=S], with N from 1 to 100, up to 1800 seconds, and a deadline from 30 to 1800.", "done"}},
	{"/usage 10 20", never, []string{"usage 10 20", "text Used 10 tokens in and 20 out.", "done"}},
	{"/fail no more paper", never, []string{"failed no more paper"}},
	{"/sleep 0.02", never, []string{"text Awake.", "done"}},
	{"/sleep NaN", never, []string{"text Usage: /sleep S, a number of seconds.", "done"}},
	{"/nonsense", never, []string{"text I do not know the command /nonsense. Type /help for those I know.", "done"}},
	{"/etc/passwd is a file", never, []string{"text You said: /etc/passwd is a file", "done"}},
}

func TestCommands(t *testing.T) {
	for _, c := range commands {
		t.Run(c.say, func(t *testing.T) {
			if got, want := life(t, vfs.NewMem(), 1<<40, c.say, c.answer), strings.Join(c.want, "\n"); got != want {
				t.Fatalf("the log says\n%s\n\nand not\n%s", got, want)
			}
		})
	}
}

// TestEveryEndIsTold has several lines of work end at once: their plan still goes
// on one by one.
func TestEveryEndIsTold(t *testing.T) {
	var done []int
	for line := range strings.Lines(life(t, vfs.NewMem(), 1<<40, "/work 5 0", never)) {
		if rest, ok := strings.CutPrefix(line, "plan "); ok {
			done = append(done, strings.Count(rest, "done"))
		}
	}
	if want := []int{0, 1, 2, 3, 4, 5}; !slices.Equal(done, want) {
		t.Errorf("%v are done, want %v", done, want)
	}
}

// TestKilledAtEveryWrite expects the same log whenever the process is killed.
func TestKilledAtEveryWrite(t *testing.T) {
	for _, c := range commands {
		t.Run(c.say, func(t *testing.T) {
			t.Parallel()
			want := strings.Join(c.want, "\n")
			step := int64(1)
			if len(want) > 400 { // long ones are not cut everywhere, to be done in time
				step = 4
			}
			for writes := int64(2); ; writes += step {
				disk := vfs.NewMem()
				got := life(t, disk, writes, c.say, c.answer)
				whole := got != ""
				if !whole {
					// The next one dies as well, a bit later.
					if got = life(t, disk, 3, c.say, c.answer); got == "" {
						got = life(t, disk, 1<<40, c.say, c.answer)
					}
				}
				if got != want {
					t.Fatalf("killed after %d writes, the log says\n%s\n\nand not\n%s", writes, got, want)
				}
				if whole {
					return
				}
			}
		})
	}
}

// TestWorkWrapsUp: workstreams that would take longer than their deadline are
// told to come to an end, and do.
func TestWorkWrapsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := life(t, vfs.NewMem(), 1<<40, "/work 3 50 deadline=40", never)
		for _, part := range []string{"w1: Part 1 of 3 was wrapped up early.", "w2: Part 2 of 3 was wrapped up early.", "w3: Part 3 of 3 was wrapped up early.", "plan done done done"} {
			if !strings.Contains(got, part) {
				t.Errorf("the log does not say %q:\n%s", part, got)
			}
		}
	})
}

// TestWorkRunsOutOfTime: nobody can be late for ever.
func TestWorkRunsOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := life(t, vfs.NewMem(), 1<<40, "/work 2 600 deadline=30", never)
		for _, part := range []string{"w1 ran out of time", "w2 ran out of time", "plan failed failed", "\nstopped"} {
			if !strings.Contains(got, part) {
				t.Errorf("the log does not say %q:\n%s", part, got)
			}
		}
	})
}

// guided answers what the tour asks.
func guided(p chat.Prompt) (chat.Answer, bool) {
	if p.Approval != nil {
		return chat.Answer{Decisions: []chat.Decision{{CallID: p.Approval.Calls[0].CallID, Approve: true}}}, true
	}
	return chat.Answer{Text: "plan"}, true
}

func TestTour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := life(t, vfs.NewMem(), 1<<40, "/tour", guided)
		for _, part := range []string{
			"status ", "plan in_progress pending", "thinking ", "call search", "error fetch_page", "artifact table", "call look_up", "text Copper is up", "text Rush freight",
			"artifact chart", "usage ", "ask radio 3", "agent.approval_request", "result send_mail", "plan done done done done", "You chose **The plan**. With your approval", "\ndone",
		} {
			if !strings.Contains(got, part) {
				t.Errorf("the tour shows no %q:\n%s", part, got)
			}
		}
	})
}

func TestTourWithoutAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := life(t, vfs.NewMem(), 1<<40, "/tour", never)
		for _, part := range []string{"Nobody chose a baseline in time", "Without your word I sent nothing.", "\ndone"} {
			if !strings.Contains(got, part) {
				t.Errorf("the tour does not say %q:\n%s", part, got)
			}
		}
	})
}

// TestTourKilled: whenever the process is killed, the tour has the same lines.
// Those of its helpers may come in another order.
func TestTourKilled(t *testing.T) {
	sorted := func(story string) string {
		return strings.Join(slices.Sorted(strings.SplitSeq(story, "\n")), "\n")
	}
	synctest.Test(t, func(t *testing.T) {
		want := sorted(life(t, vfs.NewMem(), 1<<40, "/tour", guided))
		for writes := int64(2); ; writes += 17 {
			disk := vfs.NewMem()
			got := life(t, disk, writes, "/tour", guided)
			whole := got != ""
			if !whole {
				got = life(t, disk, 1<<40, "/tour", guided)
			}
			if sorted(got) != want {
				t.Fatalf("killed after %d writes, the log says\n%s\n\nand not\n%s", writes, sorted(got), want)
			}
			if whole {
				return
			}
		}
	})
}
