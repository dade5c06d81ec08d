package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Approval says when a person is asked before a tool runs.
type Approval string

// The kinds of approval.
const (
	Never  Approval = "never"  // it runs at once
	Ask    Approval = "ask"    // a person is asked, unless somebody said yes for the session
	Always Approval = "always" // a person is asked each time
)

// Rule says how the calls of some tools are treated.
type Rule struct {
	Match      string        // name of the tools, * stands for any part of it
	Approval   Approval      // "" leaves it as it is
	When       []Condition   // the first that fits decides instead of Approval
	Repeatable *bool         // nil leaves it as it is
	Timeout    time.Duration // 0 leaves it as it is
	Risk       string        // shown with the question
	Scopes     []string      // permissions that a person must have granted
}

// Condition raises or lowers the need for approval of calls whose arguments fit.
type Condition struct {
	Args     map[string]string // argument (a.b for inner ones) → pattern; all must fit
	Approval Approval
}

// Treatment is how one call is treated.
type Treatment struct {
	Approval   Approval
	Repeatable bool
	Timeout    time.Duration // 0 means the agent's own
	Risk       string
	Scopes     []string
	Client     bool // whoever sent the message runs it
}

// Validate returns all that is wrong with a rule.
func (r *Rule) Validate() error {
	var errs []error
	if r.Match == "" {
		errs = append(errs, errors.New("match is missing: the name of a tool, such as files__write or files__*"))
	}
	errs = append(errs, r.Approval.check())
	for _, c := range r.When {
		if c.Approval == "" {
			errs = append(errs, errors.New("a condition needs approval: never, ask or always"))
		}
		errs = append(errs, c.Approval.check())
		if len(c.Args) == 0 {
			errs = append(errs, errors.New("a condition needs args: argument and pattern"))
		}
		for name, p := range c.Args {
			if re, ok := strings.CutPrefix(p, "re:"); ok {
				if _, err := regexp.Compile(re); err != nil {
					errs = append(errs, fmt.Errorf("the pattern of %s is no regular expression: %w", name, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

func (a Approval) check() error {
	switch a {
	case "", Never, Ask, Always:
		return nil
	}
	return fmt.Errorf("approval %q is not one of never, ask, always", string(a))
}

// Treat says how a call of a tool is treated. Of several rules that fit the
// tool, the first that speaks of a thing counts.
func Treat(t *Tool, rules []Rule, params json.RawMessage) Treatment {
	out := Treatment{Repeatable: t.Repeatable}
	known := false
	for i := range rules {
		r := &rules[i]
		if !glob(r.Match, t.Name) {
			continue
		}
		if out.Approval == "" {
			out.Approval = r.approval(params)
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
	if out.Approval == "" {
		out.Approval = t.Approval
	}
	if out.Approval == "" {
		out.Approval = Never
	}
	return out
}

var need = map[Approval]int{Never: 0, Ask: 1, Always: 2}

func (r *Rule) approval(params json.RawMessage) Approval {
	for _, c := range r.When {
		if c.fits(params, need[c.Approval] < need[r.Approval] || r.Approval == "") {
			return c.Approval
		}
	}
	return r.Approval
}

// fits reports whether all arguments are as the condition says; lowers says that
// it lowers the need for approval.
func (c *Condition) fits(params json.RawMessage, lowers bool) bool {
	for name, pattern := range c.Args {
		value, ok := argument(params, name)
		if !ok || !match(pattern, value, lowers) {
			return false
		}
	}
	return true
}

// argument is the text of an argument: what a string says, anything else as JSON.
func argument(params json.RawMessage, name string) (string, bool) {
	for _, key := range strings.Split(name, ".") {
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
		// The whole value has to fit, so that nothing can hide before or behind.
		compiled, err := regexp.Compile(`\A(?s:` + re + `)\z`)
		return err == nil && compiled.MatchString(value)
	}
	if lowers && climbs(value) {
		return false // a path that leaves the folder the pattern names
	}
	return glob(pattern, value)
}

// climbs reports whether a value is a path that goes up somewhere.
func climbs(value string) bool {
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

// glob reports whether s is like the pattern, in which * stands for anything.
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
