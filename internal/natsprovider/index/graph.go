package index

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/natsprovider"
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

type graph struct {
	records map[string]*Record
	order   []string // ids, the oldest first
	edges   []*Edge
}

// Graph returns the provider of graph.
func Graph(s Sessions) natsprovider.Provider {
	g := &graphs{shelf[graph]{sessions: s, kind: "graph", books: map[chat.SessionID]*book[graph]{}, empty: func() *graph { return &graph{records: map[string]*Record{}} }, apply: applyGraph}}
	return natsprovider.Provider{Domain: "graph", Ops: map[string]natsprovider.Op{
		"write": natsprovider.Typed(g.put), "relate": natsprovider.Typed(g.relate), "resolve": natsprovider.Typed(g.resolve),
		"query": natsprovider.Typed(g.query), "discover": natsprovider.Typed(g.discover),
	}}
}

type graphs struct{ shelf[graph] }

func applyGraph(g *graph, e *chat.Event) {
	switch e.Type {
	case "graph.written":
		var r Record
		if json.Unmarshal(e.Payload, &r) != nil {
			return
		}
		if r.At = e.At; r.ID == "" {
			r.ID = string(e.ID)
		}
		if old := g.records[r.ID]; old != nil {
			// Whoever was handed the old one goes on to read it.
			data := maps.Clone(old.Data)
			maps.Copy(data, r.Data)
			r.Data = data
			g.records[r.ID] = &r
			return
		}
		if r.Data == nil {
			r.Data = map[string]json.RawMessage{}
		}
		g.records[r.ID] = &r
		g.order = append(g.order, r.ID)
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

type writeAsk struct {
	Handle     string                     `json:"handle"`
	Type       string                     `json:"record_type"`
	Data       map[string]json.RawMessage `json:"data"`
	Provenance json.RawMessage            `json:"provenance"`
}

// put stores a record; one with an id that is there gets the new fields.
func (g *graphs) put(ctx context.Context, c natsprovider.Call, q writeAsk) (map[string]any, error) {
	if q.Type == "" || len(q.Type) > MaxName {
		return nil, chat.Errorf(chat.Invalid, "a record has a record_type of 1 to %d bytes", MaxName)
	}
	b, err := g.open(ctx, c, q.Handle)
	if err != nil {
		return nil, err
	}
	r := Record{Type: q.Type, Data: q.Data, Provenance: q.Provenance}
	if raw := q.Data["id"]; raw != nil && (json.Unmarshal(raw, &r.ID) != nil || len(r.ID) > MaxName) {
		return nil, chat.Errorf(chat.Invalid, "the id of a record is a text of at most %d bytes", MaxName)
	}
	e, err := b.change(ctx, "graph.written", r)
	if err != nil {
		return nil, err
	}
	if r.ID == "" {
		r.ID = string(e.ID)
	}
	return map[string]any{"ok": true, "id": r.ID}, nil
}

type relateAsk struct {
	Handle string `json:"handle"`
	Edge
}

func (g *graphs) relate(ctx context.Context, c natsprovider.Call, q relateAsk) (map[string]any, error) {
	if q.From == "" || q.To == "" || q.Edge.Edge == "" || len(q.Edge.Edge) > MaxName {
		return nil, chat.Errorf(chat.Invalid, "a relation is {from, edge, to}")
	}
	b, err := g.open(ctx, c, q.Handle)
	if err != nil {
		return nil, err
	}
	b.mu.RLock()
	from, to := b.value.records[q.From], b.value.records[q.To]
	b.mu.RUnlock()
	for id, r := range map[string]*Record{q.From: from, q.To: to} {
		if r == nil {
			return nil, chat.Errorf(chat.NotFound, "there is no record %q", id)
		}
	}
	_, err = b.change(ctx, "graph.related", q.Edge)
	return map[string]any{"ok": err == nil}, err
}

type resolveAsk struct {
	Handle     string                     `json:"handle"`
	Type       string                     `json:"record_type"`
	Name       *string                    `json:"name"`
	Email      *string                    `json:"email"`
	Attributes map[string]json.RawMessage `json:"attributes"`
}

// resolve finds the records that something can be: names and addresses are
// compared without regard to case.
func (g *graphs) resolve(ctx context.Context, c natsprovider.Call, q resolveAsk) (map[string]any, error) {
	b, err := g.open(ctx, c, q.Handle)
	if err != nil {
		return nil, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	found := []Record{}
	for _, id := range b.value.order {
		r := b.value.records[id]
		if (q.Type == "" || r.Type == q.Type) && r.says("name", q.Name) && r.says("email", q.Email) && r.has(q.Attributes) {
			found = append(found, *r)
		}
	}
	return map[string]any{"ok": true, "matches": found}, nil
}

func (r *Record) says(field string, want *string) bool {
	if want == nil {
		return true
	}
	var have string
	return json.Unmarshal(r.Data[field], &have) == nil && strings.EqualFold(strings.TrimSpace(have), strings.TrimSpace(*want))
}

func (r *Record) has(want map[string]json.RawMessage) bool {
	for k, v := range want {
		if r.Data[k] == nil || canonical(r.Data[k]) != canonical(v) {
			return false
		}
	}
	return true
}

type queryAsk struct {
	Handle string                     `json:"handle"`
	Query  string                     `json:"query"`
	Vars   map[string]json.RawMessage `json:"vars"`
	Limit  int                        `json:"limit"`
}

// query understands words: a record type or *, then field=value (a text, a JSON
// value without spaces, or $name from vars), then ->edge or <-edge to go on to the
// records at the other end, again with conditions. For example
//
//	person name=$who ->works_at city=Paris
func (g *graphs) query(ctx context.Context, c natsprovider.Call, q queryAsk) (map[string]any, error) {
	words := strings.Fields(q.Query)
	if len(words) == 0 || strings.ContainsRune(words[0], '=') {
		return nil, chat.Errorf(chat.Invalid, "a query begins with a record type or *, such as: person name=$who ->works_at")
	}
	b, err := g.open(ctx, c, q.Handle)
	if err != nil {
		return nil, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	v := b.value
	var at []*Record
	for _, id := range v.order {
		if r := v.records[id]; words[0] == "*" || r.Type == words[0] {
			at = append(at, r)
		}
	}
	for _, w := range words[1:] {
		switch {
		case strings.HasPrefix(w, "->"), strings.HasPrefix(w, "<-"):
			at = v.step(at, w[2:], w[0] == '-')
		case strings.ContainsRune(w, '='):
			field, value, _ := strings.Cut(w, "=")
			want := literal(value)
			if name, ok := strings.CutPrefix(value, "$"); ok {
				if want = q.Vars[name]; want == nil {
					return nil, chat.Errorf(chat.Invalid, "the query uses $%s, and vars does not have it", name)
				}
			}
			at = slices.DeleteFunc(at, func(r *Record) bool { return !r.has(map[string]json.RawMessage{field: want}) })
		default:
			return nil, chat.Errorf(chat.Invalid, "%q is neither field=value nor ->edge", w)
		}
	}
	if q.Limit <= 0 || q.Limit > 1000 {
		q.Limit = 100
	}
	out := []Record{}
	for _, r := range at[:min(q.Limit, len(at))] {
		out = append(out, *r)
	}
	return map[string]any{"ok": true, "records": out, "more": len(at) > q.Limit}, nil
}

// literal is a value as JSON; a plain word is a text.
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

// step goes along an edge.
func (g *graph) step(at []*Record, edge string, forward bool) (next []*Record) {
	seen := map[string]bool{}
	for _, r := range at {
		for _, e := range g.edges {
			from, to := e.From, e.To
			if !forward {
				from, to = to, from
			}
			if e.Edge == edge && from == r.ID && !seen[to] && g.records[to] != nil {
				seen[to] = true
				next = append(next, g.records[to])
			}
		}
	}
	return next
}

type discoverAsk struct {
	Handle string `json:"handle"`
}

// discover tells what there is.
func (g *graphs) discover(ctx context.Context, c natsprovider.Call, q discoverAsk) (map[string]any, error) {
	b, err := g.open(ctx, c, q.Handle)
	if err != nil {
		return nil, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	types, edges, fields := map[string]int{}, map[string]int{}, map[string][]string{}
	for _, r := range b.value.records {
		types[r.Type]++
		for f := range r.Data {
			if !slices.Contains(fields[r.Type], f) {
				fields[r.Type] = append(fields[r.Type], f)
			}
		}
	}
	for _, f := range fields {
		slices.Sort(f)
	}
	for _, e := range b.value.edges {
		edges[e.Edge]++
	}
	return map[string]any{"ok": true, "record_types": types, "fields": fields, "edges": edges}, nil
}
