package main

import (
	"bytes"
	"encoding/json"
	"runtime/debug"
	"testing"
	"time"
)

func TestEveryModuleIsListedOnce(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.0", Path: "example.com/a/cmd", Main: debug.Module{Path: "example.com/a", Version: "v1.0.0"},
		Deps: []*debug.Module{
			{Path: "example.com/b/v2", Version: "v2.1.0"},
			{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/new", Version: "v1.2.3"}},
		},
	}
	var b bytes.Buffer
	if err := write(&b, info, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(b.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"example.com/a": "pkg:golang/example.com/a@v1.0.0", "stdlib": "pkg:golang/stdlib@1.26.0",
		"example.com/b/v2": "pkg:golang/example.com/b/v2@v2.1.0", "example.com/new": "pkg:golang/example.com/new@v1.2.3",
	}
	ids := map[string]bool{}
	for _, p := range d.Packages {
		if len(p.Refs) != 1 || p.Refs[0].Locator != want[p.Name] || ids[p.ID] {
			t.Errorf("%+v", p)
		}
		ids[p.ID] = true
		delete(want, p.Name)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	for _, r := range d.Relationships {
		if !ids[r.To] {
			t.Errorf("%s is not a package", r.To)
		}
	}
}
