package agui

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/turnlog"
)

// randomLog is a session with events of all types in random order, most of them as a real session has them.
type randomLog struct {
	rng     *rand.Rand
	seq     chat.Seq
	at      chat.At
	turn    chat.TurnID
	blocks  map[string]int // bytes by line and block
	entries []turnlog.Entry
}

func (l *randomLog) add(line string, body chat.Body) chat.Seq {
	l.seq++
	l.at += core.AtStep
	d := chat.NewDraft(body)
	_ = d.Normalize() // bodies that no session would store are shown too
	id := chat.EventID(fmt.Sprintf("e-%d", l.seq))
	e := &chat.Event{Session: "s", Seq: l.seq, At: l.at, Type: body.Type(), ID: id, Turn: l.turn, Workstream: line, Payload: d.Payload, Body: body,
		Actor: chat.Actor{Kind: chat.Agent, ID: "a"}}
	l.entries = append(l.entries, turnlog.Entry{At: l.at, Event: e})
	return l.seq
}

func (l *randomLog) pick(words ...string) string { return words[l.rng.IntN(len(words))] }

// once adds one random event or piece.
func (l *randomLog) once() {
	line := l.pick("", "", "w1", "w2")
	call, block := l.pick("c1", "c2", "c3", ""), l.pick("b1", "b2", "b3", "")
	request := fmt.Sprintf("p%d", l.rng.IntN(6))
	raw := json.RawMessage(l.pick(`{"a":1}`, `"text"`, `null`, `[1,null]`, ``))
	switch l.rng.IntN(32) {
	case 0, 1, 2, 3, 4:
		if block == "" {
			return
		}
		key := line + "/" + block
		text := l.pick("word ", "wörd ", "\n", "{}")
		kind := chat.TextBlock
		if block == "b2" {
			kind = chat.ThinkingBlock
		}
		l.at += core.AtStep
		p := &chat.Preview{Block: chat.BlockID(block), Offset: l.blocks[key], Text: text, End: l.blocks[key] + len(text), Kind: kind, Workstream: line}
		l.blocks[key] += len(text)
		l.entries = append(l.entries, turnlog.Entry{At: l.at, Piece: p})
	case 5, 6:
		delete(l.blocks, line+"/"+block)
		l.add(line, chat.AgentText{Block: chat.BlockID(block), Text: l.pick("", "word word word wörd wörd", "x")})
	case 7:
		delete(l.blocks, line+"/"+block)
		l.add(line, chat.AgentThinking{Block: chat.BlockID(block), Text: l.pick("", "word word")})
	case 8, 9:
		l.add(line, chat.AgentToolCall{CallID: call, Tool: l.pick("look", ""), Params: raw})
	case 10:
		l.add(line, chat.AgentToolResult{CallID: call, Result: raw})
	case 11:
		l.add(line, chat.AgentToolError{CallID: call, Error: l.pick("", "no"), Code: "denied"})
	case 12:
		l.add(line, chat.AgentPlan{Tasks: []chat.Task{{ID: "1", Title: "one and more", Status: l.pick("pending", "done")}, {ID: "2", Title: "two", Status: l.pick("pending", "done")}}})
	case 13:
		l.add(line, chat.AgentToolProgress{CallID: call, Done: 1, Data: raw})
	case 14:
		l.add(line, chat.AgentArtifact{ArtifactType: "table", Data: raw, ArtifactID: l.pick("", "x")})
	case 15:
		l.add(line, chat.AgentStatus{Message: "busy"})
		l.add(line, chat.AgentUsage{Model: l.pick("", "m"), Usage: chat.Usage{InputTokens: 3, OutputTokens: int64(l.rng.IntN(3)) - 1}})
	case 16:
		l.add(line, chat.AgentInputRequest{RequestID: request, InputType: chat.InputType(l.pick("text", "radio", "checkbox", "notification", "binary_choice")), Text: l.pick("", "Which?"),
			Options: []chat.Option{{ID: "a", Label: "A"}, {ID: "b", Label: "B"}}, Deadline: chat.At(l.rng.IntN(2)) * l.at})
	case 17:
		l.add(line, chat.AgentApprovalRequest{RequestID: request, Settled: l.rng.IntN(4) == 0, Calls: []chat.ApprovalCall{
			{CallID: "c1", Tool: "look", Params: raw, Client: l.rng.IntN(3) == 0}, {CallID: "c4", Tool: "pay"},
		}})
	case 18:
		l.add(line, chat.AgentPermissionRequest{RequestID: request, Scopes: []string{"mail"}})
	case 19, 20, 21:
		l.add(line, []chat.Body{
			chat.UserInputResponse{RequestID: request, Text: "a"}, chat.PromptClosed{RequestID: request, Reason: chat.Expired},
			chat.UserApprovalResponse{RequestID: request, Decisions: []chat.Decision{{CallID: "c1"}, {CallID: "c4", Approve: true}}},
			chat.UserPermissionResponse{RequestID: request, Granted: []string{"mail"}},
		}[l.rng.IntN(4)])
	case 22:
		l.add(l.pick("", "w1", "w2"), chat.WorkstreamLaunched{ID: l.pick("w1", "w2", "w3"), Name: l.pick("", "search"), Task: l.pick("", "find it")})
	case 23:
		id := l.pick("w1", "w2")
		l.add("", []chat.Body{
			chat.WorkstreamCompleted{ID: id, Summary: l.pick("", "done"), Result: raw}, chat.WorkstreamFailed{ID: id}, chat.WorkstreamTimeout{ID: id},
			chat.WorkstreamCanceled{ID: id, Reason: "enough"}, chat.WorkstreamProgress{ID: id, Phase: "planning"}, chat.WorkstreamWarning{ID: id, Share: 0.5},
		}[l.rng.IntN(6)])
	case 24, 25:
		l.add("", chat.TurnCompleted{TurnID: l.turn, Outcome: chat.Outcome(l.pick("done", "done", "stopped", "failed", "interrupted")), Error: l.pick("", "no")})
		l.turn = ""
		fallthrough
	case 26:
		seq := l.add("", chat.UserMessage{Text: l.pick("", "hello"), Content: []chat.Part{{Type: "image", URL: l.pick("data:image/png;base64,aGk=", "https://example.com/a.png")}}})
		if l.rng.IntN(4) > 0 {
			l.turn = chat.TurnID(fmt.Sprintf("t%d", l.seq))
			l.add("", chat.TurnStarted{TurnID: l.turn, Trigger: seq})
		}
	case 27:
		if l.rng.IntN(3) == 0 {
			l.add("", chat.AgentText{Text: "from the page"})
			l.entries[len(l.entries)-1].Event.Via = via
		}
		seq := l.add("", chat.UserMessage{Text: "and this"})
		l.add("", chat.TurnInput{Sequences: []chat.Seq{seq, 99999}})
	case 28:
		l.add(line, chat.Unknown{Name: l.pick("remote.round", "acme.thing", "llm.message"), Payload: json.RawMessage(l.pick(`{"state":{"title":"a title that stays","n":1}}`, `{"state":{"title":"a title that stays","n":[2,{"__proto__":1}]}}`, `{"state":null}`, `null`, `[]`))})
	case 29:
		l.add(line, chat.AgentError{Message: "oops", Recoverable: true})
		l.add(line, chat.AgentShare{URL: "https://example.com"})
	case 30:
		kinds := chat.Kinds()
		names := make([]string, 0, len(kinds))
		for name := range kinds {
			names = append(names, name)
		}
		slices.Sort(names)
		l.add(line, kinds[names[l.rng.IntN(len(names))]])
	case 31:
		l.add(line, chat.TurnStarted{TurnID: "tx", Trigger: 1})
	}
}

