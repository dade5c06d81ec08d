package parley_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/parley-hq/parley"

// rule says what the files of a folder may import beside the standard library.
type rule struct {
	folder string   // the longest one that matches counts; * stands for one name
	own    []string // folders of this module; * is all of them
	libs   []string // modules of others, or parts of them; * is all of them
}

// rules say which folder may import which. Imports point towards chat; the folders in the middle do not import each
// other, cmd/parley connects them.
var rules = []rule{
	{folder: "."},
	{folder: "chat"},
	{folder: "internal/core", own: []string{"chat"}}, // what the parts of the server exchange
	{folder: "internal/sealed"},                      // small files with a checksum

	{folder: "internal/sse"},
	{folder: "internal/text"},
	{folder: "internal/aguiwire", own: []string{"chat"}},
	{folder: "internal/jsonpatch", own: []string{"chat"}, libs: []string{"github.com/evanphx/json-patch"}},
	{folder: "internal/attachment", own: []string{"chat"}},
	{folder: "internal/edge", own: []string{"chat", "internal/core", "internal/wire", "internal/text"}},
	{folder: "internal/wire", libs: []string{"github.com/coder/websocket", "github.com/gobwas/ws", "github.com/klauspost/compress"}},
	{folder: "internal/bus", libs: []string{"github.com/nats-io/nats-server", "github.com/nats-io/nats.go"}},

	// A provider's SDK is large; only its own folder may link it.
	{folder: "internal/llm", own: []string{"chat"}},
	{folder: "internal/llm/internal/convert", own: []string{"chat", "internal/llm"}},
	{folder: "internal/llm/openai", own: []string{"chat", "internal/llm", "internal/llm/internal/convert"}},
	{folder: "internal/llm/anthropic", own: []string{"chat", "internal/llm", "internal/llm/internal/convert"}},
	{folder: "internal/llm/gemini", own: []string{"chat", "internal/llm", "internal/llm/internal/convert"}},
	{folder: "internal/config", own: []string{"chat"}, libs: []string{"github.com/goccy/go-yaml"}},
	{folder: "internal/workstream", own: []string{"chat"}},
	{folder: "internal/auth", own: []string{"chat"}, libs: []string{"github.com/golang-jwt/jwt", "github.com/MicahParks/keyfunc", "github.com/MicahParks/jwkset", "golang.org/x/time"}},

	{folder: "internal/retry", own: []string{"chat"}},
	{folder: "internal/audit", own: []string{"chat"}},

	{folder: "internal/journal", own: []string{"chat", "internal/core", "internal/fields", "internal/journal/pebblelog", "internal/sealed"}, libs: []string{"github.com/cockroachdb/pebble"}},
	{folder: "internal/journal/pebblelog"}, // reads the log format of one version of Pebble
	{folder: "internal/artifact", own: []string{"chat", "internal/core", "internal/sealed"}},
	{folder: "internal/artifact/s3", own: []string{"chat", "internal/artifact"}, libs: []string{"github.com/aws/aws-sdk-go-v2/aws"}},
	{folder: "internal/artifact/s3/s3test"}, // a service that fails on request, for tests

	{folder: "internal/hub", own: []string{"chat", "internal/core"}},
	{folder: "internal/session", own: []string{"chat", "internal/core", "internal/attachment", "internal/workstream"}, libs: []string{"github.com/oklog/ulid"}},
	{folder: "agent", own: []string{"chat"}},
	{folder: "internal/agentpool", own: []string{"chat", "internal/core", "agent"}, libs: []string{"go.opentelemetry.io/otel", "-go.opentelemetry.io/otel/sdk", "-go.opentelemetry.io/otel/exporters"}},
	{folder: "internal/agents/demo", own: []string{"chat", "agent"}},
	{folder: "internal/agents/httpagent", own: []string{"chat", "agent", "internal/aguiwire", "internal/jsonpatch", "internal/llm/openai", "internal/retry", "internal/sse", "internal/text"}, libs: []string{"github.com/coder/websocket"}},
	{folder: "internal/agents/tool", own: []string{"chat", "agent"}, libs: []string{"github.com/modelcontextprotocol/go-sdk"}},
	{folder: "internal/agents/model", own: []string{"chat", "agent", "internal/agents/tool", "internal/retry", "internal/sse", "internal/llm", "internal/llm/openai", "internal/llm/anthropic", "internal/llm/gemini"}, libs: []string{"github.com/modelcontextprotocol/go-sdk"}},

	{folder: "internal/agents/replay", own: []string{"chat", "agent", "client"}},
	{folder: "internal/agentconfig", own: []string{"chat", "agent", "internal/agents/demo", "internal/agents/httpagent", "internal/agents/model", "internal/agents/tool", "internal/config"}},
	{folder: "internal/agentfleet", own: []string{"agent", "internal/agents/demo", "internal/config"}},

	{folder: "internal/record", own: []string{"chat", "internal/retry"}},
	{folder: "internal/grant", own: []string{"chat", "internal/edge", "internal/record", "internal/wire"}},
	{folder: "internal/cluster", own: []string{"internal/fields"}},
	{folder: "internal/commandline", libs: []string{"golang.org/x/term"}},
	{folder: "internal/cluster/clustertest", own: []string{"internal/cluster"}}, // a log and a network, for tests
	{folder: "internal/cluster/datafolder", own: []string{"internal/sealed"}},
	{folder: "internal/cluster/natslog", own: []string{"internal/cluster"}, libs: []string{"github.com/nats-io/nats.go"}},
	{folder: "internal/cluster/node", own: []string{"chat", "internal/core", "internal/cluster", "internal/artifact", "internal/fields", "internal/cluster/natslog", "internal/hub", "internal/journal", "internal/session"}, libs: []string{"github.com/nats-io/nats.go"}},
	{folder: "internal/turnlog", own: []string{"chat", "internal/core"}},
	{folder: "internal/pages", own: []string{"chat", "internal/core", "internal/attachment", "internal/edge", "internal/turnlog", "internal/wire"}},
	{folder: "internal/dialect/*", own: []string{"chat", "internal/core", "internal/attachment", "internal/edge", "internal/pages", "internal/retry", "internal/turnlog", "internal/wire"}},
	{folder: "internal/servertest", own: []string{"*"}},
	{folder: "internal/journal/journaltest", own: []string{"chat", "internal/core", "internal/journal"}, libs: []string{"github.com/cockroachdb/pebble"}},
	{folder: "internal/dialect/agui", own: []string{"chat", "internal/core", "internal/aguiwire", "internal/attachment", "internal/edge", "internal/jsonpatch", "internal/pages", "internal/turnlog", "internal/wire", "internal/dialect/agui/tanstack"}},
	{folder: "internal/dialect/agui/tanstack", own: []string{"internal/aguiwire"}},
	{folder: "internal/dialect/letta", own: []string{"chat", "internal/core", "internal/attachment", "internal/edge", "internal/record", "internal/retry", "internal/turnlog", "internal/wire", "internal/llm", "internal/dialect/letta/stream"}},
	{folder: "internal/dialect/letta/stream", own: []string{"chat", "internal/core", "internal/llm", "internal/turnlog"}},
	{folder: "internal/dialect/vertesia", own: []string{"chat", "internal/core", "internal/edge", "internal/retry", "internal/wire", "internal/dialect/vertesia/files"}},
	{folder: "internal/dialect/vertesia/files", own: []string{"chat", "internal/core", "internal/edge", "internal/wire"}},
	{folder: "internal/dialect/x1", own: []string{"chat", "internal/core", "internal/bus", "internal/edge", "internal/wire", "internal/sealed"}, libs: []string{"github.com/nats-io/nats.go"}},

	{folder: "internal/server", own: []string{"internal/edge", "internal/auth", "internal/wire", "chat", "web"}, libs: []string{"github.com/prometheus/client_golang"}},
	{folder: "internal/otlp", own: []string{"internal/retry"}, libs: []string{"go.opentelemetry.io/otel", "-go.opentelemetry.io/otel/exporters", "google.golang.org/protobuf/encoding/protowire"}},
	{folder: "internal/proxy", own: []string{"chat"}},
	{folder: "web"},
	{folder: "web/gen", own: []string{"chat", "agent"}}, // writes the TypeScript form of the vocabulary
	{folder: "client", own: []string{"chat", "agent", "internal/sse"}, libs: []string{"github.com/coder/websocket"}},
	{folder: "internal/terminal", own: []string{"chat", "client", "internal/markdown"}, libs: []string{"charm.land/bubbles", "charm.land/bubbletea", "charm.land/lipgloss", "github.com/charmbracelet/x", "golang.org/x/term"}},
	{folder: "internal/sidecar", own: []string{"chat", "internal/edge", "internal/sse", "internal/wire", "internal/dialect/x1"}, libs: []string{"github.com/nats-io/nats.go"}},
	{folder: "internal/sidecar/sidecartest"}, // an agent, for tests

	// Who serves a domain needs the helper and what it serves.
	{folder: "internal/natsprovider", own: []string{"chat", "internal/edge"}, libs: []string{"github.com/nats-io/nats.go"}},
	{folder: "internal/natsprovider/*", own: []string{"chat", "internal/natsprovider"}},
	{folder: "internal/natsprovider/orchestration", own: []string{"chat", "internal/core", "internal/natsprovider"}},
	{folder: "internal/natsprovider/index", own: []string{"chat", "internal/natsprovider", "internal/record"}},

	// What users would write.
	{folder: "examples/*", own: []string{"chat", "client", "agent"}},

	// Small packages that import nothing of this module.
	{folder: "internal/fields"},
	{folder: "internal/dialecttest", own: []string{"chat", "client", "internal/dialect/x1", "internal/sse"}, libs: []string{"github.com/coder/websocket", "github.com/nats-io/nats.go"}}, // for tests
	{folder: "internal/freeport"},
	{folder: "internal/freshstack"},
	{folder: "internal/json"},
	{folder: "internal/keylock"},
	{folder: "internal/jsontest"},
	{folder: "internal/load"},
	{folder: "internal/markdown"},
	{folder: "internal/serverprocess", own: []string{"internal/freeport"}},
	{folder: "internal/sbom"},
	{folder: "internal/sleep"},
	{folder: "internal/modeltest"},
	{folder: "internal/transcript", own: []string{"internal/servertest"}, libs: []string{"golang.org/x/tools"}}, // for tests

	{folder: "cmd", own: []string{"*"}, libs: []string{"*"}},
	{folder: "bench", own: []string{"*"}, libs: []string{"*"}},
	{folder: "e2e", own: []string{"*"}, libs: []string{"*"}},
	{folder: "chaos", own: []string{"chat", "client", "agent", "chaos/faults", "internal/cluster", "internal/dialecttest", "internal/freeport", "internal/serverprocess"}}, // a user of the server, like examples
	{folder: "chaos/natslog", own: []string{"chaos/faults", "internal/bus", "internal/cluster", "internal/cluster/natslog", "internal/freeport"}},
	{folder: "chaos/faults", own: []string{"internal/freeport"}},
}

