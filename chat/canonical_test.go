package chat

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestSameJSON(t *testing.T) {
	for _, x := range []struct {
		a, b string
		same bool
	}{
		{`{"a":1,"b":"x"}`, `{ "b" : "x", "a" : 1 }`, true},
		{`{"a":"\u00e9\n"}`, `{"a":"é\u000a"}`, true},
		{`{"\u0061":{"y":[1,2],"x":null}}`, `{"a":{"x":null,"y":[1, 2]}}`, true},
		{`{"a":"<b>\/"}`, `{"a":"\u003cb\u003e/"}`, true},
		{`[1.0,100,-0,1e2,0.50]`, `[1,1E+2,0,100.00,5e-1]`, true},
		{`12345678901234567890`, `12345678901234567891`, false},
		{`0.1`, `0.10000000000000001`, false},
		{`{"a":1,"a":2}`, `{"a":2}`, true},
		{`{"a":1,"a":2}`, `{"a":1}`, false},
		{`{"a":1}`, `{"A":1}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`[12]`, `[1,2]`, false},
		{`[[1],2]`, `[1,[2]]`, false},
		{`{"a":[]}`, `{"a":{}}`, false},
		{`{"a":"1"}`, `{"a":1}`, false},
		{`{"a":null}`, `{}`, false},
		{`""`, `null`, false},
		{`{"a":"\"b"}`, `{"a":"\u0022b"}`, true},
	} {
		if got := SameJSON([]byte(x.a), []byte(x.b)); got != x.same {
			t.Errorf("%s and %s: %t; %s, %s", x.a, x.b, got, appendCanonical(nil, []byte(x.a)), appendCanonical(nil, []byte(x.b)))
		}
	}
}

func TestDigestIgnoresTheSpelling(t *testing.T) {
	digest := func(text string) uint64 {
		t.Helper()
		drafts, err := ParseDrafts([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return drafts[0].Digest()
	}
	one := digest(`{"type":"user.message","payload":{"text":"a < b","content":[{"type":"text","text":"é"}]}}`)
	for _, text := range []string{
		`{"payload":{"content":[{"text":"\u00e9","type":"text"}],"text":"a \u003c b"},"type":"user.message"}`,
		"{\"type\":\"user.message\",\n\"payload\":{ \"text\" : \"a < b\", \"content\":[ {\"type\":\"text\",\"text\":\"é\"} ] } }",
	} {
		if digest(text) != one {
			t.Errorf("%s has another digest", text)
		}
	}
	if digest(`{"type":"user.message","payload":{"text":"a < c","content":[{"type":"text","text":"é"}]}}`) == one {
		t.Error("another text has the same digest")
	}
}

// Values that JSON readers consider equal have the same canonical form, and it is stable.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":[1,{"a":"\u00e9"}],"a":1.50}`, `[]`, `{}`, `"\ud83d\ude00"`, `-0.0e7`, `{"a":1,"a":[{}]}`, `[1,`, `1e99999`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		form := appendCanonical(nil, b)
		var v, w any
		if json.Unmarshal(b, &v) != nil {
			return
		}
		again, err := json.Marshal(v)
		if err != nil || json.Unmarshal(again, &w) != nil || !reflect.DeepEqual(v, w) {
			return
		}
		if len(form) == 0 {
			t.Fatalf("%q has no form", b)
		}
	})
}
