package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
)

// replaying serves a recording until the test ends.
func replaying(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	var errs bytes.Buffer
	go func() { ended <- run(ctx, append([]string{"replay"}, args...), nil, nil, &errs) }()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != exitOK {
			t.Errorf("replay ended with %d: %s", code, errs.String())
		}
	})
}

// converse sends messages one after the other, answers the prompts and returns a summary of the log of each turn.
func converse(t *testing.T, c *client.Client, id chat.SessionID, agent string, messages ...string) []string {
	t.Helper()
	if _, err := c.Create(t.Context(), client.NewSession{ID: id, Agent: agent}); err != nil {
		t.Fatal(err)
	}
	var turns []string
	from := "0"
	for _, text := range messages {
		if _, err := c.Say(t.Context(), id, text); err != nil {
			t.Fatal(err)
		}
		var said []string
		for f, err := range c.Watch(t.Context(), id, client.WatchOptions{After: from}) {
			if err != nil {
				t.Fatal(err)
			}
			if f.Event == nil {
				continue
			}
			from = f.Cursor.String()
			e := f.Event
			switch b := e.Body.(type) {
			case chat.AgentText:
				said = append(said, "says "+b.Text)
			case chat.AgentThinking:
				said = append(said, "thinks "+b.Text)
			case chat.AgentToolCall:
				said = append(said, "calls "+b.Tool+string(b.Params))
			case chat.AgentToolResult:
				said = append(said, "got "+string(b.Result))
			case chat.AgentToolError:
				said = append(said, "error "+b.Error)
			case chat.AgentPlan, chat.AgentArtifact:
				said = append(said, e.Type)
			case chat.TurnCompleted:
				if e.Workstream == "" {
					said = append(said, string(b.Outcome)+" "+b.Error)
				}
			}
			if p, ok := chat.AsPrompt(e); ok {
				said = append(said, "asks "+e.Type)
				a := chat.Answer{Text: "Ada"}
				if p.Approval != nil {
					a = chat.Answer{Decisions: []chat.Decision{{CallID: p.Approval.Calls[0].CallID, Approve: true}}}
				}
				if _, err := c.Answer(t.Context(), id, p.RequestID, a); err != nil {
					t.Fatal(err)
				}
			}
			if _, over := e.Body.(chat.TurnCompleted); over && e.Workstream == "" {
				break
			}
		}
		turns = append(turns, strings.Join(said, "\n"))
	}
	return turns
}

// A recording answers as the agent did, from a session and from a file.
func TestReplayRepeatsRecordedTurns(t *testing.T) {
	dir := t.TempDir()
	url := launch(t, filepath.Join(dir, "data"))
	c, err := client.New(client.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	messages := []string{"/think deep", "/tool add {\"a\":1}", "/toolfail sub", "/ask text", "/approve pay {}", "/plan 2", "/artifact table", "/artifact file", "/fail on purpose", "grüße"}
	recorded := converse(t, c, "original", "demo", messages...)

	replaying(t, "original", "--as", "again", "--speed", "0")
	played := converse(t, c, "copy", "again", messages...)
	for i := range messages {
		if played[i] != recorded[i] {
			t.Errorf("%s was\n%s\nand is now\n%s", messages[i], recorded[i], played[i])
		}
	}

	file := filepath.Join(dir, "log.ndjson")
	succeed(t, "", "export", "original", "-o", file)
	replaying(t, file, "--as", "filed", "--speed", "100")
	// With other texts the turns are played in order.
	other := converse(t, c, "other", "filed", "what?", "and?")
	if other[0] != recorded[0] || other[1] != recorded[1] {
		t.Errorf("played in order:\n%s", strings.Join(other, "\n"))
	}
	// With the same text the recorded turn is played.
	if same := converse(t, c, "same", "filed", "grüße"); same[0] != recorded[9] {
		t.Errorf("the same text gets\n%s", same[0])
	}
}

func TestReplayPlaysWorkstreams(t *testing.T) {
	url := launch(t, filepath.Join(t.TempDir(), "data"))
	c, err := client.New(client.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	recorded := converse(t, c, "original", "demo", "/work 2")
	replaying(t, "original", "--as", "again", "--speed", "0")
	played := converse(t, c, "copy", "again", "/work 2", "/work 2")
	last := func(s string) string { return s[strings.LastIndex(strings.TrimSuffix(s, "\ndone "), "\n")+1:] }
	for _, p := range played {
		if last(p) != last(recorded[0]) {
			t.Errorf("it was\n%s\nand is now\n%s", recorded[0], p)
		}
	}
}

func TestReplayWithoutARecordingFails(t *testing.T) {
	launch(t, filepath.Join(t.TempDir(), "data"))
	for _, args := range [][]string{{"replay", "nowhere", "--as", "x"}, {"replay", "-", "--as", "x"}} {
		if code, _, errs := cli(t, "not a log", args...); code != exitError || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
}
