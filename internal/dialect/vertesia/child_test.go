package vertesia

import (
	"strings"
	"testing"
)

func holds(m compactMessage, part string) bool { return strings.Contains(string(m.D), part) }

func acks(id string) func(compactMessage) bool {
	return func(m compactMessage) bool { return m.T != Question && holds(m, `"ack":"`+id+`"`) }
}

// childRun is a workstream as a run of its own.
type childRun struct {
	ID          string
	Status      string
	Activity    string `json:"activity_state"`
	Interactive bool
	Artifacts   string  `json:"artifacts_path"`
	CompletedAt *string `json:"completed_at"`
}

// A workstream can be shown, stopped, sent messages and files under its own id, and
// is idle when it waits for a person.
func TestWorkstreamIsServedAsRun(t *testing.T) {
	w := newServer(t, setup{})
	id := w.start("hello", true)
	parent := w.stream(id, "")
	parent.until(is(Idle))
	w.signal(id, "launch_workstream", `{"id":"a","name":"A","instruction":"/stream 100000 50","interactive":true}`)
	// The launch is not on the main line: clients would show an idle line as working.
	if m := parent.until(func(m compactMessage) bool { return holds(m, `"workstream_event":"launched"`) }); m.W != "a" {
		t.Errorf("the launch is %+v", m)
	}
	child := id + "~a"
	s := w.stream(child, "")
	if m, err := s.next(); err != nil || m.T != Update || m.W != "" || !holds(m, `"workstream_event":"launched"`) {
		t.Errorf("it begins with %+v (%v)", m, err)
	}
	s.until(isChunk)
	look := func() (run childRun) {
		t.Helper()
		w.ok("GET", "/api/v1/agents/"+child, "", &run)
		var again childRun
		if w.ok("GET", "/api/v1/agents/"+child+"/internals", "", &again); again.ID != run.ID || again.Status != run.Status || again.Artifacts != run.Artifacts {
			t.Errorf("its internals are %+v, itself is %+v", again, run)
		}
		return run
	}
	if got := look(); got.ID != child || got.Status != "running" || got.Activity != "working" || !got.Interactive || got.Artifacts != "agents/"+child {
		t.Errorf("while it works it is %+v", got)
	}

	w.signal(child, "Stop", `{"client_message_id":"stop-1"}`)
	if m := s.until(acks("stop-1")); m.T != Idle || !holds(m, `"status_reason":"user_stopped"`) {
		t.Errorf("its stop is acknowledged by %+v", m)
	}
	if m := parent.until(acks("stop-1")); m.T != Update || m.W != "a" {
		t.Errorf("to its parent's readers its stop is %+v", m)
	}
	if got := look(); got.Status != "running" || got.Activity != "idle" {
		t.Errorf("at rest it is %+v", got)
	}
	w.signal(child, "Stop", `{"client_message_id":"stop-2"}`) // nothing runs
	if m := s.until(acks("stop-2")); m.T != Idle {
		t.Errorf("a stop of nothing is acknowledged by %+v", m)
	}
	w.signal(child, "UserInput", `{"message":"hi"}`)
	if m := s.until(is(Idle)); m.M != "You said: hi" {
		t.Errorf("it rests with %+v", m)
	}

	var put struct{ URL string }
	w.ok("PUT", "/api/v1/agents/"+child+"/artifacts/out/r.txt", "", &put, "Content-Type", "text/plain")
	code, _, h := w.Call("PUT", put.URL, "abc", "Content-Type", "text/plain")
	if want := `"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"`; code != 200 || h.Get("ETag") != want {
		t.Errorf("stored: %d, %s", code, h.Get("ETag"))
	}
	if m := s.until(func(m compactMessage) bool { return holds(m, "artifact_updated") }); !holds(m, `"path":"workstreams/a/out/r.txt"`) {
		t.Errorf("its file is %+v", m)
	}

	// Operations on whole runs are refused, and not done to its parent.
	for _, what := range []string{"restart", "fork", "status", "workflow"} {
		if code, got, _ := w.Call("POST", "/api/v1/agents/"+child+"/"+what, `{"status":"completed"}`); code != 400 || !strings.Contains(got, "a is a workstream of run") {
			t.Errorf("%s: %d %s", what, code, got)
		}
	}

	w.signal(id, "terminate_workstream", `{"launch_id":"a","reason":"enough"}`)
	last := s.until(is(Terminated))
	if got := look(); got.Status != "cancelled" || got.CompletedAt == nil {
		t.Errorf("ended it is %+v", got)
	}
	// A reader that has all messages gets the last one again.
	w.ok("PUT", "/api/v1/agents/"+child+"/artifacts/out/late.txt", "", &put, "Content-Type", "text/plain")
	if code, got, _ := w.Call("PUT", put.URL, "abc", "Content-Type", "text/plain"); code != 200 {
		t.Fatalf("%d %s", code, got)
	}
	all := w.updates(child, "")
	if m := w.stream(child, after(all[len(all)-1])).until(is(Terminated)); m.TS != last.TS {
		t.Errorf("the end is at %v, and again at %v", last.TS, m.TS)
	}

	// One that is not interactive ends with its stop, which is acknowledged.
	w.signal(id, "launch_workstream", `{"id":"b","name":"B","instruction":"/stream 100000 50"}`)
	s = w.stream(id+"~b", "")
	s.until(isChunk)
	w.signal(id, "Stop", `{"client_message_id":"stop-3","workstream_id":"b"}`)
	if m := s.until(acks("stop-3")); m.T != Idle {
		t.Errorf("its stop is acknowledged by %+v", m)
	}
	s.until(is(Terminated))
	parent.until(func(m compactMessage) bool { return m.W == "b" && holds(m, `"status":"canceled"`) })
	for _, m := range parent.seen {
		if m.W != "" && (m.T == Idle || m.T == Terminated || m.T == Complete) {
			t.Errorf("to readers of the parent, %+v is the end of a child", m)
		}
	}
}

// Parts that the server does not have are refused with the reason, for every method
// and every path below.
func TestMissingPartsAreRefusedWithTheReason(t *testing.T) {
	w := newServer(t, setup{})
	for _, path := range []string{
		"account", "accounts", "analytics/x", "apikeys", "apps", "apps/x", "audit-trail", "collections/c/members", "commands", "cost/x", "data", "email/send", "embeddings",
		"environments/e", "events/subscriptions", "iam/groups", "indexing", "interactions/i/execute", "interactions/x", "oauth-clients", "oauth-grants", "oauth-providers/p",
		"objects/o", "processes", "process-test-runs/x", "projects/p/integrations", "prompts/x", "query", "quota", "refs", "remote-mcp-connections/status/x", "rendering", "runs/r",
		"schedules/x", "secrets", "skills", "tasks/t", "tools", "training", "types/catalog", "users", "view-executions", "views/v", "workflows/rules/x", "workflows/definitions",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			code, got, h := w.Call(method, "/api/v1/"+path, "")
			if code != 404 || !strings.HasPrefix(got, `{"message":"Parley has no `) || h.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s: %d %s", method, path, code, got)
			}
		}
	}
	if code, got, _ := w.Call("GET", "/api/v1/apps/installations", ""); code != 200 || got != "[]" {
		t.Errorf("%d %s", code, got)
	}
}
