package convert

import (
	"strings"
	"testing"
)

// Ids and names that differ only where a provider does not look stay different.
func TestNamesDoNotCollide(t *testing.T) {
	n := NewNames(20, "")
	seen := map[string]string{}
	for _, s := range []string{"a/b", "a.b", "a_b", strings.Repeat("x", 30), strings.Repeat("x", 31), "", "ok"} {
		made := n.Of(s)
		if other, twice := seen[made]; twice || len(made) > 20 || len(made) == 0 {
			t.Errorf("%q and %q are both %q", s, other, made)
		}
		seen[made] = s
		if n.Of(s) != made {
			t.Errorf("%q changes its name", s)
		}
	}
	g := NewNames(8, ".:")
	for s, want := range map[string]string{"a.b": "a.b", "_x": "_x", "Zed": "Zed", "1pass": "_1pass", ".x": "_.x", "-": "_-"} {
		if made := g.Of(s); made != want {
			t.Errorf("%q is %q, want %q", s, made, want)
		}
	}
	if made := NewNames(20, ".:").Of("1password__list_items"); made[0] != '_' || len(made) > 20 {
		t.Errorf("%q", made)
	}
	if n.Of("ok") != "ok" || n.Of("a_b") != "a_b" && seen["a_b"] != "a/b" {
		t.Error("a name that fits is kept")
	}
}
