package parley_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// notShown lists, for each dialect, the event types that it leaves out on purpose, and why. All others must be in a
// type switch of its folders. A new event type fails the test until every dialect shows it or leaves it out here.
var notShown = map[string]map[string]string{
	"nemo": {
		"agent.share":              "the protocol has no message for links",
		"agent.usage":              "tokens are counted in the last chunk of a response, from the state of the turn",
		"file.removed":             "files are listed at /static",
		"file.uploaded":            "files are listed at /static",
		"prompt.closed":            "the protocol has no message that closes a prompt",
		"session.completed":        "the protocol has no message for the end of a conversation",
		"session.failed":           "the protocol has no message for the end of a conversation",
		"session.started":          "the protocol has no message for the start of a conversation",
		"session.updated":          "the protocol has no message for settings",
		"turn.resumed":             "a turn that continues looks like one that never stopped",
		"turn.stop_requested":      "the end of the turn is shown",
		"user.approval_response":   "the protocol does not repeat what people send",
		"user.input_response":      "the protocol does not repeat what people send",
		"user.permission_response": "the protocol does not repeat what people send",
		"workstream.canceling":     "the end of the workstream is shown",
		"workstream.message":       "only progress and results of workstreams are shown",
		"workstream.steered":       "only progress and results of workstreams are shown",
	},
	"aisdk": {
		"agent.trace":         "traces are not part of the protocol",
		"file.removed":        "the files of a session are not part of a message",
		"file.uploaded":       "a file that belongs to a message is a part of it",
		"session.completed":   "a chat has no end in the protocol",
		"session.failed":      "a chat has no end in the protocol",
		"session.started":     "the chat is opened by its id",
		"session.updated":     "settings are not part of a message",
		"turn.resumed":        "a turn that continues looks like one that never stopped",
		"turn.stop_requested": "the end of the turn is shown",
		"workstream.message":  "only progress and results of workstreams are shown",
		"workstream.steered":  "only progress and results of workstreams are shown",
	},
	"letta": {
		"agent.artifact":       "Letta's messages have no files of an agent",
		"agent.plan":           "the protocol has no plans",
		"agent.share":          "the protocol has no links",
		"agent.status":         "the protocol has no status messages",
		"agent.tool_progress":  "the result is shown",
		"agent.trace":          "traces are not part of the protocol",
		"file.removed":         "the protocol has no files of a conversation",
		"file.uploaded":        "the protocol has no files of a conversation",
		"session.completed":    "a conversation has no end in the protocol",
		"session.failed":       "a conversation has no end in the protocol",
		"session.started":      "the conversation is a record of its own",
		"turn.resumed":         "a run that continues looks like one that never stopped",
		"turn.stop_requested":  "the end of the run is shown",
		"workstream.canceling": "the end of the workstream is shown",
	},
	"agui": {
		"agent.trace":          "traces are not part of the protocol",
		"file.removed":         "the protocol has no files of a thread",
		"file.uploaded":        "the protocol has no files of a thread",
		"session.completed":    "a thread has no end in the protocol",
		"session.failed":       "a thread has no end in the protocol",
		"session.started":      "a thread begins with its first run",
		"session.updated":      "the protocol has no settings",
		"turn.resumed":         "a run that continues looks like one that never stopped",
		"turn.stop_requested":  "the end of the run is shown",
		"workstream.canceling": "the end of the workstream is shown",
		"workstream.message":   "only the launch, progress and result of workstreams are shown",
		"workstream.steered":   "only the launch, progress and result of workstreams are shown",
	},
	"vertesia": {
		"agent.trace":     "traces are not part of the protocol",
		"session.updated": "settings are read with the run",
		"turn.input":      "the message itself is shown",
		"turn.started":    "the message itself is shown",

		"turn.stop_requested": "the end of the turn carries the acknowledgement",
	},
}

// shownBy lists the other folders that write messages for a dialect.
var shownBy = map[string][]string{
	"letta": {"internal/llm"}, // Letta shows the messages of a model
}

// passesEventsOn are the dialects that send every event as it is stored.
var passesEventsOn = []string{"native", "x1"}

func TestEveryDialectConsidersEveryEventType(t *testing.T) {
	types := eventTypes(t)
	if len(types) < 20 {
		t.Fatalf("only %d event types were found in chat", len(types))
	}
	folders, err := os.ReadDir("internal/dialect")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		dialect := folder.Name()
		if !folder.IsDir() || slices.Contains(passesEventsOn, dialect) {
			continue
		}
		shown := caseTypes(t, append([]string{filepath.Join("internal/dialect", dialect)}, shownBy[dialect]...))
		for _, name := range slices.Sorted(maps.Keys(types)) {
			_, leftOut := notShown[dialect][types[name]]
			switch {
			case !shown[name] && !leftOut:
				t.Errorf("%s: no type switch has chat.%s (%s): show it, or list it in notShown", dialect, name, types[name])
			case shown[name] && leftOut:
				t.Errorf("%s: chat.%s (%s) is in a type switch and in notShown", dialect, name, types[name])
			}
		}
	}
}

// eventTypes maps the names of body types in package chat to the event types that they stand for.
func eventTypes(t *testing.T) map[string]string {
	types := map[string]string{}
	files, err := filepath.Glob("chat/kind_*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, decl := range parse(t, file).Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Name.Name != "Type" || f.Recv == nil || len(f.Body.List) != 1 {
				continue
			}
			ret, ok := f.Body.List[0].(*ast.ReturnStmt)
			if !ok {
				continue
			}
			if value, ok := ret.Results[0].(*ast.BasicLit); ok {
				types[f.Recv.List[0].Type.(*ast.Ident).Name], _ = strconv.Unquote(value.Value)
			}
		}
	}
	return types
}

// caseTypes returns the names of package chat that are in cases of switches, or in type assertions, of folders.
func caseTypes(t *testing.T, folders []string) map[string]bool {
	names := map[string]bool{}
	add := func(e ast.Expr) {
		if p, ok := e.(*ast.StarExpr); ok {
			e = p.X
		}
		if s, ok := e.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "chat" {
				names[s.Sel.Name] = true
			}
		}
	}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			ast.Inspect(parse(t, file), func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CaseClause:
					for _, e := range n.List {
						add(e)
					}
				case *ast.TypeAssertExpr:
					add(n.Type)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
