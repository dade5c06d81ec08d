package json

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestSameIgnoresTheSpelling(t *testing.T) {
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
		if got := Same([]byte(x.a), []byte(x.b)); got != x.same {
			t.Errorf("%s and %s: %t; %s, %s", x.a, x.b, got, AppendCanonical(nil, []byte(x.a)), AppendCanonical(nil, []byte(x.b)))
		}
	}
}

// Values that JSON readers consider equal have the same canonical form, and it is stable.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":[1,{"a":"\u00e9"}],"a":1.50}`, `[]`, `{}`, `"\ud83d\ude00"`, `-0.0e7`, `{"a":1,"a":[{}]}`, `[1,`, `1e99999`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		form := AppendCanonical(nil, b)
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
