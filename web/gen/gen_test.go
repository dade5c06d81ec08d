package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

func TestTypesMatchTheVocabulary(t *testing.T) {
	want, err := generate("../..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("../..", target))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s is not what the vocabulary says: run go run ./web/gen", target)
	}
}

// The envelope has exactly the fields that an event has in JSON.
func TestEnvelopeHasTheFieldsOfAnEvent(t *testing.T) {
	full := chat.Event{
		Session: "s", Seq: 1, At: 1, Type: "a.b", ID: "e", Turn: "t", Workstream: "w", Actor: chat.Actor{Kind: chat.User, ID: "u"},
		Parent: "e", ClientID: "c", Via: "x", Prev: chat.Hash{1}, Payload: json.RawMessage("{}"),
	}
	required := keys(t, chat.Event{Session: "s", Seq: 1, Type: "a.b"})
	_, body, _ := strings.Cut(envelope, "{\n")
	body, _, _ = strings.Cut(body, "\n}")
	listed := map[string]bool{}
	for line := range strings.Lines(body) {
		name, _, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || strings.HasPrefix(name, "/") {
			continue
		}
		name, optional := strings.CutSuffix(name, "?")
		listed[name] = true
		if optional == required[name] {
			t.Errorf("%s: optional is %v", name, optional)
		}
	}
	if all := keys(t, full); !reflect.DeepEqual(all, listed) {
		t.Errorf("an event has %v, the envelope %v", all, listed)
	}
}

func keys(t *testing.T, e chat.Event) map[string]bool {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for k := range m {
		all[k] = true
	}
	return all
}
