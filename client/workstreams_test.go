package client

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// Each call is sent to its route with its body; a repeated launch has the same key.
func TestWorkstreamCallsUseTheirRoutes(t *testing.T) {
	var got []string
	broken := true
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in map[string]any
		_ = json.NewDecoder(r.Body).Decode(&in) // a GET has none
		line := r.Method + " " + r.URL.Path
		for _, field := range []string{"id", "message", "command", "text", "reason", "after"} {
			if v, ok := in[field]; ok {
				b, _ := json.Marshal(v)
				line += " " + field + "=" + string(b)
			}
		}
		if id, _ := in["client_id"].(string); id == "" && (in["id"] != nil || in["message"] != nil || in["command"] != nil) {
			t.Errorf("%s has no client id", line)
		}
		if broken { // the first response is lost
			broken = false
			refuse(w, http.StatusServiceUnavailable, chat.Errorf(chat.Unavailable, "away"))
			return
		}
		got = append(got, line)
		switch {
		case r.URL.Path == "/parley/v1/sessions/s/fork":
			answer(w, 201, chat.Session{ID: "f"})
		case r.Method == http.MethodGet && r.URL.Path == "/parley/v1/sessions/s/workstreams":
			answer(w, 200, map[string]any{"workstreams": []chat.WorkstreamStatus{{ID: "w"}}})
		default:
			answer(w, 200, chat.WorkstreamStatus{ID: "w", State: chat.WorkRunning})
		}
	}))
	ctx := t.Context()
	check := func(w chat.WorkstreamStatus, err error) {
		t.Helper()
		if err != nil || w.ID != "w" {
			t.Fatal(w, err)
		}
	}
	check(c.Launch(ctx, "s", chat.Launch{ID: "w", Instruction: "do"}))
	check(c.Workstream(ctx, "s", "w"))
	check(c.MessageWorkstream(ctx, "s", "w", "hi"))
	check(c.SteerWorkstream(ctx, "s", "w", chat.SteerAdd, "x"))
	check(c.TerminateWorkstream(ctx, "s", "w", "enough"))
	if all, err := c.Workstreams(ctx, "s"); err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	if f, err := c.Fork(ctx, "s", chat.Fork{After: 3}); err != nil || f.ID != "f" {
		t.Fatal(f, err)
	}
	want := []string{
		`POST /parley/v1/sessions/s/workstreams id="w"`, "GET /parley/v1/sessions/s/workstreams/w",
		`POST /parley/v1/sessions/s/workstreams/w/message message="hi"`, `POST /parley/v1/sessions/s/workstreams/w/steer command="add_instruction" text="x"`,
		`POST /parley/v1/sessions/s/workstreams/w/terminate reason="enough"`, "GET /parley/v1/sessions/s/workstreams", "POST /parley/v1/sessions/s/fork after=3",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("it asked\n%q\nand not\n%q", got, want)
	}
}
