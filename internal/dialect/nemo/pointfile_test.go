package nemo

import (
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// When more places are known than a file of the usual size holds, it is not written
// anew for every note.
func TestManyMarks(t *testing.T) {
	t.Parallel()
	m := openPointFile(t.TempDir(), time.Now, slog.New(slog.DiscardHandler))
	line := point{position{Base: 1}, time.Now(), connectionLost}
	for i := range 500 {
		m.points[pointKey{fmt.Sprintf("%010000d", i), 1}] = line
	}
	if err := m.rewrite(); err != nil {
		t.Fatal(err)
	}
	if m.size <= maxPointFile {
		t.Fatalf("a file of %d bytes is nothing special", m.size)
	}
	file := m.file
	for i := range 20 {
		m.save("one", uint64(i), line.at, stillConnected)
		if m.file != file {
			t.Fatalf("the file was written anew for note %d", i)
		}
	}
}
