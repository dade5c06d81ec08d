package remote

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// FuzzEvents: any bytes are events or an end, and never more than there were.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: {}\n\n", "event: a\ndata: b\ndata: c\n\n", ": x\n\nintermediate_data: {}\n\n{\"code\":1}\n\n", "data: cut", "\r\n\r\n", "data\n\n", ":\n:\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := &Agent{opt: Options{Max: 1 << 20, Silence: time.Hour}}
		s := &stream{a: a, left: a.opt.Max, res: &http.Response{Body: io.NopCloser(strings.NewReader(text))}, quiet: time.NewTimer(time.Hour)}
		defer s.quiet.Stop()
		s.r = bufio.NewReader(s)
		size := 0
		for {
			e, err := s.next()
			if err != nil {
				break
			}
			if e.empty() {
				t.Fatal("an event with nothing in it")
			}
			size += len(e.data) + len(e.bare) + len(e.name)
		}
		if size > len(text) {
			t.Fatalf("%d bytes came out of %d", size, len(text))
		}
	})
}

// FuzzPatch: a patch gives JSON or an error.
func FuzzPatch(f *testing.F) {
	f.Add(`{"a":[1,2]}`, `[{"op":"add","path":"/a/1","value":3},{"op":"move","from":"/a/0","path":"/b"},{"op":"test","path":"/b","value":1}]`)
	f.Add(`[]`, `[{"op":"add","path":"/-","value":{}},{"op":"copy","from":"/0","path":"/1"},{"op":"remove","path":"/0"}]`)
	f.Add(`{}`, `[{"op":"replace","path":"","value":null},{"op":"add","path":"/~1~0","value":1}]`)
	f.Add(`{"a":[1,1]}`, `[{"op":"add","path":"0/0","value":0},{"op":"move","from":"00/0","path":"/0"},{"op":"test","path":""}]`) // the library panics
	f.Fuzz(func(t *testing.T, doc, ops string) {
		state, err := compactJSON([]byte(doc))
		if err != nil {
			return
		}
		if state, err = patchState(state, []byte(ops)); err == nil && !json.Valid(state) {
			t.Fatalf("%s gave %s", ops, state)
		}
	})
}

// FuzzSteps: a step's Markdown is cut without a fault, and what becomes of it is
// JSON.
func FuzzSteps(f *testing.F) {
	f.Add("**Input:**\n```json\n{}\n```\n\n**Output:**\n```\nx\n```")
	f.Add("**Function Output:**")
	f.Add("```")
	f.Fuzz(func(t *testing.T, payload string) {
		in, out, _ := stepParts(payload)
		for _, v := range []json.RawMessage{value(in), value(out), object(json.RawMessage(in))} {
			if len(v) > 0 && !json.Valid(v) {
				t.Fatalf("%q gave %q", payload, v)
			}
		}
	})
}

// FuzzForm: any schema gives a form whose answers are JSON.
func FuzzForm(f *testing.F) {
	f.Add(`{"type":"object","properties":{"ok":{"type":"boolean"}}}`, "yes")
	f.Add(`{"enum":["a","b"]}`, "a")
	f.Add(`{"type":"object","required":["x"],"properties":{"x":{}}}`, `{"a":1}`)
	f.Fuzz(func(t *testing.T, schema, text string) {
		if _, err := json.Marshal(formed(formOf(json.RawMessage(schema)).word(), text)); err != nil {
			t.Fatal(err)
		}
	})
}
