package native

import (
	"net/http"
	"slices"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
	"github.com/parley-hq/parley/internal/edge"
)

// rangeOf reads which events are asked for.
func rangeOf(r *http.Request) (chat.Range, error) {
	q := edge.NewQuery(r)
	rg := chat.Range{
		After: q.Sequence("after", 0), Before: q.Sequence("before", 1),
		Limit: q.Limit(100, 1000), MaxBytes: 8 << 20, Desc: q.OneOf("order", "asc", "desc") == "desc",
	}
	if s := q.Text("types"); s != "" {
		rg.Types = strings.Split(s, ",")
		if slices.ContainsFunc(rg.Types, func(t string) bool { return chat.CheckType(t) != nil }) {
			q.Refuse("types", s, "give names of types, such as user.message, with one comma between them")
		}
	}
	if w, given := q.Get("workstream"); given {
		if w == "main" {
			w = ""
		}
		if w != "" && chat.CheckWorkstream(w) != nil {
			q.Refuse("workstream", w, "give the id of a workstream, or main")
		}
		rg.Workstream = &w
	}
	return rg, q.Err
}

// startOf reads where a stream begins. Last-Event-ID is used before after, because a
// browser that reconnects repeats the URL of its first request.
func startOf(r *http.Request) (core.Start, error) {
	q := edge.NewQuery(r)
	text, given := q.Get("after")
	if q.Err != nil {
		return core.Start{}, q.Err
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		text, given = last, true
	}
	if !given {
		return core.Start{}, nil
	}
	c, err := chat.ParseCursor(text)
	if err != nil {
		return core.Start{}, err
	}
	return core.Start{Cursor: &c}, nil
}
