package index

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/natsprovider"
	"github.com/parley-hq/parley/internal/record"
)

// maxDimensions bounds a vector.
const maxDimensions = 8192

// point is a stored vector, of length 1.
type point struct {
	ID       string
	Vector   []float32
	Metadata json.RawMessage
}

// points is a collection of vectors that have the same number of dimensions.
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

type searchRequest struct {
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
	v := &vectors{newCollections(s, "vector", func() *points { return &points{byID: map[string]*point{}} })}
	return natsprovider.Provider{Domain: "vector", Ops: map[string]natsprovider.Op{
		"upsert": natsprovider.Typed(v.upsert), "search": natsprovider.Typed(v.search), "delete": natsprovider.Typed(v.delete),
	}}
}

type vectors struct{ collections[*points] }

// Apply changes the collection as an event of the log says.
func (ps *points) Apply(e *chat.Event) {
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

// unit returns the vector of the same direction and length 1.
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
	if p.ID == "" || len(p.ID) > maxName {
		return nil, chat.Errorf(chat.Invalid, "a vector has an id of 1 to %d bytes", maxName)
	}
	if len(p.Vector) == 0 || len(p.Vector) > maxDimensions {
		return nil, chat.Errorf(chat.Invalid, "a vector has 1 to %d numbers", maxDimensions)
	}
	namespace := p.Namespace
	p.Namespace = ""
	err := v.change(ctx, c, namespace, func(tx *record.Tx[*points]) error {
		ps := tx.Value
		replaces := ps.byID[p.ID] != nil
		if ps.dims != 0 && ps.dims != len(p.Vector) && (len(ps.byID) > 1 || !replaces) {
			return chat.Errorf(chat.Conflict, "the vectors of this collection have %d numbers, this one has %d", ps.dims, len(p.Vector))
		}
		_, err := tx.Append(ctx, "vector.upserted", p, "")
		return err
	})
	return map[string]any{"ok": true, "id": p.ID}, err
}

func (v *vectors) delete(ctx context.Context, c natsprovider.Call, p wirePoint) (map[string]any, error) {
	found := false
	err := v.change(ctx, c, p.Namespace, func(tx *record.Tx[*points]) error {
		if found = tx.Value.byID[p.ID] != nil; !found {
			return nil
		}
		_, err := tx.Append(ctx, "vector.deleted", wirePoint{ID: p.ID, Provenance: p.Provenance}, "")
		return err
	})
	return map[string]any{"ok": true, "deleted": found}, err
}

func (v *vectors) search(ctx context.Context, c natsprovider.Call, q searchRequest) (map[string]any, error) {
	if q.TopK == 0 {
		q.TopK = 10
	}
	if q.TopK < 0 || q.TopK > 1000 {
		return nil, chat.Errorf(chat.Invalid, "top_k is 1 to 1000")
	}
	matches := []Match{}
	err := v.view(ctx, c, q.Namespace, func(ps *points) error {
		if len(ps.byID) > 0 && ps.dims != len(q.Vector) {
			return chat.Errorf(chat.Invalid, "the vectors of this collection have %d numbers, the query has %d", ps.dims, len(q.Vector))
		}
		want := unit(q.Vector)
		for _, p := range ps.byID {
			if p.fits(q.Filter) {
				matches = append(matches, Match{ID: p.ID, Score: dot(p.Vector, want), Metadata: p.Metadata})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(matches, func(a, b Match) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return map[string]any{"ok": true, "matches": matches[:min(q.TopK, len(matches))]}, nil
}

// fits reports whether the metadata have the values of a filter.
func (p *point) fits(filter map[string]json.RawMessage) bool {
	var metadata map[string]json.RawMessage
	return len(filter) == 0 || json.Unmarshal(p.Metadata, &metadata) == nil && contains(metadata, filter)
}

func dot(a, b []float32) (sum float64) {
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}
