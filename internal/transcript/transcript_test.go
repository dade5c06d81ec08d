package transcript

import (
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

func TestReplayRecordsReplies(t *testing.T) {
	recorded := txtar.Parse([]byte("About.\n-- say --\nhi\n-- server --\nold\n-- wait --\n-- say --\nbye\n"))
	got := replay(recorded, "server", func(f txtar.File) string {
		if f.Name != "say" {
			return ""
		}
		return "you said " + string(f.Data)
	})
	want := "About.\n-- say --\nhi\n-- server --\nyou said hi\n-- wait --\n-- say --\nbye\n-- server --\nyou said bye\n"
	if s := string(txtar.Format(got)); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
}

func TestDifferenceNamesTheLine(t *testing.T) {
	if d := difference("a\nb\nc", "a\nx\nc"); !strings.Contains(d, "line 2") || !strings.Contains(d, "want b") || !strings.Contains(d, "got x") {
		t.Errorf("got %q", d)
	}
	if d := difference("a\nb", "a\nb\nc"); d != "3 lines, want 2" {
		t.Errorf("got %q", d)
	}
}
