package llm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
)

// The result is within the budget, begins with the instructions, ends with the newest
// message and separates no call from its result.
func TestFit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ms := plainTalk(rt, noThoughts, false)
		for i := range ms {
			if rapid.IntRange(0, 5).Draw(rt, "long") == 0 && len(ms[i].ToolReturns) > 0 {
				ms[i].ToolReturns[0].Text = strings.Repeat("word ", 400)
			}
		}
		budget := rapid.IntRange(150, 2000).Draw(rt, "budget")
		before := dump(ms)
		fitted, dropped, err := Fit(ms, budget)
		if err != nil {
			rt.Fatal(err)
		}
		if n := Tokens(fitted); n > budget {
			rt.Fatalf("%d tokens for %d", n, budget)
		}
		if fitted[0].Role != System || len(fitted) < 2 || fitted[1].Role != User {
			rt.Fatalf("begins with %s", dump(fitted[:min(2, len(fitted))]))
		}
		if len(fitted)+len(dropped) != len(ms) {
			rt.Fatalf("%d kept, %d dropped of %d", len(fitted), len(dropped), len(ms))
		}
		if last := fitted[len(fitted)-1]; !bytes.Contains(dump(fitted), []byte("truncated")) && string(last.AppendJSON(nil)) != string(ms[len(ms)-1].AppendJSON(nil)) {
			rt.Fatal("the newest message is not there")
		}
		for _, m := range Repair(fitted) {
			for _, r := range m.ToolReturns {
				if strings.Contains(r.Text, "has no result") {
					rt.Fatalf("a call lost its result: %s", dump(fitted))
				}
			}
		}
		if string(before) != string(dump(ms)) {
			rt.Fatal("changed what it was given")
		}
	})
}

// A user message between a call and its result is no position to cut.
func TestFitKeepsCallsWhole(t *testing.T) {
	ms := []Message{
		{Role: User, Content: Texts("do it")},
		{Role: Assistant, Content: Texts(strings.Repeat("plan ", 100)), ToolCalls: []ToolCall{{ID: "c1", Name: "f", Arguments: "{}"}}},
		{Role: User, Content: Texts("hurry")},
		{Role: Tool, ToolReturns: []ToolReturn{{ToolCallID: "c1", Status: Success, Text: "r"}}},
		{Role: Assistant, Content: Texts("done")},
	}
	fitted, _, err := Fit(ms, 60)
	if err != nil || Tokens(fitted) > 60 {
		t.Fatalf("%v, %d tokens", err, Tokens(fitted))
	}
	if got := told(fitted); got != "user do it\nassistant done" {
		t.Errorf("kept\n%s", got)
	}
}

func TestFitSummaries(t *testing.T) {
	ms := []Message{{Role: System, Content: Texts("be kind")}}
	for i := range 50 {
		ms = append(ms, Message{Role: User, Content: Texts(fmt.Sprint("question ", i, strings.Repeat(" word", 50)))}, Message{Role: Assistant, Content: Texts(fmt.Sprint("answer ", i))})
	}
	fitted, dropped, err := Fit(ms, 1000)
	if err != nil || len(dropped) == 0 {
		t.Fatalf("%v, %d dropped", err, len(dropped))
	}
	if !strings.Contains(Plain(dropped), "user: question 0") || !strings.Contains(Plain(dropped), "assistant: answer 1") {
		t.Error(Plain(dropped))
	}
	summary := NewSummary("They asked many questions.", &Compaction{Trigger: "window", ContextWindow: 1000, MessagesBefore: len(ms), MessagesAfter: len(fitted)}, testTime)
	if summary.Role != Summary || UnpackSummary(summary.PlainText()) != "They asked many questions." || !strings.Contains(summary.PlainText(), `"messages_count_before": 101`) {
		t.Errorf("%s", dump([]Message{summary}))
	}
	// A summary after the instructions is kept.
	again, dropped, err := Fit(append([]Message{ms[0], summary}, ms[1:]...), 1000)
	if err != nil || again[1].Role != Summary || Tokens(again) > 1000 || len(dropped) == 0 || dropped[0].Role != User {
		t.Errorf("%v %s", err, told(again))
	}
	if _, _, err := Fit([]Message{{Role: System, Content: Texts(strings.Repeat("long ", 1000))}, ms[1]}, 100); chat.CodeOf(err) != chat.TooLarge {
		t.Errorf("instructions too long: %v", err)
	}
}

// A conversation with exactly as many tokens as allowed is kept whole; with one token
// less only the oldest exchange is omitted.
func TestFitAtTheBoundary(t *testing.T) {
	ms := []Message{{Role: System, Content: Texts("be kind")}}
	for i := range 4 {
		ms = append(ms, Message{Role: User, Content: Texts(fmt.Sprint("question ", i, strings.Repeat(" word", 10)))}, Message{Role: Assistant, Content: Texts(fmt.Sprint("answer ", i))})
	}
	for from := range 4 { // the number of omitted exchanges
		left := append(ms[:1:1], ms[1+2*from:]...)
		for budget := Tokens(left); budget < Tokens(left)+Tokens(ms[1:3]); budget++ {
			if budget > Tokens(ms) {
				break
			}
			fitted, dropped, err := Fit(ms, budget)
			if err != nil || told(fitted) != told(left) || len(dropped) != 2*from {
				t.Errorf("%d tokens: %v\n%s", budget, err, told(fitted))
			}
		}
	}
	// A short message after the instructions fits.
	little := []Message{ms[0], {Role: User, Content: Texts("hi")}}
	if fitted, _, err := Fit(little, Tokens(little)); err != nil || told(fitted) != told(little) {
		t.Errorf("%v %s", err, told(fitted))
	}
	if _, _, err := Fit(little, Tokens(little)-1); chat.CodeOf(err) != chat.TooLarge {
		t.Errorf("one less: %v", err)
	}
}

func TestTokens(t *testing.T) {
	for text, want := range map[string]int{"": 0, "word": 1, "four words are here": 5, "你好": 2} {
		if got := TextTokens(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if TextLimit(1000) != 5000 || TextLimit(100_000) != 80_000 {
		t.Error("the limit of one text")
	}
}
