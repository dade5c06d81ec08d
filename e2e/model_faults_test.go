// Tests of turns with faults of a model, its endpoint or a tool.

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/modeltest"
)

// asToolServer is the environment variable that makes the test program an MCP server on
// stdin and stdout. Its tool crash exits the process.
const asToolServer = "PARLEY_E2E_MCP_SERVER"

func serveTools() int {
	s := mcp.NewServer(&mcp.Implementation{Name: "unstable", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "crash", Description: "Ends the server."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		os.Exit(3)
		return nil, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "count", Description: "Counts."}, func(_ context.Context, _ *mcp.CallToolRequest, in countArgs) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint("counted ", in.N)}}}, nil, nil
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}

// modelFault is a fault of a model, its endpoint or a tool, and the events it leads to.
type modelFault struct {
	reply modeltest.Reply
	code  string   // of agent.error; "" means that the turn is answered
	says  []string // texts in the log, in order
	no    string   // a provider that cannot have this fault
}

const recovered = "The tool failed, this is the answer."

var modelFaults = map[string]modelFault{
	"wrong key":           {reply: modeltest.Reply{Status: 401, Code: "authentication_error", Error: "who are you"}, code: "denied", says: []string{"who are you", "key_env"}},
	"server error":        {reply: modeltest.Reply{Status: 500, Error: "out of order"}, code: "unavailable", says: []string{"trying again", "out of order", "then ask again"}},
	"rate limit":          {reply: modeltest.Reply{Status: 429, Code: "rate_limit_error", Error: "slow down", Header: map[string]string{"Retry-After": "1"}}, code: "rate_limited", says: []string{"trying again", "slow down", "in a while"}},
	"bad request":         {reply: modeltest.Reply{Status: 400, Error: "unsupported parameter"}, code: "refused", says: []string{"unsupported parameter", "configuration"}},
	"unknown model":       {reply: modeltest.Reply{Status: 404, Error: "no such model"}, code: "not_found", says: []string{"no such model", "configuration"}},
	"no response":         {reply: modeltest.Reply{Hang: true}, code: "timeout", says: []string{"stopped answering", "silence"}},
	"stalled stream":      {reply: modeltest.Reply{Text: "one two three", HangAt: 2}, code: "timeout", says: []string{`"one two"`, "stopped answering"}},
	"connection reset":    {reply: modeltest.Reply{Pieces: []string{"It was a da", "rk"}, CutAt: 1}, code: "cut_off", says: []string{`"It was a da"`, "cut off", "ask again"}},
	"short stream":        {reply: modeltest.Reply{Text: "one two three", EndAt: 2}, code: "cut_off", says: []string{`"one two"`, "cut off"}},
	"invalid JSON":        {reply: modeltest.Reply{Text: "Hm.", Garbage: `{"choices":[{"delta":`}, code: "cut_off", says: []string{"cut off"}},
	"empty answer":        {reply: modeltest.Reply{}, code: "empty_answer", says: []string{"ask again"}},
	"context overflow":    {reply: modeltest.Reply{Status: 400, Error: "prompt is too long: maximum context length exceeded"}, code: "context_overflow", says: []string{"too long", "window"}},
	"endless calls":       {reply: modeltest.Reply{Calls: []modeltest.Call{{ID: "c", Name: "kit__count", Args: `{"n":1}`}}}, code: "too_many_steps", says: []string{"counted 1", "counted 1", "max_steps"}},
	"unknown tool":        {reply: modeltest.Reply{Calls: []modeltest.Call{{ID: "c", Name: "fly", Args: `{}`}}}, says: []string{"kit__count", "unknown_tool", recovered}},
	"arguments not JSON":  {reply: modeltest.Reply{Calls: []modeltest.Call{{ID: "c", Name: "kit__count", Args: `n=1, please`}}}, says: []string{"invalid_arguments", recovered}, no: modeltest.Gemini},
	"truncated arguments": {reply: modeltest.Reply{Calls: []modeltest.Call{{ID: "c", Name: "kit__count", Args: `{"n":1`}}}, says: []string{"invalid_arguments", recovered}, no: modeltest.Gemini},
	"tool server crash":   {reply: modeltest.Reply{Calls: []modeltest.Call{{ID: "c", Name: "unstable__crash", Args: `{}`}}}, says: []string{"was lost during the call", "unknown_outcome", recovered}},
}

