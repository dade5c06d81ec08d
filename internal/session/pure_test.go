package session

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// The same state, open blocks, drafts and time give the same events.
func TestDecisionIsRepeatable(t *testing.T) {
	w := newTestStore(t, Options{})
	id := w.begin("s")
	w.say(id, "a")
	ref := w.turn(id)
	w.show(ref, "b1", 0, "half a sent")
	st, err := w.State(ctx, ann, id)
	if err != nil {
		t.Fatal(err)
	}
	blocks := w.hub.Blocks(id)
	run := func() *decision {
		d := &decision{session: id, state: st.Clone(), blocks: blocks, now: st.LastAt + 1000, lastAt: st.LastAt, maxQueue: 10}
		again := []chat.Draft{chat.NewDraft(chat.UserMessage{Text: "b"}).As("k"), chat.NewDraft(chat.UserMessage{Text: "b"}).As("k")}
		for i := range again {
			if err := again[i].Normalize(); err != nil {
				t.Fatal(err)
			}
		}
		for _, req := range []*request{
			{rules: &appending{request: request{caller: ann}, drafts: again}, undo: true},
			{rules: op(func(d *decision) error { d.stopTurn("", ann.Actor, "enough", 0, "ack"); return nil })},
			{rules: &ending{ref: ref, outcome: chat.Stopped, merged: true}},
		} {
			if err := d.run(req); err != nil {
				t.Fatal(err)
			}
		}
		return d
	}
	one, two := run(), run()
	if len(one.facts) < 5 || len(one.facts) != len(two.facts) {
		t.Fatalf("%d and %d events", len(one.facts), len(two.facts))
	}
	for i := range one.facts {
		if !bytes.Equal(one.facts[i].JSON, two.facts[i].JSON) {
			t.Errorf("event %d differs:\n%s\n%s", i, one.facts[i].JSON, two.facts[i].JSON)
		}
	}
	if !reflect.DeepEqual(one.state, two.state) {
		t.Error("the states differ")
	}
}

// Rules cannot use the store, the hub, the clock or a lock: the type decision holds values
// only, and no function that receives a decision uses one of them.
func TestDecisionsReachNothingOutside(t *testing.T) {
	typ := reflect.TypeFor[decision]()
	for i := range typ.NumField() {
		switch f := typ.Field(i); f.Type.Kind() {
		case reflect.Func, reflect.Interface, reflect.Chan, reflect.UnsafePointer:
			t.Errorf("decision.%s is a %s", f.Name, f.Type)
		case reflect.Pointer:
			if f.Type != reflect.TypeFor[*chat.State]() {
				t.Errorf("decision.%s is a %s", f.Name, f.Type)
			}
		}
	}
	outside := map[string]bool{"sessions": true, "log": true, "live": true, "opt": true, "order": true, "Now": true, "Lock": true}
	fset := token.NewFileSet()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	check := func(params *ast.FieldList, body *ast.BlockStmt) {
		if !takesDecision(params) || body == nil {
			return
		}
		checked++
		ast.Inspect(body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if outside[n.Sel.Name] {
					t.Errorf("%s: a rule uses .%s", fset.Position(n.Pos()), n.Sel.Name)
				}
			case *ast.Ident:
				if n.Name == "ctx" {
					t.Errorf("%s: a rule uses a context", fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "show" || n.Recv != nil && takesRoom(n.Recv) {
					return true // the code around the rules
				}
				check(n.Recv, n.Body)
				check(n.Type.Params, n.Body)
			case *ast.FuncLit:
				check(n.Type.Params, n.Body)
			}
			return true
		})
	}
	if checked < 30 {
		t.Errorf("only %d rules found", checked)
	}
}

func takesDecision(l *ast.FieldList) bool { return takes(l, "decision") }
func takesRoom(l *ast.FieldList) bool     { return takes(l, "sequencer") }

func takes(l *ast.FieldList, name string) bool {
	if l == nil {
		return false
	}
	for _, f := range l.List {
		if star, ok := f.Type.(*ast.StarExpr); ok {
			if id, ok := star.X.(*ast.Ident); ok && id.Name == name {
				return true
			}
		}
	}
	return false
}
