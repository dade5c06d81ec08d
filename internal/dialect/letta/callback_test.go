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

// receiver receives callbacks.
type receiver struct {
	rings  chan object
	engage chan int // what it answers next; without one 200
}

func (p receiver) post(ctx context.Context, address string, body []byte) (int, error) {
	status := 200
	select {
	case status = <-p.engage:
	default:
	}
	if status == 0 {
		return 0, chat.Errorf(chat.Unavailable, "no answer")
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

func newReceiver() receiver { return receiver{make(chan object, 16), make(chan int, 16)} }

func (p receiver) setup(o *Options) { o.Post, o.TryPause = p.post, time.Millisecond }

// awaitCallback waits until the run shows the result of its callback.
func awaitCallback(w *testServer, run string) object {
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
	p := newReceiver()
	w := newTestServer(t, setup{change: p.setup})
	a := w.agent("")
	run := get[object](w, "POST", "/v1/agents/"+a+"/messages/async", message("hello", async))
	rung := <-p.rings
	if rung["run_id"] != run["id"] || rung["status"] != "completed" || rung["stop_reason"] != stream.StopEndTurn || rung["to"] != "https://example.com/hook" {
		t.Errorf("%v", rung)
	}
	if s := awaitCallback(w, run["id"].(string)); s["callback_url"] != "https://example.com/hook" || s["callback_status_code"] != 200.0 || s["callback_error"] != nil {
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
	awaitCallback(w, run["id"].(string))
	// And given up in the end.
	for range callbackTries {
		p.engage <- 0
	}
	run = get[object](w, "POST", "/v1/agents/"+a+"/messages/async", message("hello", async))
	if s := awaitCallback(w, run["id"].(string)); s["callback_error"] != "no answer" || s["callback_status_code"] != nil {
		t.Errorf("%v", s)
	}
	for _, address := range []string{"file:///etc/passwd", "example.com", "https://user:secret@example.com/"} {
		if code, b := w.do("POST", "/v1/agents/"+a+"/messages/async", message("x", `,"callback_url":"`+address+`"`)); code != 422 || strings.Contains(b, "secret") {
			t.Errorf("%s: %d %s", address, code, b)
		}
	}
}

// A callback that was not made is made by the next process.
func TestCallbackIsMadeAfterARestart(t *testing.T) {
	p := newReceiver()
	w := newTestServer(t, setup{change: p.setup})
	a := w.agent("")
	run := get[object](w, "POST", "/v1/agents/"+a+"/messages/async", message("/sleep 600", async))
	w = w.restart()
	get[object](w, "POST", "/v1/agents/"+a+"/messages/cancel", "")
	if rung := <-p.rings; rung["run_id"] != run["id"] || rung["status"] != "cancelled" {
		t.Errorf("%v", rung)
	}
	awaitCallback(w, run["id"].(string))
	w = w.restart()
	w.say(a, "quiet")
	select {
	case again := <-p.rings:
		t.Errorf("called twice: %v", again)
	default:
	}
}
