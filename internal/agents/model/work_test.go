package model_test

import (
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/agents/model"
	"github.com/parley-hq/parley/internal/agents/tool"
	"github.com/parley-hq/parley/internal/modeltest"
)

// A model launches a workstream, continues, and receives its outcome.
func TestWorkstreams(t *testing.T) {
	tools, err := tool.Builtin("workstreams", "update_plan")
	if err != nil {
		t.Fatal(err)
	}
	w := newServer(t, model.Options{Tools: tools}, func(r modeltest.Request) modeltest.Reply {
		body := string(r.Body)
		switch {
		case strings.Contains(r.System, "one part of a larger task"):
			if !strings.Contains(r.System, `{"currency":"EUR"}`) || len(r.Tools) != 1 || r.LastUser() != "Find the price." || r.Model != "small" {
				t.Errorf("the child was asked %+v", r)
			}
			return modeltest.Reply{Text: "The price is 42."}
		case strings.Contains(body, "The price is 42."):
			return modeltest.Reply{Text: "It costs 42."}
		case len(r.Results()) > 0:
			return modeltest.Reply{Text: "I am looking it up."}
		}
		return modeltest.Reply{Calls: []modeltest.Call{
			{Name: "launch_workstream", Args: `{"id":"price","instruction":"Find the price.","context":{"currency":"EUR"},"allowed_tools":["update_plan"],"model":"small"}`},
			{Name: "workstream_status", Args: `{"workstream_id":"nobody"}`},
		}}
	})
	w.say("s-1", "What does it cost?")
	w.until("s-1", "answer", func(e chat.Event) bool {
		b, ok := e.Body.(chat.AgentText)
		return ok && b.Text == "It costs 42." && e.Workstream == ""
	})
	text := w.text("s-1")
	for _, want := range []string{"workstream.launched", "workstream.completed", `"state":"running"`, `error workstream_status invalid_arguments: this session has no workstream "nobody"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
