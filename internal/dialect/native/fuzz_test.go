package native

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/edge"
)

// coded fails when an error has no code.
func coded(t *testing.T, err error) {
	t.Helper()
	if err != nil && chat.CodeOf(err) == chat.Internal {
		t.Fatalf("a client's mistake is an internal error: %v", err)
	}
}

func FuzzFrame(f *testing.F) {
	for _, s := range []string{
		`{"op":"watch","id":1,"session_id":"s","after":"42~b7.120"}`, `{"op":"watch","after":42}`, `{"op":"watch","after":null}`,
		`{"op":"append","id":"x","session_id":"s","events":[{"type":"user.message","payload":{"text":"hi"}}]}`,
		`{"op":"preview","preview":{"block":"b","offset":0,"text":"x"},"previews":[{"block":"c"}]}`,
		`{"op":"preview","id":7,"session_id":"s","preview":{"block":"b","offset":3,"text":"für","kind":"text","turn_id":"t"}}`,
		`{"op":"preview","turn_id":"t","previews":[{"block":"b","offset":3,"text":"x"}]}`,
		`{"op":"answer","request_id":"p","text":"x","values":["a"],"granted":[],"decisions":[{"call_id":"c","approve":true}]}`,
		`{"op":"ready","slots":3,"turns":["t-1"]}`, `{"slots":"x","id":[1]}`, `[]`, `null`, `{"id":`, "\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		if quick, ok := readFrame(msg); ok && utf8.Valid(msg) {
			var slow clientFrame
			if err := json.Unmarshal(msg, &slow); err == nil && !reflect.DeepEqual(quick, slow) || err != nil && json.Valid(quick.Events) {
				t.Fatalf("quick %+v\nslow %+v, %v", quick, slow, err)
			}
		}
		c, err := parseFrame(msg)
		coded(t, err)
		if quick, ok := readPieceFrame(msg); ok && utf8.Valid(msg) {
			pieces, _ := c.pieces()
			if err != nil || len(pieces) != 1 || pieces[0] != quick.piece.preview() || c.Op != "preview" || c.Session != quick.session || c.Turn != quick.turn || string(c.ID) != string(quick.id) {
				t.Fatalf("quick %+v\nslow %+v, %v", quick, c, err)
			}
		}
		if len(c.ID) > maxFrameID {
			t.Fatalf("an id of %d bytes would be echoed", len(c.ID))
		}
		if len(c.ID) > 0 && !json.Valid(c.ID) {
			t.Fatalf("the id %q is not JSON", c.ID)
		}
		if err != nil {
			return
		}
		_, err = c.start()
		coded(t, err)
		_, err = c.answer()
		coded(t, err)
		_, err = c.drafts()
		coded(t, err)
		pieces, err := c.pieces()
		coded(t, err)
		for _, p := range pieces {
			coded(t, p.Normalize())
		}
		if _, err := json.Marshal(serverFrame{Op: "ok", ID: c.ID, Session: c.Session}); err != nil {
			t.Fatalf("the answer cannot be written: %v", err)
		}
	})
}

func FuzzPreviews(f *testing.F) {
	for _, s := range []string{
		`{"block":"b","offset":0,"text":"x"}`, `[{"block":"b","offset":0,"text":"x"}]`, "{\"block\":\"b\"}\n{\"block\":\"c\"}\n", `[]`, `{`, `{"text":"\ud800"}`, "{\"text\":\"\xff\"}", `1 2 3`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		pieces, err := parsePreviews(b)
		coded(t, err)
		for _, p := range pieces {
			coded(t, p.Normalize())
		}
		r := newPieces(bytes.NewReader(b), 1<<20)
		for range len(b) + 1 {
			p, err := r.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if coded(t, err); err != nil {
				return
			}
			if !utf8.ValidString(p.Text) {
				t.Fatalf("%q is not UTF-8", p.Text)
			}
		}
		t.Fatal("more pieces than bytes")
	})
}

func FuzzQuery(f *testing.F) {
	for _, s := range []string{"after=1&before=9&limit=5&order=desc&types=a.b,c.d&workstream=main", "after=42~b7.120", "after=-1", "limit=0", "after=1&after=2", "%zz", "a;b", "after=18446744073709551615", "workstream="} {
		f.Add(s, "")
	}
	f.Add("", "42~b7.120~b9.4")
	f.Fuzz(func(t *testing.T, raw, last string) {
		r := &http.Request{URL: &url.URL{RawQuery: raw}, Header: http.Header{"Last-Event-Id": {last}}}
		rg, err := rangeOf(r)
		coded(t, err)
		if err == nil && (rg.Limit < 1 || rg.Limit > 1000 || rg.After > chat.MaxSeq || rg.Before > chat.MaxSeq) {
			t.Fatalf("%q gives %+v", raw, rg)
		}
		start, err := startOf(r)
		coded(t, err)
		if err == nil && start.Cursor != nil {
			again, err := chat.ParseCursor(start.Cursor.String())
			if err != nil || again.String() != start.Cursor.String() {
				t.Fatalf("the cursor %q is not read back: %v", start.Cursor, err)
			}
		}
		if err != nil {
			if _, err := json.Marshal(edge.Error{Error: edge.InfoOf(err)}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzImportLines(f *testing.F) {
	f.Add([]byte("{\"session_id\":\"a\"}\n\n  {}  \r\n{"), 16)
	f.Add(bytes.Repeat([]byte("x"), 100), 16)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		lines := bufio.NewReaderSize(bytes.NewReader(b), max(16, min(size, 4096)))
		var got [][]byte
		for {
			line, err := readLine(lines)
			if errors.Is(err, io.EOF) {
				break
			}
			if coded(t, err); err != nil {
				return
			}
			if _, err := chat.ParseEvent(line); err != nil {
				coded(t, err)
			}
			got = append(got, line)
		}
		var want [][]byte
		for line := range bytes.SplitSeq(b, []byte("\n")) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				want = append(want, line)
			}
		}
		if !bytes.Equal(bytes.Join(got, []byte("\n")), bytes.Join(want, []byte("\n"))) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}
