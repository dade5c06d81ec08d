package agui

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

// patchOp is an operation of JSON Patch (RFC 6902).
type patchOp struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// delta is the JSON Patch from old to now, nil when now itself is not longer. Libraries of clients refuse names of prototypes and
// empty names.
func delta(old, now json.RawMessage) json.RawMessage {
	ops := diff([]patchOp{}, "", old, now)
	b, err := json.Marshal(ops)
	if old == nil || err != nil || len(b) >= len(now) || slices.ContainsFunc(ops, func(o patchOp) bool {
		return strings.Contains(o.Path+"/", "//") || strings.Contains(o.Path, "proto")
	}) {
		return nil
	}
	return b
}

// diff appends the operations that change old to now.
func diff(ops []patchOp, path string, old, now json.RawMessage) []patchOp {
	var a, b map[string]json.RawMessage
	var listA, listB []json.RawMessage
	switch {
	case chat.SameJSON(old, now):
		return ops
	case json.Unmarshal(old, &a) == nil && json.Unmarshal(now, &b) == nil && a != nil && b != nil:
		for _, name := range slices.Sorted(maps.Keys(a)) {
			at := path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			if v, ok := b[name]; ok {
				ops = diff(ops, at, a[name], v)
			} else {
				ops = append(ops, patchOp{Op: "remove", Path: at})
			}
			delete(b, name)
		}
		for _, name := range slices.Sorted(maps.Keys(b)) {
			ops = append(ops, patchOp{"add", path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name), b[name]})
		}
		return ops
	case json.Unmarshal(old, &listA) == nil && json.Unmarshal(now, &listB) == nil && listA != nil && listB != nil:
		for i := range min(len(listA), len(listB)) {
			ops = diff(ops, path+"/"+strconv.Itoa(i), listA[i], listB[i])
		}
		for i := range slices.Backward(listA) {
			if i >= len(listB) {
				ops = append(ops, patchOp{Op: "remove", Path: path + "/" + strconv.Itoa(i)})
			}
		}
		for _, v := range listB[min(len(listA), len(listB)):] {
			ops = append(ops, patchOp{"add", path + "/-", v})
		}
		return ops
	}
	return append(ops, patchOp{"replace", path, now})
}
