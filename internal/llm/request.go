package llm

import (
	"fmt"
	"unicode/utf8"

	"github.com/parley-hq/parley/internal/json"
)

// Request is what a model is asked, in no provider's words. The conversions
// repair the messages first (see Repair), so any list will do.
type Request struct {
	Model     string
	Messages  []Message
	Tools     []ToolSpec
	MaxTokens int    // of the answer; 0 means the provider's own limit, where there is one
	MaxText   int    // characters of one text; longer ones are cut and say so. 0 means no limit
	Effort    string // how much to think: low, medium, high; "" means the provider's own
}

// ToolSpec is a tool that a model may call.
type ToolSpec struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema of an object; empty means no parameters
}

// TextLimit is how many characters of one text fit a model whose context window
// has so many tokens.
func TextLimit(window int) int { return max(5000, window*4/5) }

// Cut shortens a text to MaxText characters; it then says how many are missing.
func (r *Request) Cut(text string) string {
	if r.MaxText <= 0 || len(text) <= r.MaxText || utf8.RuneCountInString(text) <= r.MaxText {
		return text
	}
	n := 0
	for i := range text {
		if n == r.MaxText {
			return fmt.Sprintf("%s... [truncated %d chars]", text[:i], utf8.RuneCountInString(text[i:]))
		}
		n++
	}
	return text
}
