package json

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Text  string         `json:"text"`
	Notes map[string]any `json:"notes"`
}

type embedded struct {
	Timeout float64 `json:"timeout"`
}

type outer struct {
	embedded
	Text  string           `json:"text"`
	Key   string           `json:"key"`
	Inner *inner           `json:"inner"`
	List  []inner          `json:"list"`
	Table map[string]inner `json:"table"`
	Raw   RawMessage       `json:"raw"`
	Any   any              `json:"any"`
	Next  *outer           `json:"nextOne"`
	When  time.Time        `json:"when"`
	Bytes []byte           `json:"bytes"`
}

func read(t *testing.T, text string) outer {
	t.Helper()
	var o outer
	if err := Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var d outer
	if err := NewDecoder(strings.NewReader(text)).Decode(&d); err != nil || !reflect.DeepEqual(o, d) {
		t.Fatalf("%s: the decoder reads %+v, %v", text, d, err)
	}
	return o
}

func TestNamesMatchExactly(t *testing.T) {
	for _, x := range []struct{ text, same string }{
		{`{"text":"a","TEXT":"b"}`, `{"text":"a"}`},
		{`{"TEXT":"b","text":"a"}`, `{"text":"a"}`},
		{`{"Text":"b"}`, `{}`},
		{`{"te\u0058t":"b","te\u0078t":"a"}`, `{"text":"a"}`},
		{"{\"\u212aey\":\"b\"}", `{}`}, // the sign for kelvin folds to k
		{`{"\u212aey":"b","key":"a"}`, `{"key":"a"}`},
		{`{"nextone":{"text":"b"},"nextOne":{"text":"a","Text":"c"}}`, `{"nextOne":{"text":"a"}}`},
		{`{"inner":{"text":"a","tEXT":"b"}}`, `{"inner":{"text":"a"}}`},
		{`{"list":[{"text":"a"},{"TEXT":"b"}]}`, `{"list":[{"text":"a"},{}]}`},
		{`{"table":{"x":{"text":"a","Text":"b"},"X":{"text":"c"}}}`, `{"table":{"x":{"text":"a"},"X":{"text":"c"}}}`},
		{`{"timeout":1,"TIMEOUT":2,"embedded":{"timeout":3}}`, `{"timeout":1}`},
		{` { "text" : "a" , "TEXT" : [ "}" , { "text" : "\"" } ] , "key" : "k" } `, `{"text":"a","key":"k"}`},
	} {
		if got, want := read(t, x.text), read(t, x.same); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, not as %s", x.text, got, x.same)
		}
	}
}

func TestTheLastOfSeveralMembersCountsWholly(t *testing.T) {
	for _, x := range []struct{ text, same string }{
		{`{"text":"a","text":"b"}`, `{"text":"b"}`},
		{`{"text":"a","te\u0078t":"b"}`, `{"text":"b"}`},
		{`{"inner":{"text":"a","notes":{"x":1}},"inner":{"notes":{"y":1}}}`, `{"inner":{"notes":{"y":1}}}`},
		{`{"list":[{"text":"a"}],"list":[{}]}`, `{"list":[{}]}`},
		{`{"table":{"x":{"text":"a"}},"table":{"x":{}}}`, `{"table":{"x":{}}}`},
		{`{"any":{"a":1},"any":{"b":1},"any":{"c":1}}`, `{"any":{"c":1}}`},
	} {
		if got, want := read(t, x.text), read(t, x.same); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, not as %s", x.text, got, x.same)
		}
	}
}

func TestWhatIsReadIsNotChanged(t *testing.T) {
	text := []byte(`{"text":"a","TEXT":"b","raw":{"TEXT":1,"text":2},"any":{"TEXT":1}}`)
	before := bytes.Clone(text)
	var o outer
	if err := Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, before) {
		t.Errorf("the bytes became %s", text)
	}
	if string(o.Raw) != `{"TEXT":1,"text":2}` || o.Any.(map[string]any)["TEXT"] != 1.0 {
		t.Errorf("values without fields were changed: %+v", o)
	}
}

func TestErrorsArePlain(t *testing.T) {
	for text, want := range map[string]string{
		`{"timeout":"soon"}`:                   "field timeout cannot be a string: it must be a number",
		`{"inner":{"text":7}}`:                 "field inner.text cannot be a number: it must be a string",
		`{"nextOne":{"list":[{"text":true}]}}`: "field nextOne.list.text cannot be a bool: it must be a string",
		`[]`:                                   "it cannot be an array: it must be an object",
		`{"list":{}}`:                          "field list cannot be an object: it must be an array",
		`{"when":"soon"}`:                      "a time is written like 2026-01-02T15:04:05Z",
		`{"when":7}`:                           "a time is written like 2026-01-02T15:04:05Z",
		`{"bytes":"?"}`:                        "a value that is not valid base64 stands where bytes are wanted",
	} {
		var o outer
		err := Unmarshal([]byte(text), &o)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, not %s", text, err, want)
		}
		if other := NewDecoder(strings.NewReader(text)).Decode(&o); other == nil || other.Error() != want {
			t.Errorf("%s: the decoder says %v, not %s", text, other, want)
		}
	}
}

