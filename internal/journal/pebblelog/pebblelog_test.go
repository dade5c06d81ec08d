package pebblelog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"
)

// The format of the log is not part of Pebble's API: a new version must be compared
// with this package before it is used.
func TestEngineVersionIsTheOneInGoMod(t *testing.T) {
	text, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/cockroachdb/pebble/v2 "
	for line := range strings.Lines(string(text)) {
		if version, ok := strings.CutPrefix(strings.TrimSpace(line), module); ok {
			if version, _, _ = strings.Cut(version, " "); version != EngineVersion {
				t.Errorf("go.mod requires Pebble %s, this package was written for %s: see EngineVersion for what to do", version, EngineVersion)
			}
			return
		}
	}
	t.Fatal("go.mod does not name Pebble")
}

// chunk returns a chunk of a log that says how much of the log was synced.
func chunk(number uint32, synced uint64, text string) []byte {
	b := make([]byte, 6, headerSize+len(text))
	binary.LittleEndian.PutUint16(b[4:], uint16(len(text)))
	b = binary.LittleEndian.AppendUint32(append(b, firstType), number)
	b = append(binary.LittleEndian.AppendUint64(b, synced), text...)
	sum := crc32.Checksum(b[6:], castagnoli)
	binary.LittleEndian.PutUint32(b, (sum>>15|sum<<17)+checksumAdd)
	return b
}

// An unreadable part is damaged only when it is certain that it was synced.
func TestOnlySyncedPartsAreDamaged(t *testing.T) {
	t.Parallel()
	const number = 7
	log := func(behind ...uint64) []byte { // an unreadable place at 200, and what is said behind it
		b := append(chunk(number, 0, strings.Repeat("a", 200-headerSize)), strings.Repeat("?", 50)...)
		for i, synced := range behind {
			b = append(b, chunk(number, synced, fmt.Sprint("text ", i))...)
		}
		return b
	}
	for name, c := range map[string]struct {
		log     []byte
		at      int
		damaged bool
	}{
		"nothing behind it":                 {log(), 200, false},
		"behind it is another log":          {append(log(), chunk(number+1, 999, "x")...), 200, false},
		"room that was never written":       {append(log(), make([]byte, 500)...), 200, false},
		"it was synced as far as the place": {log(200), 200, false},
		"it was synced behind the place":    {log(0, 201), 200, true},
		// The first sync may be over and the second under way when the place is
		// written; then neither has it.
		"one sync or none, told thrice": {log(9, 9, 9), 200, false},
		"two syncs":                     {log(9, 9, 20, 20), 200, false},
		"three syncs":                   {log(9, 20, 30), 200, true},
		"all can be read":               {append(chunk(number, 0, "a"), chunk(number, 20, "b")...), 40, false},
	} {
		if at, damaged := Check(c.log, number); at != c.at || damaged != c.damaged {
			t.Errorf("%s: at %d, %t", name, at, damaged)
		}
	}
}

func FuzzCheck(f *testing.F) {
	const number = 7
	f.Add([]byte{})
	f.Add(append(chunk(number, 0, "a"), chunk(number, 20, "b")...))
	f.Add(append(append(chunk(number, 0, "a"), "torn"...), chunk(number, 99, "b")...))
	f.Fuzz(func(t *testing.T, b []byte) {
		at, _ := Check(b, number)
		if at < 0 || at > len(b) {
			t.Fatalf("it ends at byte %d of %d", at, len(b))
		}
		// What can be read is whole, and stays so when nothing or room follows.
		for _, whole := range [][]byte{b[:at], append(b[:at:at], make([]byte, 100)...)} {
			if _, damaged := Check(whole, number); damaged {
				t.Fatal("what can be read is called damaged")
			}
		}
	})
}