// framesOf encodes a log.
func framesOf(entries []turnlog.Entry, f variant, whole bool) (out []frame) {
	x := newEncoder(f, "thread")
	x.whole = whole
	for _, s := range entries {
		out = append(out, x.take(s)...)
	}
	return out
}

// TestAnyLogGivesValidRuns checks the order of frames. With AGUI_FRAMES set it also writes them to that file, for the verifiers of
// the real clients in web/dialects/agui.
func TestAnyLogGivesValidRuns(t *testing.T) {
	var file *os.File
	if name := os.Getenv("AGUI_FRAMES"); name != "" {
		var err error
		if file, err = os.Create(name); err != nil {
			t.Fatal(err)
		}
		defer file.Close()
	}
	logs := uint64(100)
	if file != nil {
		logs = 120
	}
	for seed := range logs {
		l := &randomLog{rng: rand.New(rand.NewPCG(seed, 7)), blocks: map[string]int{}}
		for range 20 + l.rng.IntN(200) {
			l.once()
		}
		for _, f := range []variant{{v1: true}, {}, {tanstack: true}} {
			frames := framesOf(l.entries, f, seed%2 == 0)
			var raw []json.RawMessage
			for _, one := range frames {
				raw = append(raw, one.data)
			}
			if problem := verify(raw, false); problem != "" {
				t.Fatalf("seed %d, %+v: %s", seed, f, problem)
			}
			if n := runsOf(frames); n != "" {
				t.Fatalf("seed %d: %s", seed, n)
			}
			if file != nil {
				b, err := json.Marshal(map[string]any{"seed": seed, "v1": f.v1, "tanstack": f.tanstack, "events": raw})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := file.Write(append(b, '\n')); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// runsOf reports frames that are not numbered in order, or not marked at the ends of a run.
func runsOf(frames []frame) string {
	seen := map[chat.Seq]bool{}
	for i, f := range frames {
		first := i == 0 || frames[i-1].end
		switch {
		case first && (seen[f.run] || f.n != 1 || !f.start):
			return fmt.Sprintf("frame %d begins the run %d badly", i, f.run)
		case !first && (f.run != frames[i-1].run || f.n != frames[i-1].n+1 || f.start):
			return fmt.Sprintf("frame %d of the run %d has the number %d", i, f.run, f.n)
		}
		seen[f.run] = true
	}
	return ""
}

// verify reports what is wrong with the order of events; ended says that all runs have ended.
func verify(events []json.RawMessage, ended bool) string {
	running := false
	open := map[string]bool{}
	closed := map[string]bool{} // subagents
	for i, raw := range events {
		var e struct{ Type, MessageID, ToolCallID, SubagentRunID, ParentSubagentRunID string }
		if err := json.Unmarshal(raw, &e); err != nil {
			return err.Error()
		}
		bad := func(why string) string { return fmt.Sprintf("event %d, %s: %s", i, raw, why) }
		if (e.Type == "RUN_STARTED") == running {
			return bad("it is not in a run, or begins one inside another")
		}
		begin := func(key string) string {
			if open[key] {
				return bad("it is open")
			}
			open[key] = true
			return ""
		}
		need := func(key string, end bool) string {
			if !open[key] {
				return bad("it is not open")
			}
			if end {
				delete(open, key)
			}
			return ""
		}
		problem := ""
		switch e.Type {
		case "RUN_STARTED":
			running = true
			clear(closed)
		case "RUN_FINISHED":
			if len(open) > 0 {
				return bad(fmt.Sprintf("open: %v", open))
			}
			running = false
		case "RUN_ERROR":
			running = false
			clear(open)
		case "TEXT_MESSAGE_START":
			problem = begin("text " + e.MessageID)
		case "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END":
			problem = need("text "+e.MessageID, e.Type == "TEXT_MESSAGE_END")
		case "REASONING_START":
			problem = begin("span " + e.MessageID)
		case "REASONING_END":
			problem = need("span "+e.MessageID, true)
		case "REASONING_MESSAGE_START":
			problem = begin("reasoning " + e.MessageID)
		case "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END":
			problem = need("reasoning "+e.MessageID, e.Type == "REASONING_MESSAGE_END")
		case "TOOL_CALL_START":
			problem = begin("call " + e.ToolCallID)
		case "TOOL_CALL_ARGS", "TOOL_CALL_END":
			problem = need("call "+e.ToolCallID, e.Type == "TOOL_CALL_END")
		case "SUBAGENT_STARTED":
			if closed[e.SubagentRunID] {
				return bad("it ended in this run")
			}
			problem = begin("subagent " + e.SubagentRunID)
		case "SUBAGENT_FINISHED", "SUBAGENT_ERROR":
			closed[e.SubagentRunID] = true
			problem = need("subagent "+e.SubagentRunID, true)
		}
		if problem != "" {
			return problem
		}
	}
	if ended && running {
		return "the last run has not ended"
	}
	return ""
}
