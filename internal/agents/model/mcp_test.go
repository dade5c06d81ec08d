package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/modeltest"
)

// asServer makes the test program an MCP server on its input and output.
const asServer = "PARLEY_TEST_MCP_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		if err := mcpServer(nil).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

type numbers struct {
	A int `json:"a"`
	B int `json:"b"`
}

// mcpServer is an MCP server with tools for the tests; hold, if given, is waited
// for by the tool slow; versions are those of the protocol that it speaks.
func mcpServer(hold <-chan struct{}, versions ...string) *mcp.Server {
	opt := &mcp.ServerOptions{SupportedProtocolVersions: versions}
	if old := os.Getenv(asServer); old != "" && old != "newest" {
		opt.SupportedProtocolVersions = []string{old}
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, opt)
	mcp.AddTool(s, &mcp.Tool{Name: "add", Description: "Adds.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, func(_ context.Context, _ *mcp.CallToolRequest, in numbers) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(in.A + in.B)}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fail"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("it is out of order")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "crash"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		os.Exit(3)
		return nil, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "vanish"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		var both sync.WaitGroup
		both.Go(func() { _, _ = r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Still there?"}) }) // the server ignores the answer
		_, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Shall I go?"})
		if err == nil {
			os.Exit(3)
		}
		both.Wait()
		return nil, nil, err
	})
	mcp.AddTool(s, &mcp.Tool{Name: "picture"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "look"}, &mcp.ImageContent{MIMEType: "image/png", Data: []byte("PNG")}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "slow"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		for i := 1; i <= 3; i++ {
			p := &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i), Total: 3, Message: fmt.Sprint("part ", i)}
			if err := r.Session.NotifyProgress(ctx, p); err != nil {
				return nil, nil, err
			}
		}
		if hold != nil {
			select {
			case <-hold:
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done at last"}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "order"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		res, ok := r.Params.InputResponses["order"].(*mcp.ElicitResult)
		if !ok {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"order": &mcp.ElicitParams{Message: "Your order, please.", RequestedSchema: map[string]any{
				"type": "object", "required": []string{"dish", "seats", "tip"},
				"properties": map[string]any{
					"dish":  map[string]any{"type": "string", "enum": []string{"soup", "pie"}},
					"seats": map[string]any{"type": "integer", "minimum": 1},
					"tip":   map[string]any{"type": "number"},
					"late":  map[string]any{"type": "boolean"},
				},
			}}}}, nil, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(res.Action, " ", res.Content["dish"], " ", res.Content["seats"], " ", res.Content["tip"], " ", res.Content["late"])}}}, nil, nil
	})
	return s
}

// overHTTP serves it at an address.
func overHTTP(t *testing.T, hold <-chan struct{}) (*httptest.Server, *atomic.Int64) {
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return mcpServer(hold) }, nil)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Pass") != "open" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		asked.Add(1)
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server, &asked
}

func transports(t *testing.T) map[string]tool.ServerOptions {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server, _ := overHTTP(t, nil)
	return map[string]tool.ServerOptions{
		"stdio": {Name: "kit", Command: []string{exe}, Env: map[string]string{asServer: "newest"}, Approval: tool.Never},
		"older": {Name: "kit", Command: []string{exe}, Env: map[string]string{asServer: "2025-11-25"}, Approval: tool.Never},
		"http":  {Name: "kit", URL: server.URL, Headers: map[string]string{"X-Pass": "open"}, Approval: tool.Never},
	}
}

