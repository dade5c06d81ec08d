package aisdk

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// A result without a call id is the output of the oldest call of its tool that waits, whatever the ids of the calls are.
func TestResultWithoutAnIDEndsTheOldestCall(t *testing.T) {
	for name, ids := range map[string][]string{"with ids": {"call_9", "call_10", "call_2"}, "without ids": {"", "", ""}} {
		t.Run(name, func(t *testing.T) {
			l := &randomLog{}
			l.add(chat.TurnStarted{TurnID: testTurn, Trigger: 1, Agent: "demo"}, "", testTurn)
			for _, id := range ids {
				l.add(chat.AgentToolCall{CallID: id, Tool: "weather"}, "", testTurn)
				l.add(chat.AgentToolCall{CallID: "x" + id, Tool: "clock"}, "", testTurn)
			}
			for _, result := range []string{`1`, `2`, `3`} {
				l.add(chat.AgentToolResult{Tool: "weather", Result: json.RawMessage(result)}, "", testTurn)
			}
			r := newRun(false)
			var called, ended []string
			for i := range l.entries {
				for _, a := range r.take(&l.entries[i]) {
					for _, c := range a.chunks {
						switch {
						case c.Type == chunkToolInput && c.Tool == "weather":
							called = append(called, c.Call)
						case c.Type == chunkToolOutput:
							ended = append(ended, c.Call)
						}
					}
				}
			}
			if len(called) != 3 || !slices.Equal(called, ended) {
				t.Errorf("the calls are %v, their results come for %v", called, ended)
			}
		})
	}
}
