package audit

import (
	"fmt"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/text"
)

// Bounds of the details of an entry.
const (
	maxDetails = 16
	maxText    = 256
	maxList    = 32
)

// entryOf makes an entry of a report.
func entryOf(event string, c chat.Caller, details map[string]any) chat.AuditEntry {
	e := chat.AuditEntry{Event: event, Outcome: chat.AuditDone}
	if c.Actor.ID != "" {
		e.Actor = &chat.Actor{Kind: c.Actor.Kind, ID: clip(c.Actor.ID)}
		if c.Actor != chat.System {
			e.Workspace = c.In()
		}
	}
	if event == signInRefused {
		e.Outcome = string(chat.Unauthenticated)
	}
	for name, v := range details {
		switch name {
		case "session_id":
			e.Session = chat.SessionID(clip(fmt.Sprint(v)))
		case "workspace":
			e.Workspace = clip(fmt.Sprint(v))
		case "address":
			e.Address = clip(fmt.Sprint(v))
		case "outcome":
			e.Outcome = clip(fmt.Sprint(v))
		case "count", "refused":
			e.Count, _ = v.(int)
		default:
			if len(e.Details) == maxDetails {
				continue
			}
			if e.Details == nil {
				e.Details = map[string]any{}
			}
			e.Details[name] = bounded(v)
		}
	}
	return e
}

// bounded shortens a detail.
func bounded(v any) any {
	switch v := v.(type) {
	case bool, int, int64, uint64, float64, nil:
		return v
	case []string:
		out := make([]string, 0, min(len(v), maxList))
		for _, s := range v[:min(len(v), maxList)] {
			out = append(out, clip(s))
		}
		if len(v) > maxList {
			out = append(out, "…")
		}
		return out
	}
	return clip(fmt.Sprint(v))
}

func clip(s string) string { return text.Clip(strings.ToValidUTF8(s, "\uFFFD"), maxText) }
