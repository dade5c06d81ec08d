package llm

import (
	"fmt"
	"unicode/utf8"

	"github.com/parley-hq/parley/internal/json"
)

// Request is a provider-independent request to a model. The conversions call Repair on
// the messages first, so the messages need not be valid for a provider.
type Request struct {
	Model     string
	Messages  []Message
	Tools     []ToolSpec
	MaxTokens int    // maximum tokens of the answer; 0 means the provider's limit
	MaxText   int    // maximum characters of one text; longer texts are cut with a note. 0 means no limit
	Effort    string // reasoning effort: low, medium, high; "" means the provider's default
}

// ToolSpec is a tool that a model may call.
type ToolSpec struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema of an object; empty means no parameters
}

// TextLimit returns the maximum characters of one text for a context window with that
// many tokens.
func TextLimit(window int) int { return max(5000, window*4/5) }

// Cut shortens a text to MaxText characters and appends how many were removed.
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
