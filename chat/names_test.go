package chat

import (
	"bytes"
	stdjson "encoding/json"
	"reflect"
	"strings"
	"testing"
)

// twins returns an object in which each member, at every depth, has copies with the same name in another case and with
// another value.
func twins(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			out[k] = twins(x)
			for _, other := range []string{strings.ToUpper(k), strings.ToUpper(k[:1]) + k[1:]} {
				if other != k {
					out[other] = evil(x)
				}
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = twins(v[i])
		}
		return out
	}
	return v
}

// evil returns another value of the same kind.
func evil(v any) any {
	switch v := v.(type) {
	case string:
		return "EVIL"
	case float64:
		return v + 1
	case bool:
		return !v
	case map[string]any:
		return map[string]any{}
	case []any:
		return []any{}
	}
	return v
}

// fill gives every field of a kind a value, so that every name is tested.
func fill(v reflect.Value, depth int) {
	if !v.CanSet() || depth > 4 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		if v.SetString("safe"); v.Type() == reflect.TypeFor[Info]() {
			v.SetString(`{}`)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 { // raw JSON is passed on whole
			v.SetBytes([]byte(`"safe"`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	}
}

func TestNamesOfEveryKindMatchExactly(t *testing.T) {
	tried := 0
	for typ, zero := range Kinds() {
		body := reflect.New(reflect.TypeOf(zero))
		fill(body.Elem(), 0)
		payload, err := stdjson.Marshal(body.Interface())
		if err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		var value any
		if err := stdjson.Unmarshal(payload, &value); err != nil {
			t.Fatal(err)
		}
		doubled, err := stdjson.Marshal(twins(value))
		if err != nil {
			t.Fatal(err)
		}
		want, err := DecodeBody(typ, payload)
		if err != nil {
			t.Logf("%s: %v", typ, err)
			continue
		}
		tried++
		// The order of members does not matter: as Marshal sorts them, and with names in capitals last.
		members := bytes.Replace(doubled, []byte(`{`), append(bytes.TrimSuffix(payload, []byte("}")), ','), 1)
		for _, p := range [][]byte{doubled, members} {
			got, err := DecodeBody(typ, p)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s\n got %+v, %v\nwant %+v", typ, p, got, err, want)
			}
		}
	}
	if tried < len(Kinds())-2 {
		t.Errorf("only %d of %d kinds were tried", tried, len(Kinds()))
	}
}

func TestNamesOfDraftsAndEventsMatchExactly(t *testing.T) {
	for _, text := range []string{
		`{"type":"user.message","TYPE":"agent.text","payload":{"text":"SAFE","TEXT":"EVIL"},"Payload":{"text":"EVIL"},"client_id":"a","CLIENT_ID":"b"}`,
		`{"Payload":{"text":"EVIL"},"payload":{"Text":"EVIL","text":"SAFE"},"Client_ID":"b","client_id":"a","type":"user.message"}`,
		`[{"type":"user.message","payload":{"text":"SAFE","text\u0000":"x","\u0054ext":"EVIL"},"client_id":"a","Workstream_ID":"w"}]`,
		`{"type":"user.message","payload":{"text":"EVIL"},"payload":{"text":"SAFE"},"client_id":"b","client_id":"a"}`,
		`{"type":"user.message","payload":{"text":"EVIL","text":"SAFE"},"client_id":"a"}`,
	} {
		drafts, err := ParseDrafts([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		d := drafts[0]
		if m, ok := d.Body.(UserMessage); !ok || m.Text != "SAFE" || d.ClientID != "a" || d.Workstream != "" {
			t.Errorf("%s is read as %+v", text, d)
		}
	}
	const event = `{"session_id":"s","sequence":1,"timestamp":"2026-01-02T15:04:05.000001Z","type":"user.message","Sequence":9,"payload":{"text":"SAFE","TEXT":"EVIL"},"PAYLOAD":{"text":"EVIL"}}`
	e, err := ParseEvent([]byte(event))
	if err != nil || e.Seq != 1 || e.Body.(UserMessage).Text != "SAFE" {
		t.Errorf("%+v, %v", e, err)
	}
}

// Errors of payloads do not contain names of Go types.
func TestErrorsOfEveryKindArePlain(t *testing.T) {
	for typ, zero := range Kinds() {
		rt := reflect.TypeOf(zero)
		for i := range rt.NumField() {
			name, _, _ := strings.Cut(rt.Field(i).Tag.Get("json"), ",")
			for _, value := range []string{`"x"`, `7`, `-1.5`, `true`, `{}`, `[7]`, `[{"id":7,"label":7,"call_id":7,"type":7,"kind":7}]`} {
				_, err := ParseDrafts([]byte(`{"type":"` + typ + `","payload":{"` + name + `":` + value + `}}`))
				if err == nil {
					continue
				}
				for _, bad := range []string{"Go ", "json:", "unmarshal", "struct", "chat.", rt.Name(), "float64", "int64"} {
					if strings.Contains(err.Error(), bad) {
						t.Errorf("%s of %s as %s: %v", name, typ, value, err)
					}
				}
			}
		}
	}
}
