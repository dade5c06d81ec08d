package tool_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-hq/parley/internal/agents/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTreat(t *testing.T) {
	yes, no := true, false
	rules := []tool.Rule{
		{Match: "files__write", Approval: tool.Ask, Risk: "changes files", When: []tool.Condition{
			{Args: map[string]string{"path": "/tmp/*"}, Approval: tool.Never},
			{Args: map[string]string{"path": "*.env"}, Approval: tool.Always},
			{Args: map[string]string{"opt.force": "true", "opt.tags.0": "re:a|b"}, Approval: tool.Always},
		}},
		{Match: "files__*", Repeatable: &yes, Timeout: time.Second, Approval: tool.Never},
		{Match: "*", Repeatable: &no, Timeout: time.Hour, Scopes: []string{"s"}},
	}
	for _, c := range []struct {
		tool, params string
		want         tool.Approval
	}{
		{"files__write", `{"path":"/home/x"}`, tool.Ask},
		{"files__write", `{"path":"/tmp/x"}`, tool.Never},
		{"files__write", `{"path":"/tmp/../etc/passwd"}`, tool.Ask}, // goes up
		{"files__write", `{"path":"/tmp/a/..\\..\\x"}`, tool.Ask},
		{"files__write", `{"path":"/tmp/a..b"}`, tool.Never},
		{"files__write", `{"path":"/app/../.env"}`, tool.Always}, // raising needs no care
		{"files__write", `{"opt":{"force":true,"tags":["b"]}}`, tool.Always},
		{"files__write", `{"opt":{"force":true,"tags":["bc"]}}`, tool.Ask}, // the whole value has to fit
		{"files__write", `{"opt":{"force":true}}`, tool.Ask},
		{"files__write", `{"path":"/home/x","path":"/tmp/x"}`, tool.Ask},
		{"files__write", `{"path":"/tmp/x","Path":"/home/x"}`, tool.Ask}, // some tools do not distinguish the case
		{"files__write", `{"path":"/tmp/x","to":{"is":1,"i\u017f":2}}`, tool.Ask},
		{"files__write", `{"path":"/tmp/x","to":{"ΣΑΣ":1,"σας":2}}`, tool.Ask},
		{"files__write", `{"path":"/tmp/x","rows":[{"a":1},{"a":2}]}`, tool.Never},
		{"files__write", `{}`, tool.Ask},
		{"files__write", `nonsense`, tool.Ask},
		{"files__read", `{}`, tool.Never},
		{"other", `{}`, tool.Always},
	} {
		got := tool.Treat(&tool.Tool{Name: c.tool, Approval: tool.Always}, rules, json.RawMessage(c.params))
		if got.Approval != c.want {
			t.Errorf("%s %s: %s, not %s", c.tool, c.params, got.Approval, c.want)
		}
		if files := strings.HasPrefix(c.tool, "files"); got.Repeatable != files || (got.Timeout == time.Second) != files || len(got.Scopes) != 1 {
			t.Errorf("%s: %+v", c.tool, got)
		}
	}
	// A rule that leaves the approval as it is can still raise it, whatever the path looks like.
	raise := []tool.Rule{{Match: "*", When: []tool.Condition{{Args: map[string]string{"path": "*.env"}, Approval: tool.Ask}}}, {Match: "risky", Approval: tool.Always}}
	for name, want := range map[string]tool.Approval{"plain": tool.Ask, "risky": tool.Always} {
		if got := tool.Treat(&tool.Tool{Name: name}, raise, json.RawMessage(`{"path":"a/../.env"}`)); got.Approval != want {
			t.Errorf("%s: %s, not %s", name, got.Approval, want)
		}
	}
	if got := tool.Treat(&tool.Tool{Name: "x", Repeatable: true}, nil, nil); got.Approval != tool.Never || !got.Repeatable {
		t.Errorf("%+v", got)
	}
}

func TestRulesAreChecked(t *testing.T) {
	fine := tool.Condition{Args: map[string]string{"a": "b"}, Approval: tool.Ask}
	for field, r := range map[string]tool.Rule{
		"match":            {},
		"approval":         {Match: "x", Approval: "perhaps"},
		"timeout":          {Match: "x", Timeout: -1},
		"when[0].args":     {Match: "x", When: []tool.Condition{{Approval: tool.Ask}}},
		"when[1].approval": {Match: "x", When: []tool.Condition{fine, {Args: map[string]string{"a": "b"}}}},
		"when[1].args.a":   {Match: "x", When: []tool.Condition{fine, {Args: map[string]string{"a": "re:("}, Approval: tool.Ask}}},
	} {
		if p := r.Problems(); len(p) != 1 || p[0].Field != field {
			t.Errorf("%+v: %v, not %s", r, p, field)
		}
	}
	if p := (&tool.Rule{Match: "a__*", Approval: tool.Ask, When: []tool.Condition{{Args: map[string]string{"a": "re:x+"}, Approval: tool.Never}}}).Problems(); len(p) != 0 {
		t.Error(p)
	}
}

func TestBuiltinNames(t *testing.T) {
	_, err := tool.Builtin("ask_user", "fly")
	if err == nil || !strings.Contains(err.Error(), "update_plan") {
		t.Fatal(err)
	}
	_, names, _ := strings.Cut(err.Error(), "there are ")
	tools, err := tool.Builtin()
	if err != nil || len(tools) != 4 {
		t.Fatal(tools, err)
	}
	all, err := tool.Builtin(strings.Split(names, ", ")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		if !json.Valid(b.Parameters) || b.Description == "" {
			t.Errorf("%s: %s", b.Name, b.Parameters)
		}
	}
}

func TestRepeats(t *testing.T) {
	for params, want := range map[string]bool{
		`{"a":1,"a":2}`:                                           true,
		`{"a":1,"\u0061":2}`:                                      true,
		`{"x":[1,{"b":{"a":"b","c":0,"a":null}}]}`:                true,
		`{"a":{"a":["a","a"]},"b":"a","c":[{"a":1},{"a":{}},[]]}`: false,
		`{"a":1,"A":2}`:                                           false,
		`["a","a"]`:                                               false,
		`"a"`:                                                     false,
		`{"a":1,"b"`:                                              false,
		`{"a":{},"b":[],"a":1}`:                                   true,
	} {
		if got := tool.Repeats(json.RawMessage(params), func(name string) string { return name }); got != want {
			t.Errorf("%s: %t", params, got)
		}
	}
}
