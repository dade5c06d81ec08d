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

// asToolServer makes the test program an MCP server on its input and output,
// whose tool crash ends it.
const asToolServer = "PARLEY_E2E_MCP_SERVER"

func serveTools() int {
	s := mcp.NewServer(&mcp.Implementation{Name: "frail", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "crash", Description: "Ends the server."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		os.Exit(3)
		return nil, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "count", Description: "Counts."}, func(_ context.Context, _ *mcp.CallToolRequest, in numbered) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint("counted ", in.N)}}}, nil, nil
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}

// badDay is what a model, its endpoint or a tool does wrong, and what people see of
// it.
type badDay struct {
	reply modeltest.Reply
	code  string   // of agent.error; "" means that the turn is answered all the same
	says  []string // of the events, in their order
	no    string   // a provider that cannot do it
}

const fine = "All is well again."

var badDays = map[string]badDay{
	"takes no key": {reply: modeltest.Reply{Status: 401, Code: "authentication_error", Error: "who are you"}, code: "denied", says: []string{"who are you", "key_env"}},
	"is broken":    {reply: modeltest.Reply{Status: 500, Error: "out of order"}, code: "unavailable", says: []string{"trying again", "out of order", "then ask again"}},
	"is busy":      {reply: modeltest.Reply{Status: 429, Code: "rate_limit_error", Error: "slow down", Header: map[string]string{"Retry-After": "1"}}, code: "rate_limited", says: []string{"trying again", "slow down", "in a while"}},
	"refuses":      {reply: modeltest.Reply{Status: 400, Error: "unsupported parameter"}, code: "refused", says: []string{"unsupported parameter", "configuration"}},
	"has no model": {reply: modeltest.Reply{Status: 404, Error: "no such model"}, code: "not_found", says: []string{"no such model", "configuration"}},
	"hangs":        {reply: modeltest.Reply{Hang: true}, code: "timeout", says: []string{"stopped answering", "silence"}},
	"falls silent": {reply: modeltest.Reply{Text: "one two three", HangAt: 2}, code: "timeout", says: []string{`"one two"`, "stopped answering"}},
	"cuts":         {reply: modeltest.Reply{Pieces: []string{"It was a da", "rk"}, CutAt: 1}, code: "cut_off", says: []string{`"It was a da"`, "cut off", "ask again"}},
	"just ends":    {reply: modeltest.Reply{Text: "one two three", EndAt: 2}, code: "cut_off", says: []string{`"one two"`, "cut off"}},
	"raves":        {reply: modeltest.Reply{Text: "Hm.", Garbage: `{"choices":[{"delta":`}, code: "cut_off", says: []string{"cut off"}},
	"says nothing": {reply: modeltest.Reply{}, code: "empty_answer", says: []string{"ask again"}},
	"has no room":  {reply: modeltest.Reply{Status: 400, Error: "prompt is too long: maximum context length exceeded"}, code: "context_overflow", says: []string{"too long", "window"}},
	"finds no end": {reply: modeltest.Reply{Calls: []modeltest.Call{{ID: "c", Name: "kit__count", Args: `{"n":1}`}}}, code: "too_many_steps", says: []string{"counted 1", "counted 1", "max_steps"}},
	"invents":      {reply: modeltest.Reply{Calls: []modeltest.Call{{ID: "c", Name: "fly", Args: `{}`}}}, says: []string{"kit__count", "unknown_tool", fine}},
	"scribbles":    {reply: modeltest.Reply{Calls: []modeltest.Call{{ID: "c", Name: "kit__count", Args: `n=1, please`}}}, says: []string{"invalid_arguments", fine}, no: modeltest.Gemini},
	"breaks off":   {reply: modeltest.Reply{Calls: []modeltest.Call{{ID: "c", Name: "kit__count", Args: `{"n":1`}}}, says: []string{"invalid_arguments", fine}, no: modeltest.Gemini},
	"breaks tools": {reply: modeltest.Reply{Calls: []modeltest.Call{{ID: "c", Name: "frail__crash", Args: `{}`}}}, says: []string{"was lost during the call", "unknown_outcome", fine}},
}

// TestBadDaysOfEveryProvider: whatever a model, its endpoint or a tool does, with
// each of the four protocols the turn ends in a clear event, and the next message
// is answered.
func TestBadDaysOfEveryProvider(t *testing.T) {
	_, endpoint := scripted(t, func(r modeltest.Request) modeltest.Reply {
		name := r.LastUser()
		day, bad := badDays[name]
		if !bad || len(r.Results()) > 0 && day.code == "" {
			return modeltest.Reply{Text: fine}
		}
		return day.reply
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
			"     mcp: [{name: kit, command: [%q], env: &as {%s: \"1\"}, approval: never}, {name: frail, command: [%q], env: *as, approval: never}]}\n",
			name, name, base, exe, asToolServer, exe)
	}
	p := serve(t, t.TempDir(), "--config", configured(t, yaml.String()))
	var days sync.WaitGroup
	for _, name := range modeltest.Protocols {
		for day, d := range badDays {
			if d.no != name {
				days.Go(func() { d.happens(t, p, name, day) })
			}
		}
	}
	days.Wait()
}

// happens lets a bad day happen in a session of its own.
func (d badDay) happens(t *testing.T, p *process, agent, day string) {
	id := agent + "-" + strings.ReplaceAll(day, " ", "-")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, r := p.connect(""), newReader(id)
	if _, err := c.Create(ctx, client.NewSession{ID: chat.SessionID(id), Agent: agent}); err != nil {
		t.Errorf("%s %s: %v", agent, day, err)
		return
	}
	var watching sync.WaitGroup
	watching.Go(func() { _ = r.watchClient(ctx, c, chat.SessionID(id)) })
	defer watching.Wait()
	defer cancel()
	for n, text := range []string{day, "again"} {
		if _, err := c.Say(ctx, chat.SessionID(id), text); err != nil {
			t.Errorf("%s %s: %v", agent, day, err)
			return
		}
		e, err := r.until(ctx, nth("turn.completed", n+1))
		if err != nil {
			t.Errorf("%s %s: the message %q is not answered: %v", agent, day, text, err)
			return
		}
		end := e.Body.(chat.TurnCompleted)
		if n == 0 {
			d.check(t, agent+" "+day, r, end)
		} else if end.Outcome != chat.Done {
			t.Errorf("%s %s: the next message ended as %s: %s", agent, day, end.Outcome, end.Error)
		}
	}
}

// check looks at what there is to be seen of a bad day.
func (d badDay) check(t *testing.T, name string, r *reader, end chat.TurnCompleted) {
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
	if fault.Code != d.code || (d.code == "") != (end.Outcome == chat.Done) || end.Error != fault.Message {
		t.Errorf("%s: it ended with %q as %s:\n%s", name, fault.Code, end.Outcome, log.String())
	}
	rest := log.String()
	for _, says := range d.says {
		_, behind, ok := strings.Cut(rest, says)
		if !ok {
			t.Errorf("%s: %q is not in its place in\n%s", name, says, log.String())
			return
		}
		rest = behind
	}
}
