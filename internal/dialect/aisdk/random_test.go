package aisdk

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/pages"
	"github.com/parley-hq/parley/internal/turnlog"
)

// randomLog writes a turn with events of all kinds in random order.
type randomLog struct {
	*rand.Rand
	entries  []turnlog.Entry
	seq      chat.Seq
	blocks   []*chat.Block
	calls    []string
	prompts  []chat.Prompt
	messages []chat.Seq
	made     int
}

const testTurn = chat.TurnID("t-6GYRRWM7EV980800000EQPY7W0")

func newRandomLog(seed uint64) *randomLog {
	l := &randomLog{Rand: rand.New(rand.NewPCG(seed, 1))}
	l.add(chat.TurnStarted{TurnID: testTurn, Trigger: 1, Agent: "demo"}, "", testTurn)
	for range 5 + l.IntN(60) {
		l.step()
	}
	outcomes := []chat.Outcome{chat.Done, chat.Done, chat.Stopped, chat.Failed, chat.Interrupted}
	l.add(chat.TurnCompleted{TurnID: testTurn, Outcome: outcomes[l.IntN(len(outcomes))]}, "", testTurn)
	return l
}

func (l *randomLog) event(body chat.Body, line string, turn chat.TurnID) chat.Event {
	l.seq++
	e := chat.Event{
		Session: "c1", Seq: l.seq + 10, At: chat.At(l.seq+10) * core.AtStep, Type: body.Type(), ID: chat.EventID(chat.MakeID(7, l.seq+10).Text(chat.EventPrefix)),
		Turn: turn, Workstream: line, Actor: chat.Actor{Kind: chat.Agent, ID: "demo"}, Body: body,
	}
	d := chat.NewDraft(body)
	if err := d.Normalize(); err != nil {
		panic(err)
	}
	e.Payload = d.Payload
	return e
}

func (l *randomLog) store(e chat.Event) {
	stored, err := e.Fact().Event()
	if err != nil {
		panic(err)
	}
	l.entries = append(l.entries, turnlog.Entry{At: e.At, Event: &stored})
}

func (l *randomLog) add(body chat.Body, line string, turn chat.TurnID) {
	l.store(l.event(body, line, turn))
}

func pick[T any](l *randomLog, list []T) T { return list[l.IntN(len(list))] }

func (l *randomLog) name(prefix string) string {
	l.made++
	return fmt.Sprintf("%s%d", prefix, l.made)
}

// call returns the id of a call, mostly a known one.
func (l *randomLog) call() string {
	if len(l.calls) == 0 || l.IntN(4) == 0 {
		l.calls = append(l.calls, pick(l, []string{l.name("call"), "", "x"}))
	}
	return pick(l, l.calls)
}

