package chat

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"pgregory.net/rapid"
)

// randomLog makes a log that the rules accept. A wild one also has events that they
// refuse: answers without prompts, ids that are used twice, ends without a beginning.
func randomLog(rt *rapid.T, wild bool) *script {
	s := newScript(rt)
	g := gen{rt: rt, script: s, wild: wild, calls: map[string][]string{}, open: map[string]BlockID{}}
	for range rapid.IntRange(1, 60).Draw(rt, "steps") {
		g.step()
	}
	return s
}

type gen struct {
	*script
	rt       *rapid.T
	wild     bool
	waiting  []Seq               // messages that no turn has taken
	calls    map[string][]string // line → running calls
	requests []string            // open prompts
	works    []string            // running workstreams
	open     map[string]BlockID  // line → block being previewed
	shown    map[string]string
}

func (g *gen) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(g.rt, what) }

// line picks a line on which a turn runs, "" and false when there is none.
func (g *gen) line() (string, bool) {
	lines := slices.Sorted(maps.Keys(g.turns))
	if len(lines) == 0 {
		return "", false
	}
	return lines[g.pick("line", len(lines))], true
}

func (g *gen) step() {
	line, running := g.line()
	fresh := fmt.Sprintf("x%d", g.seq)
	if g.wild && g.pick("twice", 4) == 0 {
		fresh = "again"
	}
	switch g.pick("step", 22) {
	case 0, 1:
		g.waiting = append(g.waiting, g.ask(mira, "m"+fresh))
	case 2, 3:
		if _, busy := g.turns[""]; len(g.waiting) > 0 && (!busy || g.wild) {
			g.turn("", g.waiting[0])
			g.waiting = g.waiting[1:]
		}
	case 4:
		if len(g.waiting) > 0 {
			g.say(mira, UserMessageWithdrawn{Sequence: g.waiting[0]})
			g.waiting = g.waiting[1:]
		}
	case 5:
		if running && len(g.waiting) > 0 && line == "" {
			g.server("", TurnInput{Sequences: g.waiting[:1]})
			g.waiting = g.waiting[1:]
		}
	case 6:
		if running {
			g.finish(line)
			g.done(line, []Outcome{Done, Done, Stopped, Failed, Interrupted}[g.pick("outcome", 5)], "")
			delete(g.calls, line)
		}
	case 7, 8:
		if running {
			g.finish(line)
			g.on(line, AgentText{Block: BlockID(fresh), Text: "text " + fresh, Final: true})
		}
	case 9:
		if running {
			g.preview(line)
		}
	case 10:
		if running {
			g.on(line, AgentToolCall{CallID: "c" + fresh, Tool: "t"})
			g.calls[line] = append(g.calls[line], "c"+fresh)
		}
	case 11, 12:
		if id, ok := g.takeCall(line); ok {
			if g.pick("ok", 2) == 0 {
				g.on(line, AgentToolResult{CallID: id, Tool: "t", Result: raw("1")})
			} else {
				g.on(line, AgentToolError{CallID: id, Error: "e", Code: Denial})
			}
		}
	case 13:
		if len(g.calls[line]) > 0 {
			g.on(line, AgentToolProgress{CallID: g.calls[line][0], Done: int64(g.seq), Total: 100})
		}
	case 14:
		if running {
			g.on(line, AgentInputRequest{RequestID: "r" + fresh, InputType: InputText, Text: "?"})
			g.requests = append(g.requests, "r"+fresh)
		}
	case 15, 16:
		if len(g.requests) > 0 {
			if g.pick("answer", 2) == 0 {
				g.say(jon, UserInputResponse{RequestID: g.requests[0], Text: "!"})
			} else {
				g.server("", PromptClosed{RequestID: g.requests[0], Reason: Expired})
			}
			g.requests = g.requests[1:]
		}
	case 17:
		if running {
			g.on(line, AgentPlan{Tasks: []Task{{ID: "1", Title: fresh, Status: "pending"}}})
			g.on(line, AgentStatus{Message: fresh})
			g.on(line, AgentUsage{Usage: Usage{InputTokens: 1, OutputTokens: 2}})
		}
	case 18:
		g.launch(running, fresh)
	case 19:
		g.work()
	case 20:
		g.say(mira, FileUploaded{Path: "f" + strconv.Itoa(g.pick("file", 3)), Size: 1})
		g.say(mira, FileRemoved{Path: "f" + strconv.Itoa(g.pick("file", 3))})
		g.raw("", "odd.thing", `{"a":[1,null]}`)
	case 21:
		switch g.pick("session", 4) {
		case 0:
			g.say(mira, SessionUpdated{Policy: new([]Policy{Queue, Steer, Interrupt}[g.pick("policy", 3)])})
		case 1:
			g.say(mira, SessionCompleted{})
		case 2:
			if running {
				g.server(line, TurnStopRequested{TurnID: g.turns[line], By: mira})
				g.server(line, TurnResumed{TurnID: g.turns[line], Attempt: 2})
			}
		case 3:
			if g.wild {
				g.on("ghost", AgentToolResult{CallID: "none"})
				g.say(jon, UserApprovalResponse{RequestID: "none", Decisions: []Decision{{CallID: "a", Approve: true, Remember: "session"}}})
				g.server("ghost", TurnCompleted{TurnID: "t-none", Outcome: Done})
				g.server("", WorkstreamFailed{ID: "none"})
			}
		}
	}
}

func (g *gen) takeCall(line string) (string, bool) {
	calls := g.calls[line]
	if len(calls) == 0 {
		return "", false
	}
	i := g.pick("call", len(calls))
	id := calls[i]
	g.calls[line] = slices.Delete(calls, i, i+1)
	return id, true
}

// preview begins or continues a block of a line.
func (g *gen) preview(line string) {
	if g.shown == nil {
		g.shown = map[string]string{}
	}
	if g.open[line] == "" {
		g.open[line] = BlockID(fmt.Sprintf("o%d", len(g.entries)))
	}
	g.piece(line, g.open[line], len(g.shown[line]), "né ")
	g.shown[line] += "né "
}

// finish closes the block that a line previews.
func (g *gen) finish(line string) {
	if b := g.open[line]; b != "" {
		g.on(line, AgentText{Block: b, Text: g.shown[line], Partial: true})
		delete(g.open, line)
		delete(g.shown, line)
	}
}

func (g *gen) launch(running bool, id string) {
	if len(g.works) < 3 && running {
		g.on("", WorkstreamLaunched{ID: id, Task: "t"})
		g.works = append(g.works, id)
		g.turn(id, g.seq)
	}
}

func (g *gen) work() {
	if len(g.works) == 0 {
		return
	}
	id := g.works[0]
	switch g.pick("work", 5) {
	case 0:
		g.server("", WorkstreamProgress{ID: id, Phase: "planning", Share: 0.5, Iteration: 2})
	case 1:
		g.say(mira, WorkstreamSteered{ID: id, Command: "pause_requested"})
	case 2:
		g.server("", WorkstreamWarning{ID: id, Share: 0.75})
		g.say(mira, WorkstreamMessage{ID: id, Text: "go on"})
	case 3:
		g.server("", WorkstreamCanceling{ID: id})
	case 4:
		if _, busy := g.turns[id]; busy {
			g.finish(id)
			g.done(id, Stopped, "")
		}
		g.server("", WorkstreamCompleted{ID: id, Summary: "s"})
		g.works = g.works[1:]
	}
}
