package session

import (
	"context"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// searchBound is the number of events that one search reads. A page that reaches it says
// where the next search continues.
const searchBound = 50_000

// Search finds events whose payload contains a text, ignoring case, newest first.
func (s *Sessions) Search(ctx context.Context, c chat.Caller, id chat.SessionID, query string, before chat.Seq, limit int) (chat.SearchPage, error) {
	sess, err := s.visible(ctx, c, id)
	if err != nil {
		return chat.SearchPage{}, err
	}
	if query == "" || limit < 1 {
		return chat.SearchPage{}, chat.Errorf(chat.Invalid, "a search needs a text to look for and a limit of at least 1")
	}
	page := chat.SearchPage{Hits: []chat.Hit{}}
	want := strings.ToLower(query)
	seen := 0
	for f, err := range s.stored(ctx, sess.ID, chat.Range{Before: before, Desc: true}) {
		if err != nil {
			return chat.SearchPage{}, err
		}
		if len(page.Hits) == limit || seen == searchBound {
			page.More, page.Before = true, before
			return page, nil
		}
		seen++
		before = f.Seq
		hit, ok, err := search(f, want)
		if err != nil {
			return chat.SearchPage{}, err
		}
		if ok {
			page.Hits = append(page.Hits, hit)
		}
	}
	return page, nil
}

// search searches one event. It searches the raw bytes first, because most events do not
// match, and decodes the event if the bytes match or contain escapes.
func search(f chat.Fact, want string) (chat.Hit, bool, error) {
	raw := string(f.JSON)
	if !strings.Contains(raw, `\`) && !strings.Contains(strings.ToLower(raw), want) {
		return chat.Hit{}, false, nil
	}
	e, err := f.Event()
	if err != nil {
		return chat.Hit{}, false, err
	}
	if strings.HasPrefix(e.Type, "turn.") {
		return chat.Hit{}, false, nil
	}
	var payload any
	if err := json.Unmarshal(e.Payload, &payload); err != nil {
		return chat.Hit{}, false, err
	}
	text, ok := find(payload, want)
	hit := chat.Hit{Seq: e.Seq, At: e.At, Type: e.Type, Workstream: e.Workstream, Turn: e.Turn, Snippet: text}
	if fields, _ := payload.(map[string]any); strings.HasPrefix(e.Type, "agent.tool_") {
		hit.Call, _ = fields["call_id"].(string)
	}
	return hit, ok, nil
}

// find returns the first string in a JSON value that contains want, cut to the part
// around the match.
func find(v any, want string) (string, bool) {
	switch v := v.(type) {
	case string:
		low := strings.ToLower(v)
		if i := strings.Index(low, want); i >= 0 {
			// A letter and its lower-case form may differ in bytes, so the position is
			// counted in characters.
			at := skip(v, utf8.RuneCountInString(low[:i]))
			n := skip(v[at:], utf8.RuneCountInString(want))
			return around(v, at, n), true
		}
	case []any:
		for _, e := range v {
			if s, ok := find(e, want); ok {
				return s, true
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if unread[key] {
				continue
			}
			if s, ok := find(v[key], want); ok {
				return s, true
			}
		}
	}
	return "", false
}

// unread lists the fields that are not searched, because they are not shown to people.
var unread = map[string]bool{
	"block": true, "call_id": true, "request_id": true, "turn_id": true, "artifact_id": true, "batch_id": true,
	"sha256": true, "signature": true, "redacted": true, "trace_id": true, "user_id": true,
}

// skip returns the byte offset of character n.
func skip(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// around returns up to 60 bytes before and after the n bytes at a position.
func around(s string, at, n int) string {
	from, to := max(0, at-60), min(len(s), at+n+60)
	for from > 0 && !utf8.RuneStart(s[from]) {
		from--
	}
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to++
	}
	out := s[from:to]
	if from > 0 {
		out = "…" + out
	}
	if to < len(s) {
		out += "…"
	}
	return out
}