func TestMCP(t *testing.T) {
	for name, opt := range transports(t) {
		t.Run(name, func(t *testing.T) {
			w := newServer(t, model.Options{Servers: []*tool.Server{tool.NewServer(opt)}}, callThenSay(
				modeltest.Call{Name: "kit__add", Args: `{"a":2,"b":3}`}, modeltest.Call{Name: "kit__fail", Args: `{}`},
				modeltest.Call{Name: "kit__slow", Args: `{}`}, modeltest.Call{Name: "kit__picture", Args: `{}`},
				modeltest.Call{Name: "kit__add", Args: `{"a":"two"}`},
			))
			w.say("s-1", "work")
			if end := w.ended("s-1", 1); end.Outcome != chat.Done {
				t.Fatal(w.text("s-1"))
			}
			text := w.text("s-1")
			for _, want := range []string{`result kit__add "5"`, "error kit__fail failed: it is out of order", `result kit__slow "done at last"`, "agent.tool_progress",
				`result kit__picture [{"text":"look","type":"text"},{"source":{"data":"UE5H","media_type":"image/png","type":"base64"},"type":"image"}]`, "error kit__add failed:"} {
				if !strings.Contains(text, want) {
					t.Errorf("no %s in\n%s", want, text)
				}
			}
			for _, e := range w.log("s-1") {
				if b, ok := e.Body.(chat.AgentToolCall); ok && b.Repeatable != (b.Tool == "kit__add") {
					t.Errorf("%s is repeatable: %v", b.Tool, b.Repeatable)
				}
			}
			if err := w.agent.Health(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestElicitationBecomesPrompts(t *testing.T) {
	for name, opt := range transports(t) {
		t.Run(name, func(t *testing.T) {
			w := newServer(t, model.Options{Servers: []*tool.Server{tool.NewServer(opt)}, Timeout: time.Minute}, callThenSay(modeltest.Call{Name: "kit__order", Args: `{}`}))
			w.say("s-1", "order")
			w.answer("s-1", w.prompt("s-1", 1), chat.Answer{Values: []string{"pie"}})
			w.answer("s-1", w.prompt("s-1", 2), chat.Answer{Text: "none"}) // not a number: the prompt is repeated
			w.answer("s-1", w.prompt("s-1", 3), chat.Answer{Text: "4"})
			w.answer("s-1", w.prompt("s-1", 4), chat.Answer{Text: "NaN"}) // not a number in JSON either
			w.answer("s-1", w.prompt("s-1", 5), chat.Answer{Text: "1.5"})
			w.answer("s-1", w.prompt("s-1", 6), chat.Answer{Values: []string{"true"}})
			w.ended("s-1", 1)
			w.has("s-1", `result kit__order "accept pie 4 1.5 true"`, "final")

			w.say("s-2", "order")
			w.answer("s-2", w.prompt("s-2", 1), chat.Answer{Values: []string{"__decline"}})
			w.ended("s-2", 1)
			w.has("s-2", `result kit__order "decline`, "final")
		})
	}
}

// A server that dies during a call leaves a clear error, and the next call finds
// a new one.
func TestMCPServerCrashes(t *testing.T) {
	opt := transports(t)["stdio"]
	which := "kit__crash"
	w := newServer(t, model.Options{Servers: []*tool.Server{tool.NewServer(opt)}}, func(r modeltest.Request) modeltest.Reply {
		if strings.HasPrefix(r.LastUser(), "add") {
			return callThenSay(modeltest.Call{Name: "kit__add", Args: `{"a":1,"b":1}`})(r)
		}
		return callThenSay(modeltest.Call{Name: which, Args: `{}`})(r)
	})
	for n := 1; n <= 3; n++ {
		id := chat.SessionID(fmt.Sprint("s-", n))
		w.say(id, "crash")
		w.ended(id, 1)
		w.has(id, "error kit__crash unknown_outcome: the MCP server kit was lost during the call", "final", "turn done")
		w.say(id, "add")
		w.ended(id, 2)
		w.has(id, `result kit__add "2"`, "turn done")
	}
}

// A question of a server that dies is withdrawn, not left to people while the turn
// goes on.
func TestQuestionOfACrashedServer(t *testing.T) {
	ask, err := tool.Builtin("ask_user")
	if err != nil {
		t.Fatal(err)
	}
	opt := model.Options{Servers: []*tool.Server{tool.NewServer(transports(t)["older"])}, Tools: ask}
	w := newServer(t, opt, callThenSay(modeltest.Call{Name: "kit__vanish", Args: `{}`}, modeltest.Call{Name: "ask_user", Args: `{"question":"And you?"}`}))
	w.say("s-1", "go")
	w.prompt("s-1", 3)
	asked := map[string]string{}
	for _, e := range w.log("s-1") {
		if q, ok := e.Body.(chat.AgentInputRequest); ok {
			asked[q.Text] = q.RequestID
		}
	}
	w.answer("s-1", asked["Shall I go?"], chat.Answer{Values: []string{"accept"}})
	closed := w.until("s-1", "a closed prompt", func(e chat.Event) bool { return e.Type == "prompt.closed" }).Body.(chat.PromptClosed)
	if closed.RequestID != asked["Still there?"] || closed.Reason != chat.Withdrawn {
		t.Errorf("closed is %+v", closed)
	}
	w.answer("s-1", asked["And you?"], chat.Answer{Text: "fine"})
	w.ended("s-1", 1)
	w.has("s-1", "prompt.closed", "user.input_response", "final", "turn done")
	w.has("s-1", "error kit__vanish unknown_outcome", "final")
}

// What a server asked for a call that may not be repeated is withdrawn after a
// restart of the server: its answer would be for nobody. Other questions stay.
func TestQuestionOfALostCall(t *testing.T) {
	ask, err := tool.Builtin("ask_user")
	if err != nil {
		t.Fatal(err)
	}
	kit := func() []*tool.Server { return []*tool.Server{tool.NewServer(transports(t)["older"])} }
	w := newServer(t, model.Options{Servers: kit(), Tools: ask}, callThenSay(modeltest.Call{Name: "kit__vanish", Args: `{}`}, modeltest.Call{Name: "ask_user", Args: `{"question":"And you?"}`}))
	w.say("s-1", "go")
	w.prompt("s-1", 3)
	w.stop()
	w.opt.Servers = kit()
	w.start(0)
	w.until("s-1", "the end of the call", func(e chat.Event) bool { return e.Type == "agent.tool_error" })
	st, err := w.State(w.ctx(), ann, "s-1")
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Prompts) != 1 {
		t.Fatalf("%d questions are open in\n%s", len(st.Prompts), w.text("s-1"))
	}
	w.answer("s-1", st.Prompts[0].RequestID, chat.Answer{Text: "fine"})
	w.ended("s-1", 1)
	w.has("s-1", "prompt.closed", "prompt.closed", "error kit__vanish unknown_outcome", `result ask_user {"answered":true,"text":"fine"}`, "final", "turn done")
}

// A server behind HTTP that was restarted does not know the connection any more.
// It has not begun with the call, so every tool may be called again, on a new one.
func TestMCPServerIsRestarted(t *testing.T) {
	for name, forget := range map[string]http.HandlerFunc{
		"404": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such session", http.StatusNotFound) },
		"400": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such session", http.StatusBadRequest) },
		"404 in the protocol's form": func(w http.ResponseWriter, r *http.Request) {
			var request struct {
				ID json.RawMessage `json:"id"`
			}
			if err := json.NewDecoder(r.Body).Decode(&request); err != nil || request.ID == nil {
				request.ID = json.RawMessage("null")
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"Session not found"}}`, request.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked, unknown sync.Map // session ids in requests, and those unknown after the restart
			inner := mcpServer(nil, "2025-11-25")
			handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return inner }, nil)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				id := r.Header.Get("Mcp-Session-Id")
				if _, ok := unknown.Load(id); ok {
					forget(w, r)
					return
				}
				if id != "" {
					asked.Store(id, true)
				}
				handler.ServeHTTP(w, r)
			}))
			t.Cleanup(func() {
				server.Close()
				for session := range inner.Sessions() { // the sessions were not closed
					_ = session.Close()
				}
			})
			kit := tool.NewServer(tool.ServerOptions{Name: "kit", URL: server.URL, Approval: tool.Never})
			w := newServer(t, model.Options{Servers: []*tool.Server{kit}}, callThenSay(modeltest.Call{Name: "kit__picture", Args: `{}`}))
			w.say("s-1", "look")
			w.ended("s-1", 1)
			w.has("s-1", "result kit__picture", "turn done")
			asked.Range(func(id, _ any) bool { unknown.Store(id, true); return true })
			w.say("s-2", "look")
			w.ended("s-2", 1)
			w.has("s-2", "result kit__picture", "turn done")
			server.CloseClientConnections()
			server.Close()
			w.say("s-3", "look")
			w.ended("s-3", 1)
			w.has("s-3", "error kit__picture unavailable: the MCP server kit cannot be reached: no server listens at the address", "turn done")
		})
	}
}

func TestMCPServerIsNotThere(t *testing.T) {
	w := newServer(t, model.Options{Servers: []*tool.Server{
		tool.NewServer(tool.ServerOptions{Name: "ghost", Command: []string{"/nonexistent/program"}}),
		tool.NewServer(tool.ServerOptions{Name: "closed", URL: "http://127.0.0.1:1/mcp", Connect: 2 * time.Second}),
	}}, func(modeltest.Request) modeltest.Reply { return modeltest.Reply{Text: "I manage without."} })
	w.say("s-1", "hello")
	if end := w.ended("s-1", 1); end.Outcome != chat.Done {
		t.Fatal(w.text("s-1"))
	}
	w.has("s-1", "agent.status", "agent.status", `text "I manage without." final`)
	if err := w.agent.Health(); err == nil || !strings.Contains(err.Error(), "ghost") || !strings.Contains(err.Error(), "closed") {
		t.Errorf("health is %v", err)
	}
}

func TestAToolThatHangs(t *testing.T) {
	hold := make(chan struct{})
	server, _ := overHTTP(t, hold)
	t.Cleanup(func() { close(hold) })
	opt := tool.ServerOptions{Name: "kit", URL: server.URL, Headers: map[string]string{"X-Pass": "open"}, Approval: tool.Never}
	w := newServer(t, model.Options{Servers: []*tool.Server{tool.NewServer(opt)}, Rules: []tool.Rule{{Match: "kit__slow", Timeout: 100 * time.Millisecond}}},
		callThenSay(modeltest.Call{Name: "kit__slow", Args: `{}`}))
	w.say("s-1", "wait")
	w.ended("s-1", 1)
	w.has("s-1", "agent.tool_progress", "error kit__slow timeout: the tool gave no answer within 100ms", "final", "turn done")
}

// A stop reaches a tool, too.
func TestStopDuringATool(t *testing.T) {
	hold := make(chan struct{})
	server, _ := overHTTP(t, hold)
	t.Cleanup(func() { close(hold) })
	opt := tool.ServerOptions{Name: "kit", URL: server.URL, Headers: map[string]string{"X-Pass": "open"}, Approval: tool.Never}
	w := newServer(t, model.Options{Servers: []*tool.Server{tool.NewServer(opt)}}, callThenSay(modeltest.Call{Name: "kit__slow", Args: `{}`}))
	w.say("s-1", "wait")
	w.until("s-1", "progress", func(e chat.Event) bool {
		b, ok := e.Body.(chat.AgentToolProgress)
		return ok && b.Total == 3
	})
	if _, err := w.Stop(w.ctx(), ann, "s-1", "", ""); err != nil {
		t.Fatal(err)
	}
	if end := w.ended("s-1", 1); end.Outcome != chat.Stopped {
		t.Fatal(w.text("s-1"))
	}
}

// What the launcher of a server leaves behind ends with the agent.
func TestNothingIsLeftBehind(t *testing.T) {
	opt := transports(t)["stdio"]
	file := filepath.Join(t.TempDir(), "pid")
	opt.Command = []string{"sh", "-c", "sleep 600 & echo $! > " + file + "; exec " + opt.Command[0]}
	w := newServer(t, model.Options{Servers: []*tool.Server{tool.NewServer(opt)}}, callThenSay(modeltest.Call{Name: "kit__add", Args: `{"a":1,"b":1}`}))
	w.say("s-1", "add")
	w.ended("s-1", 1)
	w.has("s-1", `result kit__add "2"`)
	pid, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w.stop()
	for deadline := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) { // the kernel takes its time; the condition is what counts
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it still runs: %s", stat)
		}
	}
}
