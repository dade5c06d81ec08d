package llmtest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// EqualJSON fails the test if two JSON texts are not equivalent.
func EqualJSON(t testing.TB, want, got []byte) {
	t.Helper()
	var w, g any
	for b, into := range map[*[]byte]*any{&want: &w, &got: &g} {
		d := json.NewDecoder(bytes.NewReader(*b))
		d.UseNumber()
		if err := d.Decode(into); err != nil {
			t.Fatalf("%v in %s", err, *b)
		}
	}
	if !reflect.DeepEqual(w, g) {
		t.Fatalf("changed\n got %s\nwant %s", got, want)
	}
}
