package model

import (
	sdk "github.com/openai/openai-go/v3"

	"github.com/parley-hq/parley/internal/json"
)

// chunk is a piece of an answer of Chat Completions. Most are a few letters of
// text and nothing else. Those are read without the SDK's own reading of JSON,
// which takes five times as long and fourteen times the memory: of a fast model's
// answer it would be nearly all the work.
type chunk struct{ sdk.ChatCompletionChunk }

// UnmarshalJSON reads a chunk.
func (c *chunk) UnmarshalJSON(b []byte) error {
	var p plainChunk
	if json.Unmarshal(b, &p) != nil || !p.plain() {
		return c.ChatCompletionChunk.UnmarshalJSON(b)
	}
	c.Model = p.Model
	c.Choices = make([]sdk.ChatCompletionChunkChoice, 1)
	c.Choices[0].Delta.Content = p.Choices[0].Delta.Content
	return nil
}

// plainChunk is a chunk that has text; what else counts in a chunk is only looked
// for.
type plainChunk struct {
	Model   string `json:"model"`
	Usage   given  `json:"usage"`
	Choices []struct {
		Index  int   `json:"index"`
		Finish given `json:"finish_reason"`
		Delta  struct {
			Content   string `json:"content"`
			Refusal   given  `json:"refusal"`
			Calls     given  `json:"tool_calls"`
			Thinking  given  `json:"reasoning_content"`
			Reasoning given  `json:"reasoning"`
		} `json:"delta"`
	} `json:"choices"`
}

func (p *plainChunk) plain() bool {
	if len(p.Choices) != 1 || bool(p.Usage) {
		return false
	}
	c := &p.Choices[0]
	d := &c.Delta
	return c.Index == 0 && !bool(c.Finish || d.Refusal || d.Calls || d.Thinking || d.Reasoning)
}

// given is true for a field that is there and not null.
type given bool

// UnmarshalJSON looks whether it is null.
func (g *given) UnmarshalJSON(b []byte) error {
	*g = string(b) != "null"
	return nil
}
