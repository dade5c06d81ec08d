// Tests of a worker whose last answer is lost.

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/parley-hq/parley/agent"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/freeport"
)

// TestWorkerReleasesTurnWhenAnswerIsLost: the end of a worker's turn is stored, but the
// connection is closed, or the server killed, before the worker has the answer. On its
// next connection the worker releases the turn at once.
func TestWorkerReleasesTurnWhenAnswerIsLost(t *testing.T) {
	for name, killed := range map[string]bool{"connection cut": false, "server killed": true} {
		t.Run(name, func(t *testing.T) {
			data, addr := t.TempDir(), freeport.Addr(t)
			p := serveAt(t, addr, data)
			p.post("/parley/v1/sessions", `{"id":"job","agent":"clerk"}`)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()

			var mu sync.Mutex
			var held [][]string // the turns that each connection named
			proxy := workerProxy(t, p.url, func(conn int, fromServer bool, frame []byte) (pass bool) {
				var f struct {
					Op     string   `json:"op"`
					Turns  []string `json:"turns"`
					TurnID string   `json:"turn_id"`
				}
				if err := json.Unmarshal(frame, &f); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				switch {
				case f.Op == "ready":
					held = append(held, f.Turns)
					if len(held) == 3 {
						cancel()
					}
				case fromServer && conn == 1 && f.Op == "ok" && f.TurnID != "": // the answer to done
					if killed {
						p.kill()
						p = serveAt(t, addr, data)
					}
					return false
				case fromServer && conn == 2 && f.Op == "turn":
					t.Errorf("the turn was given again: %s", frame)
				}
				return true
			}, func(conn int, fromServer bool, frame []byte) (cut bool) {
				return conn == 2 && fromServer && strings.Contains(string(frame), `"op":"ended"`)
			})
			c := connect(t, proxy, "")
			p.post("/parley/v1/sessions/job/events", `{"type":"user.message","payload":{"text":"hi"}}`)
			err := c.Work(ctx, "clerk", client.WorkOptions{Grace: time.Hour}, agent.Func(func(ctx context.Context, turn *agent.Turn) error {
				return turn.Status(ctx, "done", "")
			}))
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(held) < 3 || len(held[0]) != 0 || len(held[1]) != 1 || len(held[2]) != 0 {
				t.Errorf("the connections named %v; want none, one turn, none", held)
			}
			if n := strings.Count(p.get("/parley/v1/sessions/job/events"), `"turn.completed"`); n != 1 {
				t.Errorf("the turn ended %d times", n)
			}
		})
	}
}

// workerProxy forwards the frames of workers. It closes the connection instead of
// forwarding a frame that passes refuses, and after a frame for which cutsAfter is true.
func workerProxy(t *testing.T, target string, passes, cutsAfter func(conn int, fromServer bool, frame []byte) bool) (url string) {
	var mu sync.Mutex
	conns := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := context.WithCancel(r.Context())
		defer end()
		up, _, err := websocket.Dial(ctx, target+r.URL.Path, nil)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway) // the worker reconnects
			return
		}
		defer up.CloseNow()
		down, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer down.CloseNow()
		mu.Lock()
		conns++
		n := conns
		mu.Unlock()
		pump := func(from, to *websocket.Conn, fromServer bool) {
			defer end()
			for {
				kind, frame, err := from.Read(ctx)
				if err != nil || !passes(n, fromServer, frame) || to.Write(ctx, kind, frame) != nil {
					return
				}
				if cutsAfter(n, fromServer, frame) {
					to.Close(websocket.StatusGoingAway, "cut") // the frame still arrives
					return
				}
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { pump(down, up, false) })
		pump(up, down, true)
		wg.Wait()
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}
