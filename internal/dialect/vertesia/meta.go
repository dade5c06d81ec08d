package vertesia

import (
	"cmp"
	"maps"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// meta is the part of a session's metadata that belongs to this dialect, by key.
type meta map[string]json.RawMessage

// metaOf reads it; it is nil for sessions of other dialects.
func metaOf(s *chat.Session) meta {
	var m struct {
		Vertesia meta `json:"vertesia"`
	}
	if len(s.Metadata) == 0 || json.Unmarshal(s.Metadata, &m) != nil {
		return nil
	}
	return m.Vertesia
}

// into adds it to the metadata of a session.
func (m meta) into(metadata json.RawMessage) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if len(metadata) > 0 {
		if err := json.Unmarshal(metadata, &all); err != nil || all == nil {
			all = map[string]json.RawMessage{}
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	all[via] = b
	return json.Marshal(all)
}

func (m meta) text(key string) (s string) {
	_ = json.Unmarshal(m[key], &s) // absent or of another type: ""
	return s
}

func (m meta) set(key string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		return
	}
	m[key] = b
}

// once reports whether the run is complete when its work is done.
func (m meta) once() bool { return string(m["interactive"]) == "false" }

// shrink drops the largest values until the rest can be stored.
func (m meta) shrink() {
	size := 0
	for k, v := range m {
		size += len(k) + len(v) + 8
	}
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(m[b]), len(m[a])), cmp.Compare(a, b))
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
