package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/core"
)

// writePreviews writes pieces of one session.
func writePreviews(j *Journal, id chat.SessionID, pieces []chat.Preview) error {
	all := []core.SessionPieces{{Session: id, Pieces: pieces}}
	j.WritePreviews(ctx, all)
	return all[0].Err
}

func pieceOf(block chat.BlockID, offset int, text string) chat.Preview {
	return chat.Preview{
		Block: block, Offset: offset, End: offset + len(text), Text: text, Kind: chat.TextBlock, Turn: "t-1",
		At: epoch + chat.At(offset)*16,
	}
}

// stream writes a block in small pieces.
func stream(t *testing.T, j *Journal, id chat.SessionID, block chat.BlockID, text string) {
	t.Helper()
	for i := 0; i < len(text); i += 3 {
		if err := writePreviews(j, id, []chat.Preview{pieceOf(block, i, text[i:min(i+3, len(text))])}); err != nil {
			t.Fatal(err)
		}
	}
}

// snapshot opens a copy of what the kernel has at this moment: what a killed
// process leaves.
func snapshot(t *testing.T, dir string) (*Journal, string) {
	t.Helper()
	// The store removes old files in the background: a copy that misses one
	// that it had listed is made anew.
	for range 100 {
		to := filepath.Join(t.TempDir(), "copy")
		err := os.CopyFS(to, os.DirFS(dir))
		if err == nil {
			return openTest(t, to, Options{}), to
		}
		if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	t.Fatal("the store never stops removing files")
	return nil, ""
}

func TestOpenBlocksSurviveAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	a := begin(t, j, "s-1")
	stream(t, j, "s-1", "b1", "a finished block")
	stream(t, j, "s-1", "b2", "one of an ended turn")
	a.append(t, chat.AgentText{Block: "b1", Text: "a finished block"})
	a.append(t, chat.TurnCompleted{TurnID: "t-1", Outcome: chat.Done})
	a.append(t, message("go on"))
	stream(t, j, "s-1", "b3", "half a sen")
	// Repeats and overlaps are harmless, a gap is not filled.
	again := []chat.Preview{pieceOf("b3", 0, "half"), pieceOf("b3", 8, "entence"), pieceOf("b3", 40, "far away")}
	if err := writePreviews(j, "s-1", again); err != nil {
		t.Fatal(err)
	}
	begin(t, j, "s-2")
	stream(t, j, "s-2", "x", "other")
	if _, err := eraseNow(j, "s-2"); err != nil {
		t.Fatal(err)
	}
	if err := writePreviews(j, "s-2", again); chat.CodeOf(err) != chat.Gone {
		t.Fatal(err)
	}
	if err := writePreviews(j, "s-3", again); chat.CodeOf(err) != chat.NotFound {
		t.Fatal(err)
	}
	killed, _ := snapshot(t, dir)
	blocks := killed.OpenBlocks()
	if len(blocks) != 1 || len(blocks["s-1"]) != 1 {
		t.Fatalf("%+v", blocks)
	}
	b := blocks["s-1"][0]
	if b.ID != "b3" || b.Text != "half a sentence" || b.Turn != "t-1" || b.Kind != chat.TextBlock {
		t.Fatalf("%+v", b)
	}
	if last := b.Ends[len(b.Ends)-1]; last.Bytes != len(b.Text) || last.At != epoch+8*16 {
		t.Fatalf("%+v", b.Ends)
	}
	// The block is continued and finished after the restart.
	stream(t, killed, "s-1", "b4", "new")
	r := resume(t, killed, "s-1")
	r.append(t, chat.AgentText{Block: "b3", Text: "half a sentence", Partial: true})
	if err := killed.Close(); err != nil {
		t.Fatal(err)
	}
	killed = openTest(t, killed.dir, Options{})
	if blocks := killed.OpenBlocks(); len(blocks["s-1"]) != 1 || blocks["s-1"][0].Text != "new" {
		t.Fatalf("%+v", blocks)
	}
}

func TestIncompletePreviewTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	begin(t, j, "s-1")
	stream(t, j, "s-1", "b", "abcdef")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, previewFolder, previewFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	header := len(appendPiece(nil, "", 1, &chat.Preview{}))
	half := header + (len(whole)-header)/2
	flipped := slices.Clone(whole)
	flipped[len(flipped)-1] ^= 1
	for name, c := range map[string]struct {
		bytes []byte
		text  string
	}{
		"whole": {whole, "abcdef"}, "garbage behind": {append(slices.Clone(whole), "garbage"...), "abcdef"},
		"zeros behind": {append(slices.Clone(whole), make([]byte, 4096)...), "abcdef"},
		"cut":          {whole[:len(whole)-1], "abc"}, "flipped": {flipped, "abc"}, "second missing": {whole[:half], "abc"},
		"header cut": {whole[:half+5], "abc"}, "huge length": {append(slices.Clone(whole[:half]), bytes.Repeat([]byte{0xff}, 64)...), "abc"},
		"empty": {nil, ""}, "only garbage": {[]byte("garbage of some length"), ""},
	} {
		if err := os.WriteFile(path, c.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Open(dir, quiet(Options{}))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := ""
		if blocks := j.OpenBlocks()["s-1"]; len(blocks) > 0 {
			text = blocks[0].Text
		}
		if text != c.text {
			t.Errorf("%s: got %q, want %q", name, text, c.text)
		}
		stream(t, j, "s-1", "later", "more") // can be read behind what was cut
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = openTest(t, dir, Options{})
		blocks := j.OpenBlocks()["s-1"]
		if len(blocks) == 0 || blocks[len(blocks)-1].Text != "more" {
			t.Errorf("%s: what was written later is lost: %+v", name, blocks)
		}
		j.Close()
	}
}