func TestDecoder(t *testing.T) {
	d := NewDecoder(strings.NewReader(`{"text":"a","TEXT":"b"} {"any":12345678901234567890}`))
	d.UseNumber()
	var o outer
	if err := d.Decode(&o); err != nil || o.Text != "a" {
		t.Errorf("%+v, %v", o, err)
	}
	if err := d.Decode(&o); err != nil || o.Any != Number("12345678901234567890") {
		t.Errorf("%+v, %v", o, err)
	}
	if err := d.Decode(&o); !errors.Is(err, io.EOF) {
		t.Errorf("%v at the end", err)
	}
	if err := NewDecoder(strings.NewReader(`{"text":`)).Decode(&o); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v in the middle", err)
	}
}

func TestMarkupIsWrittenAsItIs(t *testing.T) {
	v := map[string]any{"a": "<b>&</b>", "raw": RawMessage(`"<i>"`)}
	const want = `{"a":"<b>&</b>","raw":"<i>"}`
	if b, err := Marshal(v); err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
	var out bytes.Buffer
	if err := NewEncoder(&out).Encode(v); err != nil || out.String() != want+"\n" {
		t.Errorf("%s, %v", out.String(), err)
	}
	if b, err := MarshalIndent(v, "", " "); err != nil || string(b) != "{\n \"a\": \"<b>&</b>\",\n \"raw\": \"<i>\"\n}" {
		t.Errorf("%s, %v", b, err)
	}
	if _, err := Marshal(func() {}); err == nil {
		t.Error("a function was written")
	}
}

// A list of itself as deep as encoding/json reads, and deeper.
func TestDeep(t *testing.T) {
	type list []list
	for _, n := range []int{9000, 2_000_000} {
		var l list
		err := Unmarshal([]byte(strings.Repeat("[", n)+strings.Repeat("]", n)), &l)
		if (err == nil) != (n < 10000) {
			t.Errorf("%d deep: %v", n, err)
		}
	}
}

// What is accepted does not depend on this package, and of what is accepted only exact names count.
func FuzzUnmarshal(f *testing.F) {
	for _, s := range []string{
		`{"text":"a","TEXT":"b"}`, `{"inner":{"Text":"x"},"list":[{"text":"\\\""}]}`, `{"table":{"a":{}},"raw":[{"TEXT":1}]}`,
		`{"text":"a"`, `{"text" "a"}`, `[{]}`, `null`, `"\u00zz"`, `{"te\u0078t":1}`, ` {"nextOne" : {"nextone":{}} , "when":"2026-01-02T15:04:05Z" } `, `{"list":[1,,2]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var ours, again outer
		var std any
		err := Unmarshal(b, &ours)
		valid := stdjson.Unmarshal(b, &std)
		if (valid != nil) != (!Valid(b)) || valid != nil && err == nil {
			t.Fatalf("%q: %v, encoding/json says %v", b, err, valid)
		}
		if err != nil {
			if text := err.Error(); strings.Contains(text, "json:") || strings.Contains(text, "Go ") || strings.Contains(text, "outer") {
				t.Fatalf("%q: %s", b, text)
			}
			return
		}
		// A map has exact names and the last of several: written from it, encoding/json reads the same.
		m, ok := std.(map[string]any)
		if !ok {
			return
		}
		text, _ := m["text"].(string)
		if text != ours.Text {
			t.Fatalf("%q: text is %q, not %q", b, ours.Text, text)
		}
		if in, ok := m["inner"].(map[string]any); ok {
			if text, _ := in["text"].(string); ours.Inner == nil || ours.Inner.Text != text {
				t.Fatalf("%q: %+v", b, ours.Inner)
			}
		}
		if Unmarshal(b, &again) != nil {
			t.Fatalf("%q is not read again", b)
		}
	})
}

func TestTextOfAValue(t *testing.T) {
	for raw, want := range map[string]string{`"a\nb"`: "a\nb", `null`: "", ``: "", `1.50`: "1.50", `{"a":"b"}`: `{"a":"b"}`} {
		if got := Text([]byte(raw)); got != want {
			t.Errorf("%s is %q, not %q", raw, got, want)
		}
	}
}
