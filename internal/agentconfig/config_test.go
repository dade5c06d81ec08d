package agentconfig

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/config"
)

// construct constructs the agents of a configuration.
func construct(text string) error {
	file, err := config.Parse("parley.yaml", []byte(text))
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range file.Agents {
		a, err := New(entry, &Env{Logger: slog.New(slog.DiscardHandler)})
		if errs = append(errs, err); err == nil {
			if c, ok := a.(interface{ Close() }); ok {
				c.Close()
			}
		}
	}
	return errors.Join(errs...)
}

// The example works as it is, with every commented line enabled, and so does the file in examples.
func TestExampleWorks(t *testing.T) {
	t.Setenv("SEARCH_TOKEN", "x")
	all := strings.NewReplacer("\n    # ", "\n    ", "\n# demo", "\ndemo").Replace(string(Example))
	for _, comment := range []string{"Built-in tools;", "workstreams, for", "Tools of MCP", "How single"} {
		all = strings.Replace(all, "    "+comment, "    # "+comment, 1)
	}
	examples, err := os.ReadFile("../../examples/parley.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"as it is": string(Example), "everything": all, "examples/parley.yaml": string(examples)} {
		if err := construct(text); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

func TestErrorsNameLineAndField(t *testing.T) {
	head := "agents:\n  - name: a\n    kind: model\n    model: m\n"
	for _, c := range []struct{ text, want string }{
		{"agents:\n  - name: a\n    kind: robot", `parley.yaml:3: agents[0].kind: "robot" is not one of `},
		{"agents:\n  - name: a\n    kind: model", "parley.yaml:2: agents[0].model: it is missing"},
		{head + "    provider: closedai", `parley.yaml:5: agents[0].provider: "closedai" is not one of openai`},
		{head + "    endpoint: localhost:11434", "parley.yaml:5: agents[0].endpoint: "},
		{head + "    key: sk-123", "parley.yaml:5: agents[0].key: there is no such field"},
		{head + "    key_env: A\n    key_file: b", "parley.yaml:6: agents[0].key_file: give key_env or key_file, not both"},
		{head + "    effort: huge", "parley.yaml:5: agents[0].effort: "},
		{head + "    window: -1", "parley.yaml:5: agents[0].window: it cannot be negative"},
		{head + "    silence: long", "parley.yaml:5: agents[0].silence: it should be a duration"},
		{head + "    headers: {X-Key: \"${PARLEY_TEST_NOT_SET}\"}", "parley.yaml:5: agents[0].headers.X-Key: the environment variable PARLEY_TEST_NOT_SET is not set"},
		{head + "    builtin: [ask_user, fly]", `parley.yaml:5: agents[0].builtin: "fly" is no built-in tool`},
		{head + "    mcp:\n      - name: a b\n        command: [x]", "parley.yaml:6: agents[0].mcp[0].name: "},
		{head + "    mcp:\n      - name: files", "parley.yaml:6: agents[0].mcp[0].command: give command (program and arguments) or url"},
		{head + "    mcp:\n      - name: files\n        command: [x]\n        url: http://x", "parley.yaml:8: agents[0].mcp[0].url: give command or url, not both"},
		{head + "    mcp:\n      - name: files\n        url: x", "parley.yaml:7: agents[0].mcp[0].url: "},
		{head + "    mcp:\n      - {name: f, command: [x]}\n      - {name: f, command: [y]}", `parley.yaml:7: agents[0].mcp[1].name: "f" is taken`},
		{head + "    mcp:\n      - name: files\n        command: [x]\n        approval: often", "parley.yaml:8: agents[0].mcp[0].approval: "},
		{head + "    tools:\n      - match: x\n        aproval: ask", "parley.yaml:7: agents[0].tools[0].aproval: there is no such field"},
		{head + "    tools:\n      - approval: ask", "parley.yaml:6: agents[0].tools[0].match: it is missing"},
		{head + "    tools:\n      - match: x\n        approval: ask\n        when:\n          - args: {path: x}\n            approval: seldom", "parley.yaml:10: agents[0].tools[0].when[0].approval: \"seldom\" is not one of"},
		{head + "    retries: -1", "parley.yaml:5: agents[0].retries: it cannot be negative"},
		{head + "    tool_timeout: -1s", "parley.yaml:5: agents[0].tool_timeout: it cannot be negative"},
		{head + "    approval_timeout: 1m\n    tool_timeout: 1x", "parley.yaml:6: agents[0].tool_timeout: it should be a duration"},
		{"agents:\n  - {name: a, kind: demo, model: x}", "parley.yaml:2: agents[0].model: there is no such field"},
	} {
		if err := construct(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n  gives %v\n  not   %s", c.text, err, c.want)
		}
	}
}