func (l *randomLog) step() {
	words := pick(l, []string{"hello", "ü\n\"quoted\"", "a longer text with several words", "😀"})
	line := pick(l, []string{"", "", "", "", "w1"})
	turn := testTurn
	if line != "" {
		turn = "t-7GYRRWM7EV980800000EQPY7W0"
	}
	switch l.IntN(24) {
	case 0, 1, 2, 3, 4:
		l.piece(line, turn, words)
	case 5, 6:
		l.finish()
	case 7, 8:
		l.add(chat.AgentToolCall{CallID: l.call(), Tool: pick(l, []string{"weather", "deploy"}), Params: pick(l, []json.RawMessage{nil, []byte(`{"a":null}`), []byte(`[1]`)})}, line, turn)
	case 9:
		l.add(chat.AgentToolResult{CallID: l.call(), Tool: pick(l, []string{"weather", ""}), Result: pick(l, []json.RawMessage{nil, []byte(`"x"`), []byte(`null`)})}, line, turn)
	case 10:
		l.add(chat.AgentToolError{CallID: l.call(), Tool: "weather", Error: pick(l, []string{"", "failed"})}, line, turn)
	case 11, 12, 13:
		l.ask(line, turn, words)
	case 14, 15, 16, 17:
		l.answer()
	case 18:
		e := l.event(chat.UserMessage{Text: words}, "", "")
		e.Actor, e.Via, e.ClientID = chat.Actor{Kind: chat.User, ID: "ann"}, pick(l, []string{via, "nemo", ""}), l.name("m")
		l.messages = append(l.messages, e.Seq)
		l.store(e)
	case 19:
		if len(l.messages) > 0 {
			n := 1 + l.IntN(len(l.messages))
			l.add(chat.TurnInput{Sequences: l.messages[:n]}, "", testTurn)
			l.messages = l.messages[n:]
		}
	case 20:
		l.add(pick(l, []chat.Body{
			chat.WorkstreamLaunched{ID: "w1", Task: words}, chat.WorkstreamProgress{ID: "w1", Phase: "done"}, chat.WorkstreamWarning{ID: "w2", Share: 0.5},
			chat.WorkstreamCompleted{ID: "w1", Result: []byte(`{}`)}, chat.WorkstreamFailed{ID: "w2", Error: words}, chat.WorkstreamTimeout{ID: "w1"}, chat.WorkstreamCanceled{ID: "w1"},
			chat.WorkstreamCanceling{ID: "w1"}, chat.WorkstreamSteered{ID: "w1", Command: "wrap_up"}, chat.WorkstreamMessage{ID: "w1", Text: words},
		}), line, turn)
	case 21:
		l.add(pick(l, []chat.Body{
			chat.AgentPlan{Tasks: []chat.Task{{ID: "1", Title: words}}}, chat.AgentStatus{Message: words}, chat.AgentToolProgress{Done: 1}, chat.AgentUsage{Usage: chat.Usage{InputTokens: 3}},
			chat.AgentError{Message: words}, chat.AgentShare{Title: words}, chat.AgentTrace{TraceID: "x"}, chat.AgentArtifact{ArtifactType: "file", Path: "a b/ü.txt"},
			chat.AgentArtifact{ArtifactType: "table", Data: []byte(`[]`)},
		}), line, turn)
	case 22:
		l.add(pick(l, []chat.Body{
			chat.Unknown{Name: "other.event", Payload: []byte(`{"a":1}`)}, chat.SessionUpdated{Summary: &words}, chat.TurnResumed{TurnID: testTurn, Attempt: 2}, chat.TurnStopRequested{TurnID: testTurn},
			chat.FileUploaded{Path: "a"}, chat.FileRemoved{Path: "a"}, chat.UserMessageWithdrawn{Sequence: 3}, chat.SessionCompleted{}, chat.AgentThinking{Redacted: "x"}, chat.AgentText{},
		}), line, turn)
	case 23:
		l.add(chat.AgentInputRequest{RequestID: l.name("n"), InputType: chat.InputNotification, Text: words}, line, turn)
	}
}

func (l *randomLog) piece(line string, turn chat.TurnID, text string) {
	if len(l.blocks) == 0 || l.IntN(3) == 0 {
		l.blocks = append(l.blocks, &chat.Block{ID: chat.BlockID(l.name("b")), Kind: pick(l, []chat.BlockKind{chat.TextBlock, chat.ThinkingBlock}), Workstream: line, Turn: turn})
	}
	b := pick(l, l.blocks)
	p := &chat.Preview{Block: b.ID, Offset: len(b.Text), End: len(b.Text) + len(text), Text: text, Kind: b.Kind, Workstream: b.Workstream, Turn: b.Turn}
	b.Text += text
	l.entries = append(l.entries, turnlog.Entry{At: chat.At(l.seq+10)*core.AtStep + 1, Piece: p})
}