// everywhere may be imported in every folder.
var everywhere = []string{"internal/freshstack", "internal/json", "internal/keylock", "internal/sleep", "internal/text"}

// stdJSON lists the folders that may import encoding/json. All other code reads and writes JSON with internal/json,
// because encoding/json takes names of another case for a field's and names Go types in its errors. The rest are tools
// and examples: they read what they have written themselves.
var stdJSON = []string{"internal/json", "internal/jsontest", "internal/dialecttest", "internal/load", "internal/modeltest", "internal/sbom", "internal/transcript", "internal/sealed", "examples/*", "bench", "e2e", "web/gen", "internal/sidecar/sidecartest", "internal/servertest"}

// inFile lists what a file of that name may import in any folder.
var inFile = map[string][]string{
	"metrics.go": {"github.com/prometheus/client_golang/prometheus"},
}

func TestImportsFollowTheTable(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); file != "." && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || ignored(t, file) {
			return nil
		}
		files++
		if folder := path.Dir(filepath.ToSlash(file)); !known(folder) {
			t.Errorf("%s: folder %s is not in the table; say there what it may import", file, folder)
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if why := refuse(filepath.ToSlash(file), imported); why != "" {
				t.Errorf("%s imports %s: %s", file, imported, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d files were found; does the test run in the root of the module?", files)
	}
}

// refuse says why a file may not import a package, "" when it may.
func refuse(file, imported string) string {
	folder := path.Dir(file)
	r, ok := ruleFor(folder)
	if !ok {
		return "folder " + folder + " is not in the table"
	}
	if within, ours := strings.CutPrefix(imported, module+"/"); ours {
		if slices.Contains(everywhere, within) || slices.Contains(r.own, "*") || slices.Contains(r.own, within) {
			return ""
		}
		return "of this module, " + r.folder + " may import " + list(r.own)
	}
	if imported == "encoding/json" || strings.HasPrefix(imported, "encoding/json/") {
		if slices.ContainsFunc(stdJSON, func(f string) bool { match, _ := path.Match(f, folder); return match }) {
			return ""
		}
		return "use internal/json, which matches names exactly"
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	if allows(r.libs, imported) || slices.Contains(inFile[path.Base(file)], imported) {
		return ""
	}
	return "of other modules, " + r.folder + " may import " + list(r.libs)
}

func known(folder string) bool { _, ok := ruleFor(folder); return ok }

func ruleFor(folder string) (best rule, ok bool) {
	for at := folder; ; at = path.Dir(at) {
		for _, r := range rules {
			if match, _ := path.Match(r.folder, at); match && (!ok || r.folder == at) {
				best, ok = r, true
			}
		}
		if ok || at == "." || path.Dir(at) == "." {
			return best, ok
		}
	}
}

// allows reports whether a list of modules covers an import. A part that is
// taken out again has a minus in front.
func allows(libs []string, imported string) bool {
	covers := func(lib string) bool { return imported == lib || strings.HasPrefix(imported, lib+"/") }
	ok := false
	for _, lib := range libs {
		if out, minus := strings.CutPrefix(lib, "-"); minus {
			if covers(out) {
				return false
			}
		} else if lib == "*" || covers(lib) {
			ok = true
		}
	}
	return ok
}

func list(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// ignored reports whether a file is left out of every build.
func ignored(t *testing.T, file string) bool {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(b), "\npackage ")
	return strings.Contains(head, "//go:build ignore")
}

// The table itself refuses what it should.
func TestTheTable(t *testing.T) {
	for _, c := range []struct {
		file, imports string
		ok            bool
	}{
		{"chat/event.go", "encoding/json", false},
		{"internal/dialect/nemo/decode.go", "encoding/json", false},
		{"cmd/parley/main.go", "encoding/json", false},
		{"internal/json/json.go", "encoding/json", true},
		{"chat/event.go", module + "/internal/json", true},
		{"internal/bus/client.go", module + "/internal/json", true},
		{"chat/event.go", module + "/internal/wire", false},
		{"chat/event.go", "github.com/google/uuid", false},
		{"internal/hub/hub.go", module + "/chat", true},
		{"internal/hub/hub.go", module + "/internal/journal", false},
		{"internal/hub/metrics.go", "github.com/prometheus/client_golang/prometheus", true},
		{"internal/hub/hub.go", "github.com/prometheus/client_golang/prometheus", false},
		{"internal/agentpool/runner.go", "go.opentelemetry.io/otel/trace", true},
		{"internal/agentpool/runner.go", "go.opentelemetry.io/otel/sdk/trace", false},
		{"agent/turn.go", module + "/internal/agentpool", false},
		{"internal/agents/demo/demo.go", module + "/agent", true},
		{"agent/turn.go", module + "/internal/agents/demo", false},
		{"internal/dialect/nemo/serve.go", module + "/internal/wire", true},
		{"internal/dialect/nemo/serve.go", module + "/internal/dialect/native", false},
		{"internal/dialect/nemo/serve.go", module + "/internal/llm", false},
		{"internal/dialect/letta/serve.go", module + "/internal/llm", true},
		{"internal/llm/fold.go", module + "/chat", true},
		{"internal/llm/fold.go", module + "/internal/llm/openai", false},
		{"internal/llm/fold.go", "github.com/openai/openai-go/v3", false},
		{"internal/llm/openai/chat.go", "github.com/openai/openai-go/v3/responses", false},
		{"internal/llm/openai/chat.go", module + "/internal/llm/internal/convert", true},
		{"internal/llm/openai/chat.go", module + "/internal/llm/anthropic", false},
		{"cmd/parley/main.go", module + "/internal/journal", true},
		{"internal/load/load.go", module + "/chat", false},
		{"somewhere/new.go", "fmt", false},
	} {
		if why := refuse(c.file, c.imports); (why == "") != c.ok {
			t.Errorf("%s imports %s: %q", c.file, c.imports, why)
		}
	}
}
