package llm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
)

// Request is what a model is asked, in no provider's words. The conversions
// repair the messages first (see Repair), so any list will do.
type Request struct {
	Model     string
	Messages  []Message
	Tools     []ToolSpec
	MaxTokens int // of the answer; 0 means the provider's own limit, where there is one
	MaxText   int // characters of one text; longer ones are cut and say so. 0 means no limit
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

// Stop says why a model stopped.
type Stop string

// The reasons.
const (
	StopEnd     Stop = "stop"
	StopLength  Stop = "length" // there would have been more
	StopCalls   Stop = "tool_calls"
	StopFilter  Stop = "content_filter"
	StopFailure Stop = "error"
)

// Answer is what a model gave.
type Answer struct {
	Message Message // of role assistant
	Stop    Stop
	Usage   chat.Usage // InputTokens counts all of the prompt, cached parts included
}

// Meta is what an answer's message is to carry that the provider does not know.
type Meta struct {
	Model string     // as it was asked for; "" means as the provider names it
	Tools []ToolSpec // as they were offered, to find their own names again
}

// errEmpty is the error of an answer in which nothing is said.
func errEmpty(s Stop) error {
	return chat.Errorf(chat.Unavailable, "the model gave an empty answer (it stopped because of: %s); ask again", s).With("stop", string(s))
}

// checked finishes an answer.
func checked(a Answer) (Answer, error) {
	m := &a.Message
	m.Role = Assistant
	if m.Content == nil {
		m.Content = []Part{}
	}
	if len(m.ToolCalls) > 0 && (a.Stop == StopEnd || a.Stop == "") {
		a.Stop = StopCalls
	}
	if a.Stop == "" {
		a.Stop = StopEnd
	}
	if len(m.Content) == 0 && len(m.ToolCalls) == 0 {
		return a, errEmpty(a.Stop)
	}
	return a, nil
}

// sameModel reports whether reasoning of m may be given to the model: a foreign
// one cannot read it, and some refuse it.
func (r *Request) sameModel(m *Message) bool { return m.Model != "" && m.Model == r.Model }

// split takes the system messages at the beginning apart from the rest.
func split(messages []Message) (system []string, rest []Message) {
	for i := range messages {
		if messages[i].Role != System {
			return system, messages[i:]
		}
		if text := messages[i].PlainText(); strings.TrimSpace(text) != "" {
			system = append(system, text)
		}
	}
	return system, nil
}

// event is how something that nobody in the conversation said is told to
// providers that know only two sides.
func event(text string) string { return "<event>SYSTEM ALERT: " + text + "</event>" }

// cut shortens a text to the limit.
func (r *Request) cut(text string) string {
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

// outcome is a tool's answer as text for providers that cannot mark an error.
func (r *Request) outcome(t *ToolReturn) string {
	text := t.plain()
	if n := countImages(t.Parts); n > 0 {
		text = strings.TrimSpace(text + " " + omitted(n))
	}
	if _, _, wrapped := UnpackResult(text); t.Status == Failure && !wrapped && !strings.HasPrefix(text, "Error") {
		text = "Error: " + text
	}
	return r.cut(text)
}

func countImages(parts []Part) (n int) {
	for _, p := range parts {
		if _, ok := p.(*Image); ok {
			n++
		}
	}
	return n
}

func omitted(n int) string {
	if n == 1 {
		return "[Image omitted]"
	}
	return fmt.Sprintf("[%d images omitted]", n)
}

// picture is an image that can be sent: a URL, or data with its type. ok is
// false for one whose data is not there.
func picture(s ImageSource) (url, mediaType, data string, ok bool) {
	switch {
	case s.Type == SourceURL:
		if mt, d, isData := cutDataURL(s.URL); isData {
			return "", mt, d, d != ""
		}
		return s.URL, "", "", strings.HasPrefix(s.URL, "https://") || strings.HasPrefix(s.URL, "http://")
	case s.Data == "":
		return "", "", "", false
	case s.MediaType == "":
		return "", "image/jpeg", s.Data, true
	}
	return "", s.MediaType, s.Data, true
}

// missingImage stands for a picture that cannot be sent.
func missingImage(s ImageSource) string {
	if s.FileID != "" {
		return "[Image omitted: " + s.FileID + "]"
	}
	return "[Image omitted]"
}

// names maps ids and tool names to what a provider takes, two different ones
// always to two different ones.
type names struct {
	most  int
	legal func(c byte) bool
	made  map[string]string
	taken map[string]bool
}

func newNames(most int, extra string) *names {
	return &names{most: most, made: map[string]string{}, taken: map[string]bool{}, legal: func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || strings.IndexByte(extra, c) >= 0
	}}
}

func (n *names) of(s string) string {
	if made, ok := n.made[s]; ok {
		return made
	}
	b := []byte(s)
	fits := len(b) > 0 && len(b) <= n.most
	for i, c := range b {
		if !n.legal(c) {
			b[i], fits = '_', false
		}
	}
	made := string(b)
	for try := 0; !fits || n.taken[made]; try++ {
		sum := sha256.Sum256(fmt.Append(nil, s, try))
		tail := "_" + hex.EncodeToString(sum[:4])
		made = string(b[:min(len(b), n.most-len(tail))]) + tail
		fits = true
	}
	n.made[s], n.taken[made] = made, true
	return made
}

// toolNames prepares the names of tools: those that are offered first, so that
// they keep theirs if they can.
func toolNames(tools []ToolSpec, most int, extra string) *names {
	n := newNames(most, extra)
	for _, t := range tools {
		n.of(t.Name)
	}
	return n
}

// original is the name of a tool that a provider was told of under another one.
func (m *Meta) original(name string, most int, extra string) string {
	n := toolNames(m.Tools, most, extra)
	for _, t := range m.Tools {
		if n.made[t.Name] == name {
			return t.Name
		}
	}
	return name
}

// settled is a call's arguments as they are kept: JSON, where there is a way to
// read it as such.
func settled(arguments string) string {
	text := strings.TrimSpace(arguments)
	if text == "" {
		return "{}"
	}
	if json.Valid([]byte(text)) {
		return text
	}
	if fixed, ok := asObject(complete(text)); ok {
		return string(fixed)
	}
	return arguments
}

// parameters is a tool's schema as a map.
func (t *ToolSpec) parameters() map[string]any {
	var schema map[string]any
	if len(t.Parameters) > 0 && json.Unmarshal(t.Parameters, &schema) == nil && schema != nil {
		if _, ok := schema["type"]; !ok {
			schema["type"] = "object"
		}
		return schema
	}
	return map[string]any{"type": "object", "properties": map[string]any{}}
}

// blank reports whether a text says nothing.
func blank(s string) bool { return strings.TrimSpace(s) == "" }
