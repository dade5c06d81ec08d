package letta

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestMemoryBlocks(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{})
	a := w.agent(`{"name":"ann","system":"Be kind.","memory_blocks":[{"label":"human","value":"Ada"},{"label":"persona","value":"Ann"}]}`)
	path := "/v1/agents/" + a + "/core-memory/blocks"
	if list := get[[]object](w, "GET", path, ""); len(list) != 2 {
		t.Errorf("%v", list)
	}
	changed := get[object](w, "PATCH", path+"/human", `{"value":"Grace","id":"mine"}`)
	for _, b := range []object{changed, get[object](w, "GET", path+"/human", "")} {
		if b["value"] != "Grace" || b["label"] != "human" || !strings.HasPrefix(b["id"].(string), "block-") {
			t.Errorf("%v", b)
		}
	}
	if b := get[object](w, "GET", path+"/persona", ""); b["value"] != "Ann" {
		t.Errorf("%v", b)
	}
	if code, body := w.do("GET", path+"/nobody", ""); code != http.StatusNotFound {
		t.Errorf("%d %s", code, body)
	}
	if code, body := w.do("PATCH", path+"/human", `{"value":5}`); code != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", code, body)
	}
	if code, body := w.do("POST", "/v1/agents/"+a+"/recompile", ""); code != http.StatusOK || body != `"Be kind."` {
		t.Errorf("%d %s", code, body)
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{secured: true})
	w.user = "alice"
	w.agent(`{"tags":["one","two"]}`)
	w.agent(`{"tags":["two","three"]}`)
	if tags := get[[]string](w, "GET", "/v1/tags/", ""); !slices.Equal(tags, []string{"one", "three", "two"}) {
		t.Errorf("%v", tags)
	}
	if tags := get[[]string](w, "GET", "/v1/tags/?query_text=T&limit=1&after=three", ""); !slices.Equal(tags, []string{"two"}) {
		t.Errorf("%v", tags)
	}
	w.user = "bob"
	if tags := get[[]string](w, "GET", "/v1/tags/", ""); len(tags) != 0 {
		t.Errorf("bob sees %v", tags)
	}
}

// Requests that are not offered are refused in the form that the clients expect, with a header against retries.
func TestNotOffered(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{})
	a := w.agent("")
	for path, words := range map[string]string{
		"PATCH /v1/agents/" + a + "/reset-messages":     "never rewritten",
		"POST /v1/agents/" + a + "/summarize":           "compact their context",
		"POST /v1/conversations/" + a + "/compact":      "compact their context",
		"GET /v1/agents/" + a + "/export":               "export",
		"PATCH /v1/agents/" + a + "/tools/attach/t":     "operator",
		"POST /v1/blocks/":                              "core-memory",
		"POST /v1/tools/":                               "client_tools",
		"GET /v1/folders/":                              "/artifacts",
		"GET /v1/mcp-servers/":                          "configuration",
		"POST /latest/templates/x/agents":               "docs/letta.md",
		"POST /v1/messages/search":                      "/search?q=",
		"PUT /v1/agents/" + a:                           "PATCH",
		"DELETE /v1/runs/run-1":                         "erased with it",
		"GET /v1/runs/run-1/metrics":                    "/usage",
		"GET /v1/jobs/":                                 "/v1/runs/",
		"GET /v1/providers/":                            "/v1/models/",
		"GET /v1/sources/":                              "/artifacts",
		"GET /v1/runs/run-1/trace":                      "not stored",
		"PATCH /v1/steps/step-1/feedback":               "not stored",
		"POST /v1/agents/" + a + "/schedule":            "operator",
		"GET /v1/archives/archive-1/passages/passage-1": "docs/letta.md",
	} {
		method, path, _ := strings.Cut(path, " ")
		res := w.call(method, path, "{}")
		res.Body.Close()
		code, body := w.do(method, path, "{}")
		if code != http.StatusNotImplemented || !strings.Contains(detailOf(body), words) || !strings.Contains(detailOf(body), "is not offered here") || res.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s %s: %d %s", method, path, code, body)
		}
	}
}
