package native

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	"golang.org/x/tools/txtar"
)

func (w *testServer) openAPI() object {
	w.t.Helper()
	var doc object
	if err := json.Unmarshal([]byte(w.must("", "GET", "/parley/v1/openapi.json", "")), &doc); err != nil {
		w.t.Fatal(err)
	}
	return doc
}

// TestOpenAPIIsValid builds the model of the served document, which resolves
// every reference.
func TestOpenAPIIsValid(t *testing.T) {
	w := newTestServer(t, nil)
	text := w.must("", "GET", "/parley/v1/openapi.json", "")
	doc, err := libopenapi.NewDocument([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if v := doc.GetVersion(); v != "3.1.0" {
		t.Errorf("version %s", v)
	}
	model, err := doc.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	if n := model.Model.Paths.PathItems.Len(); n < 15 {
		t.Errorf("only %d paths", n)
	}
	index := model.Index
	if errs := index.GetReferenceIndexErrors(); len(errs) > 0 {
		t.Errorf("references: %v", errs)
	}
	if c := index.GetResolver(); c != nil && len(c.GetResolvingErrors()) > 0 {
		t.Errorf("resolving: %v", c.GetResolvingErrors())
	}
}

// TestEveryRouteIsDescribed compares what is served with the document.
func TestEveryRouteIsDescribed(t *testing.T) {
	w := newTestServer(t, nil)
	paths := w.openAPI()["paths"].(object)
	described, ids := 0, map[string]bool{}
	for _, item := range paths {
		for _, op := range item.(object) {
			described++
			id := op.(object)["operationId"].(string)
			if ids[id] {
				t.Errorf("the operationId %s is given twice", id)
			}
			ids[id] = true
		}
	}
	routes := w.dialect.Routes()
	if len(routes) != described {
		t.Errorf("%d routes, %d described", len(routes), described)
	}
	for _, r := range routes {
		method, path, _ := strings.Cut(r.Pattern, " ")
		item, _ := paths[strings.ReplaceAll(path, "...}", "}")].(object)
		if item[strings.ToLower(method)] == nil {
			t.Errorf("%s is not in the document", r.Pattern)
		}
	}
}

// TestDocsNameEveryRoute: docs/native.md mentions every route.
func TestDocsNameEveryRoute(t *testing.T) {
	page, err := os.ReadFile("../../../docs/native.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "/parley/v1/openapi.json") {
		t.Error("docs/native.md does not mention the OpenAPI document")
	}
	for _, op := range New(Options{}).operations() {
		short := strings.TrimPrefix(strings.ReplaceAll(op.path, "...}", "}"), base)
		short = strings.TrimPrefix(short, "/sessions/{id}")
		if !strings.Contains(string(page), short) {
			t.Errorf("docs/native.md does not mention %s %s", op.method, op.path)
		}
	}
}

// TestAnswersFitTheirSchema checks the answers of all transcripts against the schemas of
// the OpenAPI document.
func TestAnswersFitTheirSchema(t *testing.T) {
	w := newTestServer(t, nil)
	doc := w.openAPI()
	files, _ := filepath.Glob("testdata/*.txtar")
	checked := map[string]bool{}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(a.Files); i++ {
			if a.Files[i].Name != "response" {
				continue
			}
			head, body, _ := strings.Cut(string(a.Files[i].Data), "\n\n")
			words := strings.Fields(string(a.Files[i-1].Data))
			status := strings.Fields(head)[0]
			if !strings.Contains(head, "application/json") || strings.Contains(words[1], "as=shout") {
				continue
			}
			// The transcripts replace times by a constant.
			body = strings.ReplaceAll(body, "MICROSZ", "000000Z")
			var got any
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			op, name := find(doc, words[0], words[1])
			if op == nil {
				continue // refused before the route
			}
			schema := answer(doc, op, status)
			if schema == nil {
				t.Errorf("%s: the answer %s is not described", name, status)
				continue
			}
			if err := fits(doc, schema, got, "$"); err != nil {
				t.Errorf("%s %s %s: %v\n%s", filepath.Base(file), a.Files[i-1].Name, name, err, body)
			}
			if status < "300" {
				checked[name] = true
			}
		}
	}
	for path, item := range doc["paths"].(object) {
		for method, op := range item.(object) {
			for status := range op.(object)["responses"].(object) {
				s := answer(doc, op.(object), status)
				if status != "default" && s != nil && len(s) > 0 && !checked[strings.ToUpper(method)+" "+path] {
					t.Errorf("no transcript shows a good answer of %s %s", method, path)
				}
			}
		}
	}
}

// find returns the operation that answers a request.
func find(doc object, method, target string) (object, string) {
	target, _, _ = strings.Cut(target, "?")
	paths := doc["paths"].(object)
	var best string
	for path := range paths {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(path), `\{path\}`, `.+`)
		pattern = regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(pattern, `[^/]+`)
		if regexp.MustCompile("^"+pattern+"$").MatchString(target) && len(path) > len(best) {
			best = path
		}
	}
	item, _ := paths[best].(object)
	op, _ := item[strings.ToLower(method)].(object)
	return op, method + " " + best
}