func (l *randomLog) finish() {
	if len(l.blocks) == 0 {
		l.add(chat.AgentText{Text: "whole", Final: true}, "", testTurn)
		return
	}
	i := l.IntN(len(l.blocks))
	b := l.blocks[i]
	l.blocks = slices.Delete(l.blocks, i, i+1)
	text := b.Text + pick(l, []string{"", " the end"})
	if b.Kind == chat.ThinkingBlock {
		l.add(chat.AgentThinking{Block: b.ID, Text: text}, b.Workstream, b.Turn)
	} else {
		l.add(chat.AgentText{Block: b.ID, Text: text}, b.Workstream, b.Turn)
	}
}

func (l *randomLog) ask(line string, turn chat.TurnID, words string) {
	id := l.name("p")
	var body chat.Body
	switch l.IntN(4) {
	case 0:
		body = chat.AgentInputRequest{RequestID: id, InputType: chat.InputText, Text: words}
	case 1:
		body = chat.AgentInputRequest{RequestID: id, InputType: chat.InputRadio, Text: words, Options: []chat.Option{{ID: "a", Label: "A"}}}
	case 2:
		body = chat.AgentPermissionRequest{RequestID: id, Scopes: []string{"mail"}, Tool: pick(l, []string{"", "send"}), Deadline: 5}
	case 3:
		b := chat.AgentApprovalRequest{RequestID: id, Text: words, Settled: l.IntN(5) == 0}
		for range 1 + l.IntN(3) {
			b.Calls = append(b.Calls, chat.ApprovalCall{CallID: l.name("call"), Tool: "deploy", Client: l.IntN(3) == 0})
		}
		l.calls = append(l.calls, b.Calls[0].CallID)
		body = b
	}
	e := l.event(body, line, turn)
	l.store(e)
	if p, ok := chat.AsPrompt(&e); ok {
		l.prompts = append(l.prompts, p)
	}
}

func (l *randomLog) answer() {
	if len(l.prompts) == 0 {
		return
	}
	i := l.IntN(len(l.prompts))
	p := l.prompts[i]
	l.prompts = slices.Delete(l.prompts, i, i+1)
	var body chat.Body = chat.PromptClosed{RequestID: p.RequestID, Reason: pick(l, []chat.CloseReason{chat.Expired, chat.Withdrawn})}
	switch {
	case l.IntN(4) == 0:
	case p.Input != nil:
		body = chat.UserInputResponse{RequestID: p.RequestID, Text: "a"}
	case p.Permission != nil:
		body = chat.UserPermissionResponse{RequestID: p.RequestID, Granted: pick(l, [][]string{{}, {"mail"}})}
	default:
		b := chat.UserApprovalResponse{RequestID: p.RequestID}
		for _, c := range p.Approval.Calls {
			d := chat.Decision{CallID: c.CallID, Approve: l.IntN(2) == 0}
			if c.Client && d.Approve {
				d.Result = json.RawMessage(`{"ok":true}`)
			}
			b.Decisions = append(b.Decisions, d)
		}
		body = b
	}
	e := l.event(body, p.Workstream, p.Turn)
	e.Actor = chat.Actor{Kind: chat.User, ID: "ann"}
	if e.Via = pick(l, []string{via, "nemo"}); e.Via == via && p.Workstream == "" && l.IntN(2) == 0 {
		e.ClientID = l.name("m")
	}
	l.store(e)
}

// selected returns the chunks of a target over a log; a reader that comes late gets all entries at once.
func selected(t *testing.T, l *randomLog, tg target, late bool) []chunk {
	t.Helper()
	s := newSelector(&tg)
	var out []chunk
	if !late {
		s.caughtUp()
	}
	for i := range l.entries {
		if s.take(&l.entries[i]); !late {
			out = append(out, s.ready()...)
		}
		if s.done {
			break
		}
	}
	s.caughtUp()
	return append(out, s.ready()...)
}

// segments returns the segments of a turn.
func segments(t *testing.T, l *randomLog, legacy bool) (all []segment) {
	t.Helper()
	r := newRun(legacy)
	all = []segment{{}}
	for i := range l.entries {
		r.take(&l.entries[i])
		if last := all[len(all)-1]; r.at != last {
			all = append(all, r.at)
		}
	}
	return all
}