func TestPreviewFileIsCompacted(t *testing.T) {
	t.Parallel()
	j := openTest(t, "/data", Options{FS: vfs.NewMem(), Sync: SyncNever})
	keep := begin(t, j, "s-keep")
	stream(t, j, "s-keep", "open", "still open")
	var wg sync.WaitGroup
	text := strings.Repeat("x", 64<<10)
	for w := range 4 {
		a := begin(t, j, chat.SessionID(fmt.Sprint("s-", w)))
		wg.Go(func() {
			for i := range 80 {
				block := chat.BlockID(fmt.Sprint("b", i))
				if err := writePreviews(j, chat.SessionID(fmt.Sprint("s-", w)), []chat.Preview{pieceOf(block, 0, text)}); err != nil {
					t.Error(err)
				}
				if err := a.try(chat.AgentText{Block: block, Text: "done"}); err != nil {
					t.Error(err)
				}
				if err := j.previews.compactWhenLarge(); err != nil { // what Run does
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if size := j.previews.fileSize(); size > previewLimit+4<<20 {
		t.Fatalf("the file has %d MiB", size>>20)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openTest(t, "/data", Options{FS: j.opt.FS})
	if got := j.OpenBlocks(); len(got) != 1 || got["s-keep"][0].Text != "still open" {
		t.Fatalf("%d sessions have open blocks", len(got))
	}
	_ = keep
}

// A failed write tears the file; the next one repairs it, and nothing that was
// acknowledged is lost.
func TestPreviewWriteFails(t *testing.T) {
	t.Parallel()
	fault := &faulty{kinds: map[errorfs.OpKind]bool{errorfs.OpFileWrite: true}, path: previewFile, err: syscall.ENOSPC}
	mem := vfs.NewMem()
	j := openTest(t, "/data", Options{FS: errorfs.Wrap(mem, fault)})
	a := begin(t, j, "s-1")
	stream(t, j, "s-1", "b", "kept")
	fault.on.Store(true)
	err := writePreviews(j, "s-1", []chat.Preview{pieceOf("b", 4, " lost")})
	if chat.CodeOf(err) != chat.Unavailable || !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	a.append(t, message("the log is not affected"))
	fault.on.Store(false)
	if err := writePreviews(j, "s-1", []chat.Preview{pieceOf("b", 4, " and more")}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openTest(t, "/data", Options{FS: mem})
	if got := j.OpenBlocks()["s-1"]; len(got) != 1 || got[0].Text != "kept and more" {
		t.Fatalf("%+v", got)
	}
}

func FuzzPreviewFile(f *testing.F) {
	p := pieceOf("b", 3, "text")
	one := appendPiece(nil, "s-1", 7, &p)
	f.Add(one)
	f.Add(append(slices.Clone(one), one[:11]...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) {
		r := newPieceReader(bytes.NewReader(file))
		var out []byte
		for {
			q, raw, _, err := r.next()
			if err != nil {
				break
			}
			out = append(out, raw...)
			var back piece
			if back, err = decodePiece(appendPiece(nil, q.session, q.after, &q.Preview)[pieceHeader:]); err != nil || !reflect.DeepEqual(back, q) {
				t.Fatalf("%+v became %+v, %v", q, back, err)
			}
			addPiece(nil, &q)
		}
		if !bytes.HasPrefix(file, out) || int64(len(out)) != r.good {
			t.Fatal("the reader gave other bytes than the file has")
		}
	})
}

// A long block that was written word by word is put together without copying what is
// there for every word: a start would take minutes.
func TestManyPiecesAreJoinedCheaply(t *testing.T) {
	const n = 5000
	var blocks []*recovered
	allocs := testing.AllocsPerRun(1, func() {
		blocks = nil
		for i := range n {
			blocks = addPiece(blocks, &piece{Preview: pieceOf("b", 5*i, "word ")})
		}
	})
	if len(blocks) != 1 || string(blocks[0].text) != strings.Repeat("word ", n) || len(blocks[0].Ends) != n {
		t.Errorf("%d blocks", len(blocks))
	}
	if allocs > n+n/2 { // one is for each piece itself
		t.Errorf("%v allocations for %d pieces", allocs, n)
	}
}

// A worker may use the same block ids in every turn.
func TestBlockIDUsedAgainInALaterTurn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := openTest(t, dir, Options{})
	a := begin(t, j, "s-1")
	stream(t, j, "s-1", "b1", "the first text")
	a.append(t, chat.AgentText{Block: "b1", Text: "the first text"})
	second := pieceOf("b1", 0, "the second")
	second.Turn = "t-2"
	if err := writePreviews(j, "s-1", []chat.Preview{second}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the file is written anew at every start
		killed, to := snapshot(t, dir)
		if blocks := killed.OpenBlocks()["s-1"]; len(blocks) != 1 || blocks[0].Text != "the second" || blocks[0].Turn != "t-2" {
			t.Fatalf("%+v", blocks)
		}
		dir = to
	}
}
