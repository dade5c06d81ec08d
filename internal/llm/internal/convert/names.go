package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/parley-hq/parley/internal/llm"
)

// Names maps ids and tool names to names that a provider accepts. Different inputs get
// different names.
type Names struct {
	most  int
	begin bool // names must begin with a letter or _
	legal func(c byte) bool
	made  map[string]string
	taken map[string]bool
}

// NewNames returns Names of at most most bytes, made of letters, digits, _, - and the
// characters in extra. If extra is not empty, which is the case for Gemini, names
// begin with a letter or _.
func NewNames(most int, extra string) *Names {
	return &Names{most: most, begin: extra != "", made: map[string]string{}, taken: map[string]bool{}, legal: func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || strings.IndexByte(extra, c) >= 0
	}}
}

// Of returns the name for s; repeated calls return the same name.
func (n *Names) Of(s string) string {
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
	if n.begin && len(b) > 0 && b[0] != '_' && (b[0]|0x20 < 'a' || b[0]|0x20 > 'z') {
		b = append([]byte{'_'}, b...)
		fits = fits && len(b) <= n.most
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

// ToolNames returns Names in which the offered tools are registered first, so that
// they keep their names if possible.
func ToolNames(tools []llm.ToolSpec, most int, extra string) *Names {
	n := NewNames(most, extra)
	for _, t := range tools {
		n.Of(t.Name)
	}
	return n
}

// Original returns the tool's own name for a name that was sent to a provider.
func Original(tools []llm.ToolSpec, name string, most int, extra string) string {
	n := ToolNames(tools, most, extra)
	for _, t := range tools {
		if n.made[t.Name] == name {
			return t.Name
		}
	}
	return name
}
