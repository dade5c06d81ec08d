// Package jsonpatch writes and applies JSON Patch (RFC 6902), which AG-UI has for changes of states and activities.
package jsonpatch

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/parley-hq/parley/internal/json"
)

// Apply returns a value after a patch. It refuses a patch whose copy operations alone exceed maxCopy bytes, so that a small
// patch cannot produce a large value. The library panics on some malformed patches.
func Apply(value, patch json.RawMessage, maxCopy int64) (next json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			next, err = nil, fmt.Errorf("malformed JSON Patch: %v", v)
		}
	}()
	ops, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return ops.ApplyWithOptions(value, &jsonpatch.ApplyOptions{AccumulatedCopySizeLimit: maxCopy})
}

// operation is an operation of a patch.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Delta returns the patch from old to now. It returns nil when there is no old value, when now itself is not longer, and when a
// path has an empty name or the name of a prototype, which libraries of browsers refuse.
func Delta(old, now json.RawMessage) json.RawMessage {
	if old == nil {
		return nil
	}
	ops := diff([]operation{}, "", old, now)
	b, err := json.Marshal(ops)
	if err != nil || len(b) >= len(now) || slices.ContainsFunc(ops, func(o operation) bool {
		return strings.Contains(o.Path+"/", "//") || strings.Contains(o.Path, "proto")
	}) {
		return nil
	}
	return b
}

// diff appends the operations that change old to now.
func diff(ops []operation, path string, old, now json.RawMessage) []operation {
	var a, b map[string]json.RawMessage
	var listA, listB []json.RawMessage
	switch {
	case json.Same(old, now):
		return ops
	case json.Unmarshal(old, &a) == nil && json.Unmarshal(now, &b) == nil && a != nil && b != nil:
		for _, name := range slices.Sorted(maps.Keys(a)) {
			at := member(path, name)
			if v, ok := b[name]; ok {
				ops = diff(ops, at, a[name], v)
			} else {
				ops = append(ops, operation{Op: "remove", Path: at})
			}
			delete(b, name)
		}
		for _, name := range slices.Sorted(maps.Keys(b)) {
			ops = append(ops, operation{"add", member(path, name), b[name]})
		}
		return ops
	case json.Unmarshal(old, &listA) == nil && json.Unmarshal(now, &listB) == nil && listA != nil && listB != nil:
		for i := range min(len(listA), len(listB)) {
			ops = diff(ops, path+"/"+strconv.Itoa(i), listA[i], listB[i])
		}
		for i := range slices.Backward(listA) {
			if i >= len(listB) {
				ops = append(ops, operation{Op: "remove", Path: path + "/" + strconv.Itoa(i)})
			}
		}
		for _, v := range listB[min(len(listA), len(listB)):] {
			ops = append(ops, operation{"add", path + "/-", v})
		}
		return ops
	}
	return append(ops, operation{"replace", path, now})
}

// member is the path of a member of an object.
func member(path, name string) string {
	return path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