// TestModelFaultEndsTheTurn: with each of the four protocols a turn with a fault ends
// with a specific error or an answer, and the next message is answered.
func TestModelFaultEndsTheTurn(t *testing.T) {
	_, endpoint := startModel(t, func(r modeltest.Request) modeltest.Reply {
		name := r.LastUser()
		fault, ok := modelFaults[name]
		if !ok || len(r.Results()) > 0 && fault.code == "" {
			return modeltest.Reply{Text: recovered}
		}
		return fault.reply
	})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var yaml strings.Builder
	yaml.WriteString("agents:\n")
	for _, name := range modeltest.Protocols {
		base := endpoint
		if name == modeltest.Anthropic || name == modeltest.Gemini {
			base = strings.TrimSuffix(endpoint, "/v1")
		}
		fmt.Fprintf(&yaml, "  - {name: %s, kind: model, provider: %s, endpoint: %q, model: scripted, retries: 1, silence: 10s, max_steps: 3,\n"+
			"     mcp: [{name: kit, command: [%q], env: &as {%s: \"1\"}, approval: never}, {name: unstable, command: [%q], env: *as, approval: never}]}\n",
			name, name, base, exe, asToolServer, exe)
	}
	p := serve(t, t.TempDir(), "--config", writeConfig(t, yaml.String()))
	var runs sync.WaitGroup
	for _, protocol := range modeltest.Protocols {
		for name, f := range modelFaults {
			if f.no != protocol {
				runs.Go(func() { f.run(t, p, protocol, name) })
			}
		}
	}
	runs.Wait()
}

// run provokes the fault in a new session.
func (f modelFault) run(t *testing.T, p *process, agent, name string) {
	id := agent + "-" + strings.ReplaceAll(name, " ", "-")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, r := p.connect(""), newReader(id)
	if _, err := c.Create(ctx, client.NewSession{ID: chat.SessionID(id), Agent: agent}); err != nil {
		t.Errorf("%s %s: %v", agent, name, err)
		return
	}
	var watching sync.WaitGroup
	watching.Go(func() { _ = r.watchClient(ctx, c, chat.SessionID(id)) })
	defer watching.Wait()
	defer cancel()
	for n, text := range []string{name, "again"} {
		if _, err := c.Say(ctx, chat.SessionID(id), text); err != nil {
			t.Errorf("%s %s: %v", agent, name, err)
			return
		}
		e, err := r.until(ctx, nth("turn.completed", n+1))
		if err != nil {
			t.Errorf("%s %s: the message %q is not answered: %v", agent, name, text, err)
			return
		}
		end := e.Body.(chat.TurnCompleted)
		if n == 0 {
			f.check(t, agent+" "+name, r, end)
		} else if end.Outcome != chat.Done {
			t.Errorf("%s %s: the next message ended as %s: %s", agent, name, end.Outcome, end.Error)
		}
	}
}

// check compares the log with the expected error and texts.
func (f modelFault) check(t *testing.T, name string, r *reader, end chat.TurnCompleted) {
	var fault chat.AgentError
	var log strings.Builder
	r.mu.Lock()
	for _, e := range r.events {
		fmt.Fprintf(&log, "%s %s\n", e.Type, e.Payload)
		if b, ok := e.Body.(chat.AgentError); ok {
			fault = b
		}
	}
	r.mu.Unlock()
	if fault.Code != f.code || (f.code == "") != (end.Outcome == chat.Done) || end.Error != fault.Message {
		t.Errorf("%s: it ended with %q as %s:\n%s", name, fault.Code, end.Outcome, log.String())
	}
	rest := log.String()
	for _, says := range f.says {
		_, after, ok := strings.Cut(rest, says)
		if !ok {
			t.Errorf("%s: %q is not in its place in\n%s", name, says, log.String())
			return
		}
		rest = after
	}
}
