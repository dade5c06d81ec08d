package convert

import (
	"fmt"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/llm"
)

// Refused is the error of an item in a list that cannot be read.
func Refused(list string, i int, what string) error {
	at := fmt.Sprintf("%s[%d]", list, i)
	return chat.Errorf(chat.Invalid, "%s: %s", at, what).With("path", at)
}

// SaysError reports whether an answer begins as an error does that its provider
// has no mark for.
func SaysError(parts []llm.Part) bool { return strings.HasPrefix(llm.PlainText(parts), "Error: ") }

// AddReturn adds a tool's answer to the tool message at the end, or begins one.
func AddReturn(out []llm.Message, id, name string, parts []llm.Part, failed bool) []llm.Message {
	r := llm.ToolReturn{ToolCallID: id, Status: llm.Success}
	if CountImages(parts) > 0 {
		r.Parts = parts
	} else {
		r.Text = llm.PlainText(parts)
	}
	if _, wrapped, _ := llm.UnpackResult(r.Text); failed || wrapped {
		r.Status = llm.Failure
	}
	if n := len(out) - 1; n >= 0 && out[n].Role == llm.Tool {
		out[n].ToolReturns = append(out[n].ToolReturns, r)
		return out
	}
	return append(out, llm.Message{Role: llm.Tool, Name: name, ToolCallID: id, ToolReturns: []llm.ToolReturn{r}})
}
