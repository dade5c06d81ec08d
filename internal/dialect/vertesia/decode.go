package vertesia

import (
	"bytes"
	"sort"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/wire"
)

// wellFormed refuses what encoding/json would let through or choke on.
func wellFormed(b []byte) error {
	if err := wire.CheckJSON(b, 0); err != nil {
		return chat.Errorf(chat.Invalid, "the body cannot be read: %v", err)
	}
	return nil
}

func malformed(err error) error {
	return chat.Errorf(chat.Invalid, "this is not the JSON that is wanted here: %s", clip(chat.JSONProblem(err), 200)).Because(err)
}

func decode(b []byte, v any) error {
	if err := wellFormed(b); err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return malformed(err)
	}
	return nil
}

// startPayload begins a run.
type startPayload struct {
	Interaction string          `json:"interaction"`
	Data        json.RawMessage `json:"data"`
	Interactive *bool           `json:"interactive"`
	Title       string          `json:"title"`
	Process     json.RawMessage `json:"process_id"`
	Definition  json.RawMessage `json:"process_definition"`
	RunType     string          `json:"run_type"`
	RunKind     string          `json:"run_kind"`
	WorkflowID  string          `json:"workflow_id"`
	FirstRun    string          `json:"first_workflow_run_id"`
}

// neverKept are keys of a payload that are not stored with the run: they are
// secrets, or stand elsewhere.
var neverKept = map[string]bool{"data": true, "title": true, "auth_token": true, "started_by": true, "id": true}

// maxKept bounds what is kept of a payload, well below what metadata can hold.
const maxKept = 24 << 10

// decodeStart reads the payload, and as meta what of it is kept with the run.
func decodeStart(b []byte) (p startPayload, kept meta, err error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return p, nil, chat.Errorf(chat.Invalid, "a run is begun with {interaction, data}")
	}
	if err := decode(b, &p); err != nil {
		return p, nil, err
	}
	if truthy(p.Process) != nil || truthy(p.Definition) != nil || p.RunKind == "process" || p.RunType != "" && p.RunType != "autonomous" {
		return p, nil, chat.Errorf(chat.Invalid, "this server runs agents, not processes: leave process_id, process_definition and run_type away")
	}
	if strings.TrimSpace(p.Interaction) == "" {
		return p, nil, chat.Errorf(chat.Invalid, "interaction is missing: it names the agent that answers, such as demo")
	}
	if len(p.Interaction) > 256 || len(p.Title) > chat.MaxTitle {
		return p, nil, chat.Errorf(chat.Invalid, "interaction has at most 256 bytes, title at most %d", chat.MaxTitle)
	}
	if err := json.Unmarshal(b, &kept); err != nil {
		return p, nil, malformed(err)
	}
	for key := range kept {
		if neverKept[key] || key == "" {
			delete(kept, key)
		}
	}
	if data := truthy(p.Data); data != nil {
		kept["data"] = data
	}
	kept.shrink()
	return p, kept, nil
}

// meta is what is kept of a run beside its session, by key.
type meta map[string]json.RawMessage

// metaOf reads it; it is nil for sessions that were begun elsewhere.
func metaOf(s *chat.Session) meta {
	var m struct {
		Vertesia meta `json:"vertesia"`
	}
	if len(s.Metadata) == 0 || json.Unmarshal(s.Metadata, &m) != nil {
		return nil
	}
	return m.Vertesia
}

// into puts it back beside what else the session's metadata holds.
func (m meta) into(metadata json.RawMessage) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if len(metadata) > 0 {
		if err := json.Unmarshal(metadata, &all); err != nil || all == nil {
			all = map[string]json.RawMessage{}
		}
	}
	b, err := marshal(m)
	if err != nil {
		return nil, err
	}
	all[via] = b
	return marshal(all)
}

func (m meta) text(key string) (s string) {
	_ = json.Unmarshal(m[key], &s) // absent or of another kind: none
	return s
}

func (m meta) set(key string, v any) {
	b, err := marshal(v)
	if err != nil {
		return
	}
	m[key] = b
}

// once reports whether the run ends by itself when it is done.
func (m meta) once() bool { return string(m["interactive"]) == "false" }

// shrink drops the largest things until the rest can be kept.
func (m meta) shrink() {
	size := 0
	keys := make([]string, 0, len(m))
	for k, v := range m {
		size += len(k) + len(v) + 8
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool {
		return len(m[keys[i]]) > len(m[keys[j]]) || len(m[keys[i]]) == len(m[keys[j]]) && keys[i] < keys[j]
	})
	for _, k := range keys {
		if size <= maxKept {
			return
		}
		if k != "interactive" && k != "interaction" {
			size -= len(k) + len(m[k]) + 8
			delete(m, k)
		}
	}
}

// firstMessage is what a run begins with: user_prompt, else task, else the only
// text in the data, else the data itself.
func firstMessage(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil || len(fields) == 0 {
		return ""
	}
	for _, key := range []string{"user_prompt", "task"} {
		if json.Unmarshal(fields[key], &text) == nil && text != "" {
			return text
		}
	}
	texts := 0
	for _, v := range fields {
		var s string
		if json.Unmarshal(v, &s) == nil && s != "" {
			text = s
			texts++
		}
	}
	if texts == 1 {
		return text
	}
	return string(data)
}
