package llm_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/parley-hq/parley/internal/llm"
	"github.com/parley-hq/parley/internal/llm/anthropic"
	"github.com/parley-hq/parley/internal/llm/gemini"
	"github.com/parley-hq/parley/internal/llm/openai"
)

var update = flag.Bool("update", false, "rewrite testdata/rules.json; read the difference")

// rule has messages and the JSON that each provider must get.
type rule struct {
	Rule string          `json:"rule"`
	In   json.RawMessage `json:"in"`

	Chat      json.RawMessage `json:"chat"`
	Responses json.RawMessage `json:"responses"`
	Anthropic json.RawMessage `json:"anthropic"`
	Gemini    json.RawMessage `json:"gemini"`
}

func compact(b json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		panic(err)
	}
	return out.String()
}

// The rules for all providers. Those for one provider are in its own test file. -update
// rewrites the file.
func TestRulesOfAllProviders(t *testing.T) {
	const file = "testdata/rules.json"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rules []rule
	if err := json.Unmarshal(b, &rules); err != nil {
		t.Fatal(err)
	}
	for i := range rules {
		c := &rules[i]
		t.Run(c.Rule, func(t *testing.T) {
			ms := decodeMessages(t, c.In)
			before := llm.Dump(ms)
			r := llm.Request{Model: "m", Messages: ms}
			for _, p := range []struct {
				name string
				out  any
				want *json.RawMessage
			}{
				{"chat", openai.Chat(r).Messages, &c.Chat}, {"responses", openai.Responses(r).Input, &c.Responses},
				{"anthropic", anthropic.Messages(r).Messages, &c.Anthropic}, {"gemini", gemini.Contents(r).Contents, &c.Gemini},
			} {
				got, err := json.Marshal(p.out)
				if err != nil {
					t.Fatal(err)
				}
				if *update {
					*p.want = got
					continue
				}
				t.Run(p.name, func(t *testing.T) { equalJSON(t, *p.want, got) })
				if err := checkers[p.name](r); err != nil {
					t.Errorf("%s would refuse it: %v", p.name, err)
				}
			}
			if !bytes.Equal(before, llm.Dump(ms)) {
				t.Error("what was given has changed")
			}
		})
	}
	if !*update {
		return
	}
	var out bytes.Buffer // one line per form, for readable differences
	for i, c := range rules {
		fmt.Fprintf(&out, "%s{\"rule\": %q,\n \"in\": %s,\n \"chat\": %s,\n \"responses\": %s,\n \"anthropic\": %s,\n \"gemini\": %s}",
			[]string{"[\n", ",\n"}[min(i, 1)], c.Rule, compact(c.In), c.Chat, c.Responses, c.Anthropic, c.Gemini)
	}
	out.WriteString("\n]\n")
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
