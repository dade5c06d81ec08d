package audit

import (
	"cmp"
	"slices"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// window is for how long repeats of an entry are counted.
const window = chat.At(60_000_000)

// Bounds of the groups of one minute. Without them refused sign-ins could fill the disk.
const (
	maxAddresses = 20   // refused sign-ins: all other addresses are counted together
	maxKinds     = 1000 // other entries: more than these are not counted, but stored
)

// others is the name of the addresses beyond maxAddresses.
const others = "others"

// repeats counts equal entries. The first is stored at once; those that follow within a minute are one entry, with their
// number.
type repeats struct {
	began     chat.At
	counted   map[string]*chat.AuditEntry // Count: since the first one
	addresses int
}

// add returns the entries that are to be stored now.
func (r *repeats) add(e chat.AuditEntry) []chat.AuditEntry {
	due := r.due(e.At, false)
	if r.counted == nil {
		r.began, r.counted, r.addresses = e.At, map[string]*chat.AuditEntry{}, 0
	}
	key := keyOf(&e)
	known := r.counted[key]
	switch {
	case known != nil:
	case e.Event == signInRefused && r.addresses == maxAddresses:
		e.Address, e.Details = "", map[string]any{"addresses": others}
		key = keyOf(&e)
		known = r.counted[key]
	case e.Event == signInRefused:
		r.addresses++
	case len(r.counted) >= maxKinds:
		return append(due, e)
	}
	if known != nil {
		known.Count += max(e.Count, 1)
		known.At = e.At
		return due
	}
	rest := e
	rest.Count = 0
	r.counted[key] = &rest
	return append(due, e)
}

// keyOf is the same for equal entries. All refused sign-ins of one address count as equal.
func keyOf(e *chat.AuditEntry) string {
	same := *e
	same.At, same.Count = 0, 0
	if e.Event == signInRefused {
		same.Details = nil
	}
	b, _ := json.Marshal(&same) // texts, numbers and lists of texts
	return string(b)
}

// due returns what was counted since the first ones, once the minute is over.
func (r *repeats) due(now chat.At, all bool) (out []chat.AuditEntry) {
	if r.counted == nil || !all && now < r.began+window {
		return nil
	}
	for _, e := range r.counted {
		if e.Count > 0 {
			out = append(out, *e)
		}
	}
	r.counted = nil
	slices.SortFunc(out, func(x, y chat.AuditEntry) int { return cmp.Compare(x.At, y.At) })
	return out
}
