package index

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/natsprovider"
	"github.com/parley-hq/parley/internal/record"
)

// Record is a node of a graph.
type Record struct {
	ID         string                     `json:"id"`
	Type       string                     `json:"record_type"`
	Data       map[string]json.RawMessage `json:"data"`
	Provenance json.RawMessage            `json:"provenance,omitempty"`
	At         chat.At                    `json:"updated_at,omitzero"`
}

// Edge leads from one record to another.
type Edge struct {
	From       string          `json:"from"`
	Edge       string          `json:"edge"`
	To         string          `json:"to"`
	Properties json.RawMessage `json:"properties,omitempty"`
	Provenance json.RawMessage `json:"provenance,omitempty"`
}

// graph is a collection of records and edges. A stored record is never changed, only replaced.
type graph struct {
	records map[string]*Record
	order   []string // ids, by creation
	edges   []*Edge
}

// Graph returns the provider of graph.
func Graph(s Sessions) natsprovider.Provider {
	g := &graphs{newCollections(s, "graph", func() *graph { return &graph{records: map[string]*Record{}} })}
	return natsprovider.Provider{Domain: "graph", Ops: map[string]natsprovider.Op{
		"write": natsprovider.Typed(g.write), "relate": natsprovider.Typed(g.relate), "resolve": natsprovider.Typed(g.resolve),
		"query": natsprovider.Typed(g.query), "discover": natsprovider.Typed(g.discover),
	}}
}

type graphs struct{ collections[*graph] }

// Apply changes the collection as an event of the log says.
func (g *graph) Apply(e *chat.Event) {
	switch e.Type {
	case "graph.written":
		var r Record
		if json.Unmarshal(e.Payload, &r) != nil {
			return
		}
		if r.At = e.At; r.ID == "" {
			r.ID = string(e.ID)
		}
		data := map[string]json.RawMessage{}
		if old := g.records[r.ID]; old != nil {
			maps.Copy(data, old.Data)
		} else {
			g.order = append(g.order, r.ID)
		}
		maps.Copy(data, r.Data)
		r.Data = data
		g.records[r.ID] = &r
	case "graph.related":
		var d Edge
		if json.Unmarshal(e.Payload, &d) != nil {
			return
		}
		for _, old := range g.edges {
			if old.From == d.From && old.Edge == d.Edge && old.To == d.To {
				*old = d
				return
			}
		}
		g.edges = append(g.edges, &d)
	}
}

type writeRequest struct {
	Handle     string                     `json:"handle"`
	Type       string                     `json:"record_type"`
	Data       map[string]json.RawMessage `json:"data"`
	Provenance json.RawMessage            `json:"provenance"`
}

// write stores a record. When a record has the same id, it gets the new fields.
func (g *graphs) write(ctx context.Context, c natsprovider.Call, q writeRequest) (map[string]any, error) {
	if q.Type == "" || len(q.Type) > maxName {
		return nil, chat.Errorf(chat.Invalid, "a record has a record_type of 1 to %d bytes", maxName)
	}
	r := Record{Type: q.Type, Data: q.Data, Provenance: q.Provenance}
	if raw := q.Data["id"]; raw != nil && (json.Unmarshal(raw, &r.ID) != nil || len(r.ID) > maxName) {
		return nil, chat.Errorf(chat.Invalid, "the id of a record is a text of at most %d bytes", maxName)
	}
	id := r.ID
	err := g.change(ctx, c, q.Handle, func(tx *record.Tx[*graph]) error {
		e, err := tx.Append(ctx, "graph.written", r, "")
		if id == "" {
			id = string(e.ID)
		}
		return err
	})
	return map[string]any{"ok": true, "id": id}, err
}

type relateRequest struct {
	Handle string `json:"handle"`
	Edge
}

// relate stores an edge between two records.
func (g *graphs) relate(ctx context.Context, c natsprovider.Call, q relateRequest) (map[string]any, error) {
	if q.From == "" || q.To == "" || q.Edge.Edge == "" || len(q.Edge.Edge) > maxName {
		return nil, chat.Errorf(chat.Invalid, "a relation is {from, edge, to}")
	}
	err := g.change(ctx, c, q.Handle, func(tx *record.Tx[*graph]) error {
		for _, id := range []string{q.From, q.To} {
			if tx.Value.records[id] == nil {
				return chat.Errorf(chat.NotFound, "there is no record %q", id)
			}
		}
		_, err := tx.Append(ctx, "graph.related", q.Edge, "")
		return err
	})
	return map[string]any{"ok": true}, err
}

type resolveRequest struct {
	Handle     string                     `json:"handle"`
	Type       string                     `json:"record_type"`
	Name       *string                    `json:"name"`
	Email      *string                    `json:"email"`
	Attributes map[string]json.RawMessage `json:"attributes"`
}

