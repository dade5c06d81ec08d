package llm

import (
	"fmt"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// longLog has n events: turns with thinking, a tool and an answer.
func longLog(n int) *script {
	s := newScript()
	for i := 0; len(s.events) < n; i++ {
		s.user(fmt.Sprint("question ", i, ": what is the price of item ", i, "?"))
		s.agent(chat.AgentThinking{Text: "I should look that up.", Signature: "c2lnbmF0dXJl"})
		s.agent(chat.AgentToolCall{CallID: fmt.Sprint("call-", i), Tool: "price", Params: raw(fmt.Sprintf(`{"item":%d}`, i))})
		s.agent(chat.AgentToolResult{CallID: fmt.Sprint("call-", i), Tool: "price", Result: raw(fmt.Sprintf(`{"price":%d,"currency":"EUR"}`, i))})
		s.agent(chat.AgentText{Text: fmt.Sprint("It costs ", i, " euros."), Final: true})
		s.agent(chat.AgentUsage{Model: "m", Usage: chat.Usage{InputTokens: 10, OutputTokens: 3}})
		s.done()
	}
	return s
}

// 100 000 events to messages; the aim is 300 ms.
func BenchmarkFold100k(b *testing.B) {
	s := longLog(100_000)
	b.ReportAllocs()
	for b.Loop() {
		if len(foldAll(s.events, Options{})) < 40_000 {
			b.Fatal("too few messages")
		}
	}
}

// The last 1000 messages of a log of 100 000 events, reading included.
func BenchmarkListLast1000(b *testing.B) {
	s := longLog(100_000)
	b.ReportAllocs()
	for b.Loop() {
		p, err := List(b.Context(), s, Query{Limit: 1000, Desc: true})
		if err != nil || len(p.Messages) != 1000 {
			b.Fatal(len(p.Messages), err)
		}
	}
}

func BenchmarkEncode1000(b *testing.B) {
	ms := foldAll(longLog(2500).events, Options{})[:1000]
	b.ReportAllocs()
	for b.Loop() {
		var out []byte
		for i := range ms {
			out = ms[i].AppendJSON(out)
		}
	}
}
