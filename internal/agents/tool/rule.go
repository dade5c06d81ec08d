package tool

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-hq/parley/internal/json"
)

// Approval determines whether a person is asked before a tool runs.
type Approval string

// The kinds of approval.
const (
	Never  Approval = "never"  // it runs without a question
	Ask    Approval = "ask"    // a person is asked, unless a person approved the tool for the session
	Always Approval = "always" // a person is asked each time
)

// Rule determines how the calls of some tools are treated. It is an entry of the
// configuration file.
type Rule struct {
	Match      string        `yaml:"match"`      // name of the tools; * matches any text
	Approval   Approval      `yaml:"approval"`   // "" does not change it
	When       []Condition   `yaml:"when"`       // the first that matches replaces Approval
	Repeatable *bool         `yaml:"repeatable"` // nil does not change it
	Timeout    time.Duration `yaml:"timeout"`    // 0 does not change it
	Risk       string        `yaml:"risk"`       // shown with the question
	Scopes     []string      `yaml:"permission"` // permissions that a person must have granted
}

// Condition sets the approval of calls whose arguments match.
type Condition struct {
	Args     map[string]string `yaml:"args"` // argument (a.b for inner ones) → pattern; all must match
	Approval Approval          `yaml:"approval"`
}

// Treatment is the result of all rules for one call.
type Treatment struct {
	Approval   Approval
	Repeatable bool
	Timeout    time.Duration // 0 means the agent's own
	Risk       string
	Scopes     []string
	Client     bool // the sender of the message executes it
}

// Problem is an error in a field of a rule.
type Problem struct {
	Field string // such as when[0].approval
	Msg   string
}

// Problems lists the errors in a rule.
func (r *Rule) Problems() []Problem {
	var out []Problem
	bad := func(field, format string, args ...any) {
		out = append(out, Problem{Field: field, Msg: fmt.Sprintf(format, args...)})
	}
	if r.Match == "" {
		bad("match", "it is missing: the name of a tool, such as files__write or files__*")
	}
	if !r.Approval.known() {
		bad("approval", "%q is not one of never, ask, always", r.Approval)
	}
	if r.Timeout < 0 {
		bad("timeout", "it cannot be negative")
	}
	for i, c := range r.When {
		at := fmt.Sprintf("when[%d].", i)
		switch {
		case c.Approval == "":
			bad(at+"approval", "it is missing: never, ask or always")
		case !c.Approval.known():
			bad(at+"approval", "%q is not one of never, ask, always", c.Approval)
		}
		if len(c.Args) == 0 {
			bad(at+"args", "it is missing: argument and pattern")
		}
		for _, name := range slices.Sorted(maps.Keys(c.Args)) {
			if re, ok := strings.CutPrefix(c.Args[name], "re:"); ok {
				if _, err := regexp.Compile(re); err != nil {
					bad(at+"args."+name, "it is no regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
				}
			}
		}
	}
	return out
}

func (a Approval) known() bool {
	switch a {
	case "", Never, Ask, Always:
		return true
	}
	return false
}

// Treat returns how a call of a tool is treated. For each setting, the first
// matching rule that sets it counts.
func Treat(t *Tool, rules []Rule, params json.RawMessage) Treatment {
	out := Treatment{Approval: approval(t, rules, params), Repeatable: t.Repeatable}
	known := false
	for i := range rules {
		r := &rules[i]
		if !glob(r.Match, t.Name) {
			continue
		}
		if r.Repeatable != nil && !known {
			out.Repeatable, known = *r.Repeatable, true
		}
		if out.Timeout == 0 {
			out.Timeout = r.Timeout
		}
		if out.Risk == "" {
			out.Risk = r.Risk
		}
		if out.Scopes == nil {
			out.Scopes = r.Scopes
		}
	}
	return out
}

var need = map[Approval]int{Never: 0, Ask: 1, Always: 2}

// approval returns the approval of the first matching rule that sets it. A
// condition lowers the need if it asks for less than the rule without it.
func approval(t *Tool, rules []Rule, params json.RawMessage) Approval {
	for i := range rules {
		r := &rules[i]
		if !glob(r.Match, t.Name) {
			continue
		}
		usual := r.Approval
		if usual == "" {
			usual = approval(t, rules[i+1:], params)
		}
		for _, c := range r.When {
			if c.matches(params, need[c.Approval] < need[usual]) {
				return c.Approval
			}
		}
		return usual
	}
	return cmp.Or(t.Approval, Never)
}

// matches reports whether all arguments match. lowers means that the condition
// lowers the need for approval.
func (c *Condition) matches(params json.RawMessage, lowers bool) bool {
	if lowers && Repeats(params, json.Fold) {
		return false // some tools do not distinguish the case of names
	}
	for name, pattern := range c.Args {
		value, ok := argument(params, name)
		if !ok || !match(pattern, value, lowers) {
			return false
		}
	}
	return true
}

// argument returns an argument as text: a string as it is, other values as JSON.
func argument(params json.RawMessage, name string) (string, bool) {
	for key := range strings.SplitSeq(name, ".") {
		var object map[string]json.RawMessage
		if json.Unmarshal(params, &object) == nil {
			v, ok := object[key]
			if !ok {
				return "", false
			}
			params = v
			continue
		}
		var list []json.RawMessage
		i, err := strconv.Atoi(key)
		if err != nil || json.Unmarshal(params, &list) != nil || i < 0 || i >= len(list) {
			return "", false
		}
		params = list[i]
	}
	var text string
	if json.Unmarshal(params, &text) == nil {
		return text, true
	}
	var out bytes.Buffer
	if json.Compact(&out, params) != nil {
		return "", false
	}
	return out.String(), true
}

func match(pattern, value string, lowers bool) bool {
	if re, ok := strings.CutPrefix(pattern, "re:"); ok {
		// The whole value has to match: nothing can hide before or after the match.
		compiled, err := regexp.Compile(`\A(?s:` + re + `)\z`)
		return err == nil && compiled.MatchString(value)
	}
	if lowers && goesUp(value) {
		return false // the path may leave the folder of the pattern
	}
	return glob(pattern, value)
}

// goesUp reports whether a value is a path with ".." in it.
func goesUp(value string) bool {
	slashed := strings.ReplaceAll(value, `\`, "/")
	if !strings.Contains(slashed, "..") {
		return false
	}
	for part := range strings.SplitSeq(slashed, "/") {
		if part == ".." {
			return true
		}
	}
	return path.Clean(slashed) != slashed && strings.Contains(path.Clean(slashed), "..")
}

// glob reports whether s matches the pattern, in which * matches any text.
func glob(pattern, s string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	if !strings.HasPrefix(s, first) {
		return false
	}
	s = s[len(first):]
	for {
		next, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(s, rest)
		}
		i := strings.Index(s, next)
		if i < 0 {
			return false
		}
		s, rest = s[i+len(next):], more
	}
}