func encoded(chunks []chunk) (out []json.RawMessage) {
	for i := range chunks {
		out = append(out, pages.Marshal(chunks[i]))
	}
	return out
}

// sample is a turn for the npm verifier.
type sample struct {
	Legacy   bool              `json:"legacy"`
	Segments []segmentChunks   `json:"segments"`
	Whole    []json.RawMessage `json:"whole"` // as a page gets it that resumes at the end
	List     json.RawMessage   `json:"list"`
}

type segmentChunks struct {
	Message chat.Seq          `json:"message"`
	Chunks  []json.RawMessage `json:"chunks"`
}

// TestAnyLogGivesTheSameChunksToEveryReader checks that a segment is the same for a reader that was there and for one that
// comes late, from every index on, and that the segments of a message together are what a page that resumes gets. With
// AISDK_CHUNKS it also writes the chunks to a file, which the tests in web/dialects/aisdk check with the npm packages.
func TestAnyLogGivesTheSameChunksToEveryReader(t *testing.T) {
	var file *bufio.Writer
	if name := os.Getenv("AISDK_CHUNKS"); name != "" {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		file = bufio.NewWriter(f)
		defer file.Flush()
	}
	for seed := range uint64(300) {
		legacy := seed%4 == 0
		l := newRandomLog(seed)
		all := segments(t, l, legacy)
		out := sample{Legacy: legacy}
		live := &uiMessage{Role: roleAssistant}
		for _, at := range all {
			chunks := selected(t, l, target{at: at, legacy: legacy}, false)
			if n := len(chunks); chunks[0].Type != chunkStart || chunks[n-1].Type != chunkFinish {
				t.Fatalf("seed %d, %v: %s", seed, at, encoded(chunks))
			}
			if late := selected(t, l, target{at: at, legacy: legacy}, true); fmt.Sprintf("%s", encoded(late)) != fmt.Sprintf("%s", encoded(chunks)) {
				t.Fatalf("seed %d, %v: a late reader gets\n%s\nnot\n%s", seed, at, encoded(late), encoded(chunks))
			}
			for _, n := range []int{1, l.IntN(len(chunks)), len(chunks) - 1} {
				if rest := selected(t, l, target{at: at, legacy: legacy, skip: n}, n%2 == 0); len(rest) != len(chunks)-n {
					t.Fatalf("seed %d, %v: from %d on there are %d of %d chunks", seed, at, n, len(rest), len(chunks))
				}
			}
			if at.index == 0 {
				live = &uiMessage{Role: roleAssistant}
			}
			for _, c := range chunks {
				live.add(c)
			}
			out.Segments = append(out.Segments, segmentChunks{at.message, encoded(chunks)})
		}
		whole := selected(t, l, target{whole: true, legacy: legacy}, true)
		replayed := &uiMessage{Role: roleAssistant}
		for _, c := range whole {
			replayed.add(c)
		}
		for _, m := range []*uiMessage{live, replayed} {
			for _, p := range m.Parts {
				p.Executed = false // a resumed page is told that a tool of its own was run
			}
		}
		if got, want := string(pages.Marshal(replayed)), string(pages.Marshal(live)); got != want || got == "{}" {
			t.Fatalf("seed %d: a resumed page has\n%s\nnot\n%s", seed, got, want)
		}
		if file == nil || seed >= 150 {
			continue
		}
		out.Whole = encoded(whole)
		out.List = listed(t, l, legacy)
		b, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		file.Write(append(b, '\n'))
	}
}

// listed is the list of messages of a log.
func listed(t *testing.T, l *randomLog, legacy bool) json.RawMessage {
	t.Helper()
	list := &listing{legacy: legacy, users: map[chat.Seq]*uiMessage{}}
	for i := range l.entries {
		if e := l.entries[i].Event; e != nil {
			list.take(e)
		}
	}
	b, err := json.Marshal(list.last(maxListMessages))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
