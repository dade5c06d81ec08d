package sidecar

import (
	"bytes"
	"fmt"

	"github.com/parley-hq/parley/internal/json"
)

// parse reads the events of a frame: one, or an array of them.
func parse(f frame) ([]said, error) {
	data := bytes.TrimSpace(f.data)
	if len(data) == 0 {
		return nil, nil
	}
	type one struct {
		Type    string          `json:"type"`
		Payload json.RawMessage `json:"payload"`
	}
	var list []one
	if data[0] == '[' {
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, err
		}
	} else {
		list = make([]one, 1)
		if err := json.Unmarshal(data, &list[0]); err != nil {
			return nil, err
		}
	}
	var out []said
	for i, e := range list {
		if e.Type == "" || e.Type == "heartbeat" {
			continue
		}
		if len(e.Payload) == 0 {
			e.Payload = json.RawMessage("null")
		}
		s := said{typ: e.Type, payload: e.Payload, digest: digestOf(e.Type, e.Payload)}
		if f.id != "" {
			s.id = fmt.Sprintf("%s.%d", f.id, i)
		}
		out = append(out, s)
	}
	return out, nil
}
