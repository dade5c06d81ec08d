package letta

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/parley-hq/parley/agent"
)

// Every step that a message names can be read, with its messages.
func TestSteps(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{agents: map[string]agent.Agent{"script": scriptedAgent{}}})
	a := w.agent(`{"model":"parley/script"}`)
	said := w.say(a, "go")
	w.say(a, "and again")
	steps := map[string][]string{}
	var order []string
	for _, m := range said.Messages {
		if steps[m.Step] == nil {
			order = append(order, m.Step)
		}
		steps[m.Step] = append(steps[m.Step], m.ID+m.OTID)
	}
	if len(order) != 3 {
		t.Fatalf("%d steps", len(order))
	}
	for _, id := range order {
		s := get[object](w, "GET", "/v1/steps/"+id, "")
		if s["id"] != id || s["run_id"] != said.Messages[0].Run || s["agent_id"] != a {
			t.Errorf("%v", s)
		}
		var got []string
		for _, m := range get[[]frame](w, "GET", "/v1/steps/"+id+"/messages", "") {
			got = append(got, m.ID+m.OTID)
		}
		if !slices.Equal(got, steps[id]) {
			t.Errorf("step %s has\n%v\nwant\n%v", id, got, steps[id])
		}
		if m := get[object](w, "GET", "/v1/steps/"+id+"/metrics", ""); m["id"] != id || m["run_id"] != said.Messages[0].Run {
			t.Errorf("%v", m)
		}
		if code, body := w.do("GET", "/v1/steps/"+id+"/trace", ""); code != http.StatusOK || body != "null" {
			t.Errorf("%d %s", code, body)
		}
	}
	for _, id := range []string{"step-00000000-0000-4000-8000-000000000000", "x", said.Messages[0].ID} {
		if code, body := w.do("GET", "/v1/steps/"+id, ""); code != http.StatusNotFound {
			t.Errorf("%s: %d %s", id, code, body)
		}
	}
}

// The list of steps pages without gaps in both orders.
func TestStepsPageInBothOrders(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, setup{agents: map[string]agent.Agent{"script": scriptedAgent{}}})
	a := w.agent(`{"model":"parley/script"}`)
	var want []string
	for range 3 {
		for _, m := range w.say(a, "go").Messages {
			if !slices.Contains(want, m.Step) {
				want = append(want, m.Step)
			}
		}
	}
	w.say(w.agent(""), "somebody else's")
	for _, order := range []string{"asc", "desc"} {
		var got []string
		for after := ""; ; {
			page := get[[]object](w, "GET", fmt.Sprintf("/v1/steps/?agent_id=%s&order=%s&limit=2&after=%s", a, order, after), "")
			if len(page) == 0 {
				break
			}
			for _, s := range page {
				after = s["id"].(string)
				got = append(got, after)
			}
			if len(got) > 100 {
				t.Fatal("it does not end")
			}
		}
		if order == "desc" {
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%v\nwant\n%v", order, got, want)
		}
	}
	if all := get[[]object](w, "GET", "/v1/steps/", ""); len(all) != len(want)+1 {
		t.Errorf("%d steps in all", len(all))
	}
	for query, n := range map[string]int{"model=m": 3, "model=other": 0, "has_feedback=true": 0, "start_date=2200-01-01": 0, "end_date=2001-01-01": 0, "start_date=2001-01-01T00:00:00Z": 9} {
		if got := get[[]object](w, "GET", "/v1/steps/?agent_id="+a+"&"+query, ""); len(got) != n {
			t.Errorf("%s: %d steps, want %d", query, len(got), n)
		}
	}
	if code, body := w.do("GET", "/v1/steps/?start_date=soon", ""); code != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", code, body)
	}
}
