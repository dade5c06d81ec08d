package index

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/natsprovider"
)

// MaxDimensions bounds a vector.
const MaxDimensions = 8192

// point is a stored vector, of length 1.
type point struct {
	ID       string
	Vector   []float32
	Metadata json.RawMessage
}

type points struct {
	byID map[string]*point
	dims int
}

// wirePoint is a point in requests and events.
type wirePoint struct {
	Namespace  string          `json:"namespace,omitempty"`
	ID         string          `json:"id"`
	Vector     []float32       `json:"vector,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Provenance json.RawMessage `json:"provenance,omitempty"`
}

type search struct {
	Namespace string                     `json:"namespace"`
	Vector    []float32                  `json:"vector"`
	TopK      int                        `json:"top_k"`
	Filter    map[string]json.RawMessage `json:"filter"`
}

// Match is one result of a search.
type Match struct {
	ID       string          `json:"id"`
	Score    float64         `json:"score"` // cosine: 1 is the same direction
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// Vector returns the provider of vector.
func Vector(s Sessions) natsprovider.Provider {
	v := &vectors{shelf[points]{sessions: s, kind: "vector", books: map[chat.SessionID]*book[points]{}, empty: func() *points { return &points{byID: map[string]*point{}} }, apply: applyPoint}}
	return natsprovider.Provider{Domain: "vector", Ops: map[string]natsprovider.Op{
		"upsert": natsprovider.Typed(v.upsert), "search": natsprovider.Typed(v.search), "delete": natsprovider.Typed(v.remove),
	}}
}

type vectors struct{ shelf[points] }

func applyPoint(ps *points, e *chat.Event) {
	var p wirePoint
	if json.Unmarshal(e.Payload, &p) != nil {
		return
	}
	switch e.Type {
	case "vector.upserted":
		ps.byID[p.ID] = &point{ID: p.ID, Vector: unit(p.Vector), Metadata: p.Metadata}
		ps.dims = len(p.Vector)
	case "vector.deleted":
		delete(ps.byID, p.ID)
		if len(ps.byID) == 0 {
			ps.dims = 0
		}
	}
}

// unit is a vector of the same direction and length 1.
func unit(v []float32) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	out := make([]float32, len(v))
	if sum > 0 {
		for i, x := range v {
			out[i] = float32(float64(x) / math.Sqrt(sum))
		}
	}
	return out
}

func (v *vectors) upsert(ctx context.Context, c natsprovider.Call, p wirePoint) (map[string]any, error) {
	if p.ID == "" || len(p.ID) > MaxName {
		return nil, chat.Errorf(chat.Invalid, "a vector has an id of 1 to %d bytes", MaxName)
	}
	if len(p.Vector) == 0 || len(p.Vector) > MaxDimensions {
		return nil, chat.Errorf(chat.Invalid, "a vector has 1 to %d numbers", MaxDimensions)
	}
	b, err := v.open(ctx, c, p.Namespace)
	if err != nil {
		return nil, err
	}
	if err := b.fits(len(p.Vector), p.ID); err != nil {
		return nil, err
	}
	p.Namespace = ""
	if _, err := b.change(ctx, "vector.upserted", p); err != nil {
		return nil, err
	}
	return map[string]any{"ok": true, "id": p.ID}, nil
}

// fits refuses vectors of another size than those that are there.
func (b *book[T]) fits(dims int, id string) error {
	ps, ok := any(b.value).(*points)
	if !ok {
		return nil
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	_, replaces := ps.byID[id]
	if ps.dims != 0 && ps.dims != dims && (len(ps.byID) > 1 || !replaces) {
		return chat.Errorf(chat.Conflict, "the vectors of this collection have %d numbers, this one has %d", ps.dims, dims)
	}
	return nil
}

func (v *vectors) remove(ctx context.Context, c natsprovider.Call, p wirePoint) (map[string]any, error) {
	b, err := v.open(ctx, c, p.Namespace)
	if err != nil {
		return nil, err
	}
	b.mu.RLock()
	_, found := b.value.byID[p.ID]
	b.mu.RUnlock()
	if found {
		if _, err := b.change(ctx, "vector.deleted", wirePoint{ID: p.ID, Provenance: p.Provenance}); err != nil {
			return nil, err
		}
	}
	return map[string]any{"ok": true, "deleted": found}, nil
}

func (v *vectors) search(ctx context.Context, c natsprovider.Call, q search) (map[string]any, error) {
	if q.TopK == 0 {
		q.TopK = 10
	}
	if q.TopK < 0 || q.TopK > 1000 {
		return nil, chat.Errorf(chat.Invalid, "top_k is 1 to 1000")
	}
	b, err := v.open(ctx, c, q.Namespace)
	if err != nil {
		return nil, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	matches := []Match{}
	if len(b.value.byID) > 0 && b.value.dims != len(q.Vector) {
		return nil, chat.Errorf(chat.Invalid, "the vectors of this collection have %d numbers, the query has %d", b.value.dims, len(q.Vector))
	}
	want := unit(q.Vector)
	for _, p := range b.value.byID {
		if !contains(p.Metadata, q.Filter) {
			continue
		}
		score := 0.0
		for i, x := range p.Vector {
			score += float64(x) * float64(want[i])
		}
		matches = append(matches, Match{ID: p.ID, Score: score, Metadata: p.Metadata})
	}
	slices.SortFunc(matches, func(a, b Match) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return map[string]any{"ok": true, "matches": matches[:min(q.TopK, len(matches))]}, nil
}

// contains reports whether an object has these values.
func contains(object json.RawMessage, want map[string]json.RawMessage) bool {
	if len(want) == 0 {
		return true
	}
	var have map[string]json.RawMessage
	if json.Unmarshal(object, &have) != nil {
		return false
	}
	for k, v := range want {
		if have[k] == nil || canonical(have[k]) != canonical(v) {
			return false
		}
	}
	return true
}

func canonical(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(b)
}
