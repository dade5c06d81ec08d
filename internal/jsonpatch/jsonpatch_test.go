package jsonpatch

import (
	"math/rand/v2"
	"testing"

	"github.com/parley-hq/parley/internal/json"
)

// randomJSON is a value with few different names, so that two values have much in common.
func randomJSON(rng *rand.Rand, depth int) any {
	switch n := rng.IntN(7); {
	case n < 2 && depth > 0:
		m := map[string]any{}
		for range rng.IntN(4) {
			m[[]string{"a", "b/c", "d~e", "ü"}[rng.IntN(4)]] = randomJSON(rng, depth-1)
		}
		return m
	case n < 4 && depth > 0:
		l := []any{}
		for range rng.IntN(4) {
			l = append(l, randomJSON(rng, depth-1))
		}
		return l
	}
	return []any{nil, true, 1, 12345678901234567, "x", "a longer text"}[rng.IntN(6)]
}

func TestDiffLeadsFromOneValueToTheOther(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		old, _ := json.Marshal(map[string]any{"v": randomJSON(rng, 4)})
		now, _ := json.Marshal(map[string]any{"v": randomJSON(rng, 4)})
		patch, _ := json.Marshal(diff([]operation{}, "", old, now))
		got, err := Apply(old, patch, 1<<20)
		if err != nil || !json.Same(got, now) {
			t.Fatalf("%s changed by %s is %s, not %s: %v", old, patch, got, now, err)
		}
	}
}

// FuzzApply: any patch gives JSON or an error.
func FuzzApply(f *testing.F) {
	f.Add(`{"a":[1,2]}`, `[{"op":"add","path":"/a/1","value":3},{"op":"move","from":"/a/0","path":"/b"},{"op":"test","path":"/b","value":1}]`)
	f.Add(`[]`, `[{"op":"add","path":"/-","value":{}},{"op":"copy","from":"/0","path":"/1"},{"op":"remove","path":"/0"}]`)
	f.Add(`{}`, `[{"op":"replace","path":"","value":null},{"op":"add","path":"/~1~0","value":1}]`)
	f.Add(`{"a":[1,1]}`, `[{"op":"add","path":"0/0","value":0},{"op":"move","from":"00/0","path":"/0"},{"op":"test","path":""}]`) // the library panics
	f.Fuzz(func(t *testing.T, doc, ops string) {
		if !json.Valid([]byte(doc)) {
			return
		}
		if value, err := Apply([]byte(doc), []byte(ops), 1<<20); err == nil && !json.Valid(value) {
			t.Fatalf("%s gave %s", ops, value)
		}
	})
}