// resolve finds the records with a name, an address and attributes. Names and addresses are compared without regard to
// case.
func (g *graphs) resolve(ctx context.Context, c natsprovider.Call, q resolveRequest) (map[string]any, error) {
	found := []*Record{}
	err := g.view(ctx, c, q.Handle, func(v *graph) error {
		for _, id := range v.order {
			r := v.records[id]
			if (q.Type == "" || r.Type == q.Type) && r.hasText("name", q.Name) && r.hasText("email", q.Email) && contains(r.Data, q.Attributes) {
				found = append(found, r)
			}
		}
		return nil
	})
	return map[string]any{"ok": true, "matches": found}, err
}

func (r *Record) hasText(field string, want *string) bool {
	if want == nil {
		return true
	}
	var have string
	return json.Unmarshal(r.Data[field], &have) == nil && strings.EqualFold(strings.TrimSpace(have), strings.TrimSpace(*want))
}

type queryRequest struct {
	Handle string                     `json:"handle"`
	Query  string                     `json:"query"`
	Vars   map[string]json.RawMessage `json:"vars"`
	Limit  int                        `json:"limit"`
}

// query finds records. A query is a record type or *, then field=value (a text, a JSON value without spaces, or $name
// from vars), then ->edge or <-edge for the records at the other end, again with conditions. For example
//
//	person name=$who ->works_at city=Paris
func (g *graphs) query(ctx context.Context, c natsprovider.Call, q queryRequest) (map[string]any, error) {
	words := strings.Fields(q.Query)
	if len(words) == 0 || strings.ContainsRune(words[0], '=') {
		return nil, chat.Errorf(chat.Invalid, "a query begins with a record type or *, such as: person name=$who ->works_at")
	}
	var found []*Record
	err := g.view(ctx, c, q.Handle, func(v *graph) (err error) {
		found, err = v.find(words, q.Vars)
		return err
	})
	if err != nil {
		return nil, err
	}
	if q.Limit <= 0 || q.Limit > 1000 {
		q.Limit = 100
	}
	first := append([]*Record{}, found[:min(q.Limit, len(found))]...)
	return map[string]any{"ok": true, "records": first, "more": len(found) > q.Limit}, nil
}

// find runs a query.
func (g *graph) find(words []string, vars map[string]json.RawMessage) (found []*Record, err error) {
	for _, id := range g.order {
		if r := g.records[id]; words[0] == "*" || r.Type == words[0] {
			found = append(found, r)
		}
	}
	for _, w := range words[1:] {
		field, value, condition := strings.Cut(w, "=")
		switch {
		case strings.HasPrefix(w, "->"), strings.HasPrefix(w, "<-"):
			found = g.step(found, w[2:], w[0] == '-')
		case condition:
			want := literal(value)
			if name, ok := strings.CutPrefix(value, "$"); ok {
				if want = vars[name]; want == nil {
					return nil, chat.Errorf(chat.Invalid, "the query uses $%s, and vars does not have it", name)
				}
			}
			found = slices.DeleteFunc(found, func(r *Record) bool { return !contains(r.Data, map[string]json.RawMessage{field: want}) })
		default:
			return nil, chat.Errorf(chat.Invalid, "%q is neither field=value nor ->edge", w)
		}
	}
	return found, nil
}

// literal returns a value as JSON; a plain word is a text.
func literal(s string) json.RawMessage {
	if json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	b, err := json.Marshal(s)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

// step returns the records at the other end of the edges of some records.
func (g *graph) step(from []*Record, edge string, forward bool) (next []*Record) {
	seen := map[string]bool{}
	for _, r := range from {
		for _, e := range g.edges {
			near, far := e.From, e.To
			if !forward {
				near, far = far, near
			}
			if e.Edge == edge && near == r.ID && !seen[far] && g.records[far] != nil {
				seen[far] = true
				next = append(next, g.records[far])
			}
		}
	}
	return next
}

type discoverRequest struct {
	Handle string `json:"handle"`
}

// discover counts the record types and edges, and lists the fields.
func (g *graphs) discover(ctx context.Context, c natsprovider.Call, q discoverRequest) (map[string]any, error) {
	types, edges, fields := map[string]int{}, map[string]int{}, map[string][]string{}
	err := g.view(ctx, c, q.Handle, func(v *graph) error {
		for _, r := range v.records {
			types[r.Type]++
			for f := range r.Data {
				if !slices.Contains(fields[r.Type], f) {
					fields[r.Type] = append(fields[r.Type], f)
				}
			}
		}
		for _, e := range v.edges {
			edges[e.Edge]++
		}
		return nil
	})
	for _, f := range fields {
		slices.Sort(f)
	}
	return map[string]any{"ok": true, "record_types": types, "fields": fields, "edges": edges}, err
}
