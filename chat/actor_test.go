package chat

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestActorInfoIsABoundedObject(t *testing.T) {
	for in, want := range map[string]string{
		`{"kind":"user","id":"a","info":{ "team" : "x", "n": [1, 2] }}`: `{"kind":"user","id":"a","info":{"team":"x","n":[1,2]}}`,
		`{"kind":"user","id":"a","info":{}}`:                            `{"kind":"user","id":"a"}`,
		`{"kind":"user","id":"a","info":null}`:                          `{"kind":"user","id":"a"}`,
	} {
		var a Actor
		if err := json.Unmarshal([]byte(in), &a); err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if got := jsonOf(t, a); got != want {
			t.Errorf("%s became %s", in, got)
		}
	}
	for _, in := range []string{`"team"`, `[1]`, `7`, `{"a":"` + strings.Repeat("x", MaxActorInfo) + `"}`} {
		var a Actor
		if err := json.Unmarshal([]byte(`{"kind":"user","id":"a","info":`+in+`}`), &a); CodeOf(err) != Invalid {
			t.Errorf("info %.20s: %v", in, err)
		}
	}
	if _, err := ReadInfo([]byte(`{"a":`)); CodeOf(err) != Invalid {
		t.Errorf("half an object: %v", err)
	}
}
