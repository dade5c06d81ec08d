package sidecar

import (
	"bytes"
	"fmt"

	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/json"
)

// parse reads the data of a frame of the agent's stream: an event or an array of events.
// id is the last id of the stream.
func parse(id string, data []byte) ([]agentEvent, error) {
	data = bytes.TrimSpace(data)
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
	var out []agentEvent
	for i, e := range list {
		if e.Type == "" || e.Type == "heartbeat" {
			continue
		}
		if len(e.Payload) == 0 {
			e.Payload = json.RawMessage("null")
		}
		s := agentEvent{typ: e.Type, payload: e.Payload, digest: x1.DigestOf(e.Type, e.Payload)}
		if id != "" {
			s.id = fmt.Sprintf("%s.%d", id, i)
		}
		out = append(out, s)
	}
	return out, nil
}