// answer returns the schema of a response's JSON.
func answer(doc, op object, status string) object {
	responses := op["responses"].(object)
	res, ok := responses[status].(object)
	if !ok && status == "200" {
		res, ok = responses["201"].(object) // 201 has the same schema
	}
	if !ok {
		res = responses["default"].(object)
	}
	if ref, ok := res["$ref"].(string); ok {
		res = deref(doc, ref)
	}
	content, _ := res["content"].(object)
	media, _ := content["application/json"].(object)
	schema, _ := media["schema"].(object)
	return schema
}

func deref(doc object, ref string) object {
	at := doc
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at, _ = at[part].(object)
	}
	return at
}

// fits checks a value against the parts of JSON Schema that the document uses.
func fits(doc, schema object, v any, at string) error {
	if ref, ok := schema["$ref"].(string); ok {
		target := deref(doc, ref)
		if target == nil {
			return fmt.Errorf("%s: %s does not exist", at, ref)
		}
		return fits(doc, target, v, at)
	}
	if want, ok := schema["type"].(string); ok && !slices.Contains(kindsOf(v), want) {
		return fmt.Errorf("%s: %v is not %s", at, v, want)
	}
	if p, ok := schema["pattern"].(string); ok {
		if s, _ := v.(string); !regexp.MustCompile(p).MatchString(s) {
			return fmt.Errorf("%s: %q does not match %s", at, s, p)
		}
	}
	switch v := v.(type) {
	case object:
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				return fmt.Errorf("%s: %s is missing", at, name)
			}
		}
		props, known := schema["properties"].(object)
		for k, e := range v {
			p, ok := props[k].(object)
			if !ok {
				if p, ok = schema["additionalProperties"].(object); !ok && known {
					return fmt.Errorf("%s: %s is not described", at, k)
				}
			}
			if err := fits(doc, p, e, at+"."+k); err != nil {
				return err
			}
		}
	case []any:
		items, _ := schema["items"].(object)
		for i, e := range v {
			if err := fits(doc, items, e, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func kindsOf(v any) []string {
	switch v := v.(type) {
	case nil:
		return []string{"null"}
	case bool:
		return []string{"boolean"}
	case string:
		return []string{"string"}
	case float64:
		if v == float64(int64(v)) {
			return []string{"number", "integer"}
		}
		return []string{"number"}
	case []any:
		return []string{"array"}
	}
	return []string{"object"}
}

// TestOpenAPIIsPublic: the document needs no token.
func TestOpenAPIIsPublic(t *testing.T) {
	w := newTestServer(t, nil)
	res, err := w.HTTP.Client().Do(w.request("", http.MethodGet, "/parley/v1/openapi.json", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
		t.Fatal(res.StatusCode, err)
	}
}
