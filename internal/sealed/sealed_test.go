package sealed

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type example struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

// Every changed bit and every cut is noticed, and the file stays JSON.
func TestDamageIsNoticed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.json")
	want := example{"é", 7}
	if err := WriteFile(file, want); err != nil {
		t.Fatal(err)
	}
	var got example
	if err := ReadFile(file, &got); err != nil || got != want {
		t.Fatalf("%+v, %v", got, err)
	}
	b, err := os.ReadFile(file)
	if err != nil || !json.Valid(b) {
		t.Fatalf("%s, %v", b, err)
	}
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if err := Unmarshal(b, &got); !errors.Is(err, ErrDamaged) {
				t.Errorf("byte %d, bit %d: %v", i, bit, err)
			}
			b[i] ^= 1 << bit
		}
		if err := Unmarshal(b[:i], &got); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
	if _, err := Marshal(struct{}{}); err == nil {
		t.Error("an object without members was accepted")
	}
}

// A key stays the same until its file is removed; a damaged one is not used.
func TestKeyIsStored(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	first, made, err := Key(file, 32)
	if err != nil || !made || len(first) != 32 {
		t.Fatal(first, made, err)
	}
	if again, made, err := Key(file, 32); err != nil || made || !bytes.Equal(again, first) {
		t.Fatal(again, made, err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[10] ^= 1
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Key(file, 32); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), file) {
		t.Fatal(err)
	}
}
