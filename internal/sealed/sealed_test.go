package sealed

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
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
		t.Error("an object without members was taken")
	}
}
