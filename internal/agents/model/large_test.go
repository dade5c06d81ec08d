package model_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/modeltest"
)

// Whatever a tool gives, it fits an event: the turn goes on, and the model has
// what there is room for.
func TestLargeResults(t *testing.T) {
	wild := strings.Repeat("\x01", 200_000) // six times as long in JSON
	text := func(s string) mcp.Content { return &mcp.TextContent{Text: s} }
	picture := &mcp.ImageContent{MIMEType: "image/png", Data: make([]byte, 290<<10)}
	for name, result := range map[string]*mcp.CallToolResult{
		"plain":    {Content: []mcp.Content{text(strings.Repeat("x", 400_000))}},
		"wild":     {Content: []mcp.Content{text(wild)}},
		"error":    {Content: []mcp.Content{text(wild)}, IsError: true},
		"pictures": {Content: []mcp.Content{text(strings.Repeat("é", 200_000)), picture, text(strings.Repeat("\n", 200_000)), text(wild), picture}},
		"object":   {Content: []mcp.Content{text("[bytes more were left out]")}, StructuredContent: map[string]any{"a": wild}},
	} {
		t.Run(name, func(t *testing.T) {
			inner := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
			inner.AddTool(&mcp.Tool{Name: "give", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return result, nil
			})
			server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return inner }, &mcp.StreamableHTTPOptions{Stateless: true}))
			t.Cleanup(server.Close)
			kit := tool.NewServer(tool.ServerOptions{Name: "kit", URL: server.URL, Approval: tool.Never})
			w := newServer(t, model.Options{Servers: []*tool.Server{kit}}, func(r modeltest.Request) modeltest.Reply {
				if len(r.Results()) > 0 {
					return modeltest.Reply{Text: "That was much."}
				}
				return modeltest.Reply{Calls: []modeltest.Call{{Name: "kit__give", Args: `{}`}}}
			})
			w.say("s-1", "all of it")
			if end := w.ended("s-1", 1); end.Outcome != chat.Done {
				t.Fatal(end)
			}
			for _, e := range w.log("s-1") {
				var got string
				switch b := e.Body.(type) {
				case chat.AgentToolResult:
					got = string(b.Result)
				case chat.AgentToolError:
					got = b.Error
				default:
					continue
				}
				if (e.Type == "agent.tool_error") != (name == "error") || !strings.Contains(got, "bytes more were left out]") {
					t.Errorf("%s: %.200s", e.Type, got)
				}
			}
		})
	}
}
