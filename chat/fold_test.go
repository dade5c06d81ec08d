package chat

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// vector is a file in testdata/fold.
type vector struct {
	Name   string  `json:"name"`
	Events []entry `json:"events"`
	Items  []Item  `json:"items"`
	State  View    `json:"state"`
}

// encode writes a vector with one event and one item per line.
func (v vector) encode(t testing.TB) []byte {
	t.Helper()
	line := func(b []byte, v any) []byte {
		buf := bytes.NewBuffer(b)
		enc := json.NewEncoder(buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	}
	b := line([]byte("{\n\"name\": "), v.Name)
	b = append(b, ",\n\"events\": ["...)
	for i, e := range v.Events {
		b = line(append(b, separator(i)...), e)
	}
	b = append(b, "\n],\n\"items\": ["...)
	for i, it := range v.Items {
		b = line(append(b, separator(i)...), it)
	}
	b = line(append(b, "\n],\n\"state\": "...), v.State)
	return append(b, "\n}\n"...)
}

func separator(i int) string {
	if i == 0 {
		return "\n  "
	}
	return ",\n  "
}

func TestFoldVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			s := newScript(t)
			v.play(s)
			tr := s.transcript()
			got := vector{v.name, s.entries, tr.View(), tr.State.View()}.encode(t)
			file := filepath.Join("testdata", "fold", v.name+".json")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("the fold differs from %s; run with -update and read the difference\n%s", file, difference(want, got))
			}
		})
	}
}

// TestFoldFiles folds the files as a client in another language does: from
// their JSON alone.
func TestFoldFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/fold/*.json")
	if err != nil || len(files) != len(vectors) {
		t.Fatalf("%d files for %d vectors, %v", len(files), len(vectors), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var v vector
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(file, err)
		}
		tr := (&script{t: t, entries: v.Events}).transcript()
		if got := (vector{v.Name, v.Events, tr.View(), tr.State.View()}).encode(t); !bytes.Equal(got, b) {
			t.Errorf("%s: %s", file, difference(b, got))
		}
	}
}

// difference shows the first lines that differ.
func difference(want, got []byte) string {
	w, g := bytes.Split(want, []byte("\n")), bytes.Split(got, []byte("\n"))
	for i := range min(len(w), len(g)) {
		if !bytes.Equal(w[i], g[i]) {
			return "line " + strconv.Itoa(i+1) + "\nwant " + string(w[i]) + "\ngot  " + string(g[i])
		}
	}
	return strconv.Itoa(len(w)) + " lines wanted, " + strconv.Itoa(len(g)) + " got"
}
