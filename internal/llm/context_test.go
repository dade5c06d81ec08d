package llm

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/parley-hq/parley/chat"
)

// What fits is within the budget, newest last, begins with the instructions, and
// parts no call from its result.
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
		f, err := Fit(ms, budget)
		if err != nil {
			rt.Fatal(err)
		}
		if f.Tokens > budget || f.Tokens != Tokens(f.Messages) {
			rt.Fatalf("%d tokens for %d", f.Tokens, budget)
		}
		if f.Messages[0].Role != System || len(f.Messages) < 2 || f.Messages[1].Role != User {
			rt.Fatalf("begins with %s", dump(f.Messages[:min(2, len(f.Messages))]))
		}
		if len(f.Messages)+len(f.Dropped) != len(ms) {
			rt.Fatalf("%d kept, %d dropped of %d", len(f.Messages), len(f.Dropped), len(ms))
		}
		if last := f.Messages[len(f.Messages)-1]; !f.Cut && string(last.AppendJSON(nil)) != string(ms[len(ms)-1].AppendJSON(nil)) {
			rt.Fatal("the newest message is not there")
		}
		for _, m := range Repair(f.Messages) {
			for _, r := range m.ToolReturns {
				if strings.Contains(r.Text, "has no result") {
					rt.Fatalf("a call lost its result: %s", dump(f.Messages))
				}
			}
		}
		if string(before) != string(dump(ms)) {
			rt.Fatal("changed what it was given")
		}
	})
}

// A person speaks between a call and its result: the cut is not made there.
func TestFitKeepsCallsWhole(t *testing.T) {
	ms := []Message{
		{Role: User, Content: Texts("do it")},
		{Role: Assistant, Content: Texts(strings.Repeat("plan ", 100)), ToolCalls: []ToolCall{{ID: "c1", Name: "f", Arguments: "{}"}}},
		{Role: User, Content: Texts("hurry")},
		{Role: Tool, ToolReturns: []ToolReturn{{ToolCallID: "c1", Status: Success, Text: "r"}}},
		{Role: Assistant, Content: Texts("done")},
	}
	f, err := Fit(ms, 60)
	if err != nil || f.Tokens > 60 {
		t.Fatalf("%v, %d tokens", err, f.Tokens)
	}
	if got := told(f.Messages); got != "user do it\nassistant done" {
		t.Errorf("kept\n%s", got)
	}
}

func TestFitSummaries(t *testing.T) {
	ms := []Message{{Role: System, Content: Texts("be kind")}}
	for i := range 50 {
		ms = append(ms, Message{Role: User, Content: Texts(fmt.Sprint("question ", i, strings.Repeat(" word", 50)))}, Message{Role: Assistant, Content: Texts(fmt.Sprint("answer ", i))})
	}
	f, err := Fit(ms, 1000)
	if err != nil || len(f.Dropped) == 0 || f.Cut {
		t.Fatalf("%v, %d dropped", err, len(f.Dropped))
	}
	if !strings.Contains(Plain(f.Dropped), "user: question 0") || !strings.Contains(Plain(f.Dropped), "assistant: answer 1") {
		t.Error(Plain(f.Dropped))
	}
	summary := NewSummary("They asked many questions.", &Compaction{Trigger: "window", ContextWindow: 1000, MessagesBefore: len(ms), MessagesAfter: len(f.Messages)}, testTime)
	if summary.Role != Summary || UnpackSummary(summary.PlainText()) != "They asked many questions." || !strings.Contains(summary.PlainText(), `"messages_count_before": 101`) {
		t.Errorf("%s", dump([]Message{summary}))
	}
	// From then on the conversation begins with the summary.
	again, err := Fit(append(ms[:len(ms):len(ms)], summary, ms[1], ms[2]), 1000)
	if err != nil || told(again.Messages[2:]) != told(ms[1:3]) || again.Messages[1].Role != Summary || len(again.Dropped) != 0 {
		t.Errorf("%v %s", err, told(again.Messages))
	}
	if _, err := Fit([]Message{{Role: System, Content: Texts(strings.Repeat("long ", 1000))}, ms[1]}, 100); chat.CodeOf(err) != chat.TooLarge {
		t.Errorf("instructions too long: %v", err)
	}
}

// What has exactly as many tokens as there are is kept whole; with one less the
// oldest exchange goes, and no more than that.
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
			f, err := Fit(ms, budget)
			if err != nil || told(f.Messages) != told(left) || len(f.Dropped) != 2*from || f.Cut || f.Tokens != Tokens(left) {
				t.Errorf("%d tokens: %v\n%s", budget, err, told(f.Messages))
			}
		}
	}
	// Little beside the instructions is enough, if it is.
	little := []Message{ms[0], {Role: User, Content: Texts("hi")}}
	if f, err := Fit(little, Tokens(little)); err != nil || len(f.Messages) != 2 || f.Cut {
		t.Errorf("%v %s", err, told(f.Messages))
	}
	if _, err := Fit(little, Tokens(little)-1); chat.CodeOf(err) != chat.TooLarge {
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
