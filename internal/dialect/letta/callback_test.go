package letta

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/letta/stream"
)

// phone is who is called.
type phone struct {
	rings  chan object
	engage chan int // what it answers next; without one 200
}

func (p phone) post(ctx context.Context, address string, body []byte) (int, error) {
	status := 200
	select {
	case status = <-p.engage:
	default:
	}
	if status == 0 {
		return 0, chat.Errorf(chat.Unavailable, "nobody is there")
	}
	var v object
	if err := json.Unmarshal(body, &v); err != nil {
		return 0, err
	}
	v["to"], v["answered"] = address, status
	select {
	case p.rings <- v:
	case <-ctx.Done():
	}
	return status, nil
}

func newPhone() phone { return phone{make(chan object, 16), make(chan int, 16)} }

func (p phone) setup(o *Options) { o.Post, o.TryPause = p.post, time.Millisecond }

// told waits until the outcome of a call stands in the run.
func told(w *world, run string) object {
	w.t.Helper()
	for w.t.Context().Err() == nil {
		if s := get[object](w, "GET", "/v1/runs/"+run, ""); s["callback_sent_at"] != nil {
			return s
		}
	}
	w.t.Fatal("nothing came")
	return nil
}

const async = `,"callback_url":"https://example.com/hook"`

func TestCallback(t *testing.T) {
	p := newPhone()
	w := newWorld(t, setup{change: p.setup})
	a := w.agent("")
	run := get[object](w, "POST", "/v1/agents/"+a+"/messages/async", message("hello", async))
	rung := <-p.rings
	if rung["run_id"] != run["id"] || rung["status"] != "completed" || rung["stop_reason"] != stream.StopEndTurn || rung["to"] != "https://example.com/hook" {
		t.Errorf("%v", rung)
	}
	if s := told(w, run["id"].(string)); s["callback_url"] != "https://example.com/hook" || s["callback_status_code"] != 200.0 || s["callback_error"] != nil {
		t.Errorf("%v", s)
	}
	// Who cannot be reached is called again.
	p.engage <- 0
	p.engage <- 503
	run = get[object](w, "POST", "/v1/agents/"+a+"/messages/async", message("/fail oh", async))
	for _, want := range []int{503, 200} {
		if rung = <-p.rings; rung["answered"] != want || rung["status"] != "failed" {
			t.Errorf("%v", rung)
		}
	}
	told(w, run["id"].(string))
	// And given up in the end.
	for range callbackTries {
		p.engage <- 0
	}
	run = get[object](w, "POST", "/v1/agents/"+a+"/messages/async", message("hello", async))
	if s := told(w, run["id"].(string)); s["callback_error"] != "nobody is there" || s["callback_status_code"] != nil {
		t.Errorf("%v", s)
	}
	for _, address := range []string{"file:///etc/passwd", "example.com", "https://user:secret@example.com/"} {
		if code, b := w.do("POST", "/v1/agents/"+a+"/messages/async", message("x", `,"callback_url":"`+address+`"`)); code != 422 || strings.Contains(b, "secret") {
			t.Errorf("%s: %d %s", address, code, b)
		}
	}
}

// A call that is owed is made by the next process.
func TestCallbackAfterARestart(t *testing.T) {
	p := newPhone()
	w := newWorld(t, setup{change: p.setup})
	a := w.agent("")
	run := get[object](w, "POST", "/v1/agents/"+a+"/messages/async", message("/sleep 600", async))
	w = w.restart()
	get[object](w, "POST", "/v1/agents/"+a+"/messages/cancel", "")
	if rung := <-p.rings; rung["run_id"] != run["id"] || rung["status"] != "cancelled" {
		t.Errorf("%v", rung)
	}
	told(w, run["id"].(string))
	w = w.restart()
	w.say(a, "quiet")
	select {
	case again := <-p.rings:
		t.Errorf("called twice: %v", again)
	default:
	}
}
