package nemo

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Submitted, polled, done; a job is found again by its id.
func TestJobs(t *testing.T) {
	t.Parallel()
	w := newServer(t, setup{})
	for _, base := range []string{"/v1/workflow/async", "/generate/async"} {
		code, body, _ := w.Call("POST", base, inputBody("/sleep 0.05"))
		var j job
		if err := json.Unmarshal([]byte(body), &j); err != nil || code != 202 || j.Status != "submitted" || j.ID == "" {
			t.Fatalf("%d %s", code, body)
		}
		w.poll(base+"/job/"+j.ID, `"status":"success"`)
		_, body, _ = w.Call("GET", base+"/job/"+j.ID, "")
		if err := json.Unmarshal([]byte(body), &j); err != nil || j.ExpiresAt-j.UpdatedAt != 3600*1e6 || !strings.Contains(body, `"output":{"value":"Awake."}`) || !strings.Contains(body, `"error":null`) {
			t.Errorf("%s %v", body, err)
		}
	}
	code, body, _ := w.Call("POST", "/v1/workflow/async", `{"input_message":"hi","job_id":"j-1","sync_timeout":120,"expiry_seconds":600}`)
	if code != 200 || !strings.Contains(body, `"status":"success"`) || !strings.Contains(body, "You said: hi") {
		t.Errorf("%d %s", code, body)
	}
	if code, body, _ = w.Call("POST", "/v1/workflow/async", `{"input_message":"hi","job_id":"j-1"}`); code != 200 || body != `{"job_id":"j-1","status":"success"}` {
		t.Errorf("again: %d %s", code, body)
	}
	if code, body, _ = w.Call("POST", "/v1/workflow/async", `{"input_message":"/fail no","job_id":"j-2","sync_timeout":120}`); code != 200 || !strings.Contains(body, `"status":"failure","error":"no"`) {
		t.Errorf("%d %s", code, body)
	}
	for _, bad := range []string{`{"input_message":"hi","sync_timeout":301}`, `{"input_message":"hi","expiry_seconds":1}`, `{"input_message":"hi","job_id":"a b"}`, `{"input_message":"hi","job_id":"` + strings.Repeat("j", 101) + `"}`} {
		if code, body, _ := w.Call("POST", "/v1/workflow/async", bad); code != 422 {
			t.Errorf("%s: %d %s", bad, code, body)
		}
	}
	if code, body, _ := w.Call("GET", "/v1/workflow/async/job/none", ""); code != 404 || !strings.Contains(body, "Job none not found") {
		t.Errorf("%d %s", code, body)
	}
}

func TestJobExpires(t *testing.T) {
	t.Parallel()
	var late atomic.Int64
	begin := time.Now()
	w := newServer(t, setup{now: func() time.Time { return begin.Add(time.Duration(late.Load())) }})
	w.Call("POST", "/v1/workflow/async", `{"input_message":"hi","job_id":"j-1","sync_timeout":120,"expiry_seconds":600}`)
	late.Store(int64(599 * time.Second))
	if code, _, _ := w.Call("GET", "/v1/workflow/async/job/j-1", ""); code != 200 {
		t.Errorf("before: %d", code)
	}
	late.Store(int64(601 * time.Second))
	if code, _, _ := w.Call("GET", "/v1/workflow/async/job/j-1", ""); code != 404 {
		t.Errorf("after: %d", code)
	}
}
