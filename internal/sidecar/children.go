package sidecar

import (
	"net/http"
	"strconv"

	"github.com/parley-hq/parley/internal/json"
)

// childRoutes adds the routes for child sessions. The server decides whether the agent
// may use them.
func (s *Sidecar) childRoutes(mux *http.ServeMux) {
	for pattern, op := range map[string]string{
		"POST /spawn": "spawn", "GET /children": "list",
		"POST /children/{child}/message": "message", "POST /children/{child}/cancel": "cancel", "GET /children/{child}/events": "events",
	} {
		mux.Handle(pattern, s.recorded(func(w http.ResponseWriter, r *http.Request) error { return s.serveChild(w, r, op) }))
	}
}

func (s *Sidecar) serveChild(w http.ResponseWriter, r *http.Request, op string) error {
	fields, err := s.readObject(r)
	if err != nil {
		return err
	}
	if child := r.PathValue("child"); child != "" {
		setField(fields, "session_id", child)
	}
	for _, name := range []string{"after", "limit"} {
		if n, err := strconv.ParseUint(r.URL.Query().Get(name), 10, 62); err == nil {
			setField(fields, name, n)
		}
	}
	setField(fields, "provenance", map[string]any{"session_id": s.opt.Session, "epoch": s.write.epoch})
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return s.relay(w, r, "x1.orchestration."+op, "orchestration", body)
}
