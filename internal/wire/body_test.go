package wire

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestReadBody(t *testing.T) {
	post := func(body io.Reader) *http.Request { return httptest.NewRequest("POST", "/", body) }
	for size, tooLarge := range map[int]bool{0: false, 1: false, 99: false, 100: false, 101: true, 5000: true} {
		text := strings.Repeat("x", size)
		for name, r := range map[string]*http.Request{"known": post(strings.NewReader(text)), "chunked": post(io.MultiReader(strings.NewReader(text)))} {
			got, err := ReadBody(r, 100)
			if errors.Is(err, ErrTooLarge) != tooLarge || err == nil && string(got) != text {
				t.Errorf("%s, %d bytes: got %d bytes, %v", name, size, len(got), err)
			}
		}
	}
	r := post(strings.NewReader("abc"))
	r.ContentLength = 1 << 40 // a lie
	if _, err := ReadBody(r, 1<<41); err != nil {
		t.Error(err)
	}
	r = post(io.MultiReader(strings.NewReader(strings.Repeat("x", 300))))
	r.Body = http.MaxBytesReader(nil, r.Body, 200)
	if _, err := ReadBody(r, 1000); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a server-wide limit gives %v", err)
	}
	r = post(nil)
	if b, err := ReadBody(r, 10); len(b) != 0 || err != nil {
		t.Errorf("no body: %q, %v", b, err)
	}
}

func TestNegotiate(t *testing.T) {
	for accept, want := range map[string]string{
		"":                                "",
		"gzip":                            "gzip",
		"gzip, deflate, br, zstd":         "zstd",
		"zstd;q=0.5, gzip;q=0.8":          "gzip",
		"ZSTD;Q=1":                        "zstd",
		"gzip;q=0, zstd;q=0":              "",
		"*":                               "zstd",
		"*;q=0.1, gzip;q=0.2":             "gzip",
		"zstd;q=0, *":                     "gzip",
		"gzip;q=0.5, identity":            "",
		"identity;q=0.1, x-gzip;q=0.3":    "gzip",
		"gzip;q=abc":                      "",
		"gzip;q=7":                        "",
		"br":                              "",
		"gzip ; q = 0.4 , zstd ; q=0.399": "gzip",
	} {
		h := http.Header{}
		if accept != "" {
			h.Set("Accept-Encoding", accept)
		}
		if got := Negotiate(h, "zstd", "gzip"); got != want {
			t.Errorf("Negotiate(%q) = %q, want %q", accept, got, want)
		}
	}
}

func TestWriteBody(t *testing.T) {
	big := bytes.Repeat([]byte("parley "), 1000)
	for _, c := range []struct {
		accept, encoding string
		body             []byte
	}{
		{"gzip", "gzip", big}, {"gzip, zstd", "zstd", big}, {"", "", big}, {"gzip", "", big[:100]},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept-Encoding", c.accept)
		w := httptest.NewRecorder()
		if err := WriteBody(w, r, 200, c.body); err != nil {
			t.Fatal(err)
		}
		var src io.Reader = w.Body
		switch w.Header().Get("Content-Encoding") {
		case "gzip":
			src, _ = gzip.NewReader(w.Body)
		case "zstd":
			z, _ := zstd.NewReader(w.Body)
			defer z.Close()
			src = z
		}
		got, err := io.ReadAll(src)
		if err != nil || !bytes.Equal(got, c.body) || w.Header().Get("Content-Encoding") != c.encoding {
			t.Errorf("%q: %d bytes as %q, %v", c.accept, len(got), w.Header().Get("Content-Encoding"), err)
		}
		if vary := w.Header().Get("Vary"); (vary == "Accept-Encoding") != (len(c.body) > compressFrom) {
			t.Errorf("Vary %q", vary)
		}
	}
}

func TestCheckJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, want := range map[string]error{
		`{"a":[1,2,{"b":"c"}]}`:                   nil,
		deep(64):                                  nil,
		deep(65):                                  ErrJSONDepth,
		strings.Repeat(`{"a":`, 100_000):          ErrJSONDepth,
		`"` + strings.Repeat("[", 1000) + `"`:     nil,
		`"\"` + strings.Repeat("[", 1000) + `\\"`: nil,
		`"\\"` + strings.Repeat("[", 1000):        ErrJSONDepth,
		strings.Repeat("[],", 1000):               nil,
		"{\"a\":\"\xff\"}":                        ErrJSONText,
		"\"\xed\xa0\x80\"":                        ErrJSONText,
		`"\`:                                      nil,
		`"\ud83d\ude00 \u00e9 \\ud83d"`:           nil,
		`"\ud83d"`:                                ErrJSONSurrogate,
		`"\uDE00"`:                                ErrJSONSurrogate,
		`"\ud83d\n\ude00"`:                        ErrJSONSurrogate,
		`"\ud83d\ud83d"`:                          ErrJSONSurrogate,
		`"\ud83`:                                  nil, // not JSON, which is for others to say
		"":                                        nil,
	} {
		if got := CheckJSON([]byte(text), 0); got != want {
			t.Errorf("CheckJSON(%.40q) = %v, want %v", text, got, want)
		}
	}
	if CheckJSON([]byte(deep(3)), 2) != ErrJSONDepth {
		t.Error("maxDepth is not obeyed")
	}
}

func FuzzCheckJSON(f *testing.F) {
	f.Add([]byte(`{"a":["\"",{}]}`), 3)
	f.Fuzz(func(t *testing.T, b []byte, most int) {
		most = 1 + most&63
		err := CheckJSON(b, most)
		if !json.Valid(b) || errors.Is(err, ErrJSONText) || errors.Is(err, ErrJSONSurrogate) {
			return
		}
		// For whatever is JSON, the depth is that of a real tokenizer.
		depth, deepest := 0, 0
		d := json.NewDecoder(bytes.NewReader(b))
		for {
			tok, e := d.Token()
			if e != nil {
				break
			}
			switch tok {
			case json.Delim('{'), json.Delim('['):
				depth++
				deepest = max(deepest, depth)
			case json.Delim('}'), json.Delim(']'):
				depth--
			}
		}
		if (deepest > most) != (err != nil) {
			t.Fatalf("depth %d, limit %d, got %v", deepest, most, err)
		}
	})
}
