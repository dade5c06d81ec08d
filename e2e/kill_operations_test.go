// Tests of erasure, upload, fork, import and restore under kill.

package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/sleep"
)

// killMoments is the number of kills per operation.
const killMoments = 6

// killedServer is a server that is killed during operations and started again on the
// same data.
type killedServer struct {
	*process
	t          *testing.T
	data, nats string
}

func (u *killedServer) start() {
	u.process = serve(u.t, u.data, "--nats", u.nats)
}

// killDuring sends a call, kills the server after a delay and starts it again. It
// returns the status of the answer, 0 if there was none.
func (u *killedServer) killDuring(c call, after time.Duration) int {
	u.t.Helper()
	answered := make(chan int, 1)
	r, err := http.NewRequestWithContext(u.t.Context(), c.method, u.url+c.path, strings.NewReader(c.body))
	if err != nil {
		u.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	one := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	go func() {
		res, err := one.Do(r)
		if err != nil {
			answered <- 0
			return
		}
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if err != nil {
			res.StatusCode = 0
		}
		answered <- res.StatusCode
	}()
	sleep.For(u.t.Context(), after)
	u.kill()
	code := <-answered
	u.start()
	return code
}

// timed returns the duration of a call that succeeds.
func (u *killedServer) timed(c call) time.Duration {
	u.t.Helper()
	begun := time.Now()
	u.must(c)
	return time.Since(begun)
}

// atEachMoment calls f with delays spread over the duration of an operation, and a
// little beyond it.
func atEachMoment(took time.Duration, f func(i int, after time.Duration)) {
	for i := range killMoments {
		f(i, took*time.Duration(i)/(killMoments-2))
	}
}

// filesWith lists the files below a folder that contain a text.
func filesWith(t *testing.T, dir, text string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // files are removed meanwhile
		}
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(text)) {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// archivedText counts the messages of the archive that contain a text.
func archivedText(t *testing.T, c *nats.Conn, text string) (n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, x1.ArchiveStream)
	if err != nil {
		t.Fatal(err)
	}
	info := stream.CachedInfo()
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		if m, err := stream.GetMsg(ctx, seq); err == nil && bytes.Contains(m.Data, []byte(text)) {
			n++
		}
	}
	return n
}

// fill creates a session with text and a file that contain a mark.
func (u *killedServer) fill(id, mark string) {
	u.t.Helper()
	base := "/parley/v1/sessions"
	u.post(base, `{"id":"`+id+`","agent":"none","title":"`+mark+`"}`)
	text := strings.Repeat(mark+" and much more text. ", 500)
	for range 20 {
		u.post(base+"/"+id+"/events", `{"type":"user.message","payload":{"text":"`+text+`"}}`)
	}
	u.must(call{method: "PUT", path: base + "/" + id + "/artifacts/a.txt", body: text})
}

// TestOperationsAreAtomicUnderKill kills the server during an erasure, an upload, a
// fork, an import and a restore: afterwards each is complete or has not happened, and an
// acknowledged one is complete.
func TestOperationsAreAtomicUnderKill(t *testing.T) {
	u := &killedServer{t: t, data: t.TempDir(), nats: freeport.Addr(t)}
	u.start()
	t.Run("erase", u.erases)
	t.Run("upload", u.uploads)
	t.Run("fork", u.forks)
	t.Run("import", u.imports)
	t.Run("restore", u.restores)
}

func (u *killedServer) erases(t *testing.T) {
	mark := func(i int) string { return fmt.Sprintf("MarkOfErased%dSession", i) }
	path := func(i int) string { return fmt.Sprintf("/parley/v1/sessions/gone-%d", i) }
	u.fill("gone-99", mark(99))
	took := u.timed(call{method: "DELETE", path: path(99)})
	conn := connectNATS(t, u.nats)
	atEachMoment(took, func(i int, after time.Duration) {
		u.fill(fmt.Sprintf("gone-%d", i), mark(i))
		code := u.killDuring(call{method: "DELETE", path: path(i)}, after)
		status, body, _ := u.do(call{path: path(i)})
		switch {
		case status == http.StatusOK && code == 0: // not erased yet
			if n := strings.Count(u.get(path(i)+"/events?limit=100"), `"user.message"`); n != 20 || !strings.Contains(u.get(path(i)+"/artifacts/a.txt"), mark(i)) {
				t.Errorf("killed after %s: a part of the session is left, %d events", after, n)
			}
		case status != http.StatusGone:
			t.Fatalf("killed after %s, answered %d: %d %s", after, code, status, body)
		}
		// The erasure is acknowledged when all data is gone.
		for begun := time.Now(); ; {
			status, body, _ = u.do(call{method: "DELETE", path: path(i)})
			if status == http.StatusOK || status == http.StatusGone {
				break
			}
			if time.Since(begun) > 30*time.Second {
				t.Fatalf("killed after %s: the erasure does not end: %d %s", after, status, body)
			}
			sleep.For(t.Context(), 20*time.Millisecond)
		}
		if files := filesWith(t, u.data, mark(i)); len(files) > 0 {
			t.Errorf("killed after %s: the text is still in %v", after, files)
		}
		if n := archivedText(t, conn, mark(i)); n > 0 {
			t.Errorf("killed after %s: the archive still has %d messages", after, n)
		}
	})
}

// loggedHash returns the last hash of a path in the log.
func (u *killedServer) loggedHash(id, path string) (sum string) {
	var page struct {
		Events []struct {
			Type    string
			Payload struct{ Path, SHA256 string }
		}
	}
	if err := json.Unmarshal([]byte(u.get("/parley/v1/sessions/"+id+"/events?limit=1000")), &page); err != nil {
		u.t.Fatal(err)
	}
	for _, e := range page.Events {
		if e.Payload.Path == path && e.Type == "file.uploaded" {
			sum = e.Payload.SHA256
		} else if e.Payload.Path == path && e.Type == "file.removed" {
			sum = ""
		}
	}
	return sum
}

func (u *killedServer) uploads(t *testing.T) {
	u.post("/parley/v1/sessions", `{"id":"files","agent":"none"}`)
	path := "/parley/v1/sessions/files/artifacts/f.bin"
	body := func(i int) string { return strings.Repeat(fmt.Sprintf("content %d. ", i), 50_000) }
	took := u.timed(call{method: "PUT", path: path, body: body(99)})
	atEachMoment(took, func(i int, after time.Duration) {
		c := call{method: "PUT", path: path, body: body(i)}
		if i%3 == 2 {
			c = call{method: "DELETE", path: path}
		}
		before := u.loggedHash("files", "f.bin")
		code := u.killDuring(c, after)
		sum := u.loggedHash("files", "f.bin")
		if code != 0 && code < 300 && sum == before {
			t.Errorf("%s killed after %s: it was acknowledged and is not in the log", c.method, after)
		}
		status, got, _ := u.do(call{path: path})
		hash := sha256.Sum256([]byte(got))
		if sum == "" && status != http.StatusNotFound || sum != "" && (status != http.StatusOK || hex.EncodeToString(hash[:]) != sum) {
			t.Errorf("%s killed after %s: the log says %q, the file is %d with %d bytes", c.method, after, sum, status, len(got))
		}
	})
}

func (u *killedServer) forks(t *testing.T) {
	u.fill("origin", "the origin")
	fork := func(i int) call {
		return call{method: "POST", path: "/parley/v1/sessions/origin/fork", body: fmt.Sprintf(`{"id":"fork-%d"}`, i)}
	}
	file := u.get("/parley/v1/sessions/origin/artifacts/a.txt")
	atEachMoment(u.timed(fork(99)), func(i int, after time.Duration) {
		code := u.killDuring(fork(i), after)
		at := fmt.Sprintf("/parley/v1/sessions/fork-%d", i)
		status, _, _ := u.do(call{path: at})
		if status != http.StatusOK && (code == http.StatusCreated || status != http.StatusNotFound) {
			t.Fatalf("killed after %s, answered %d: %d", after, code, status)
		}
		if status == http.StatusNotFound {
			// A new session with the id starts empty.
			u.post("/parley/v1/sessions", fmt.Sprintf(`{"id":"fork-%d","agent":"none"}`, i))
			if got := u.get(at + "/artifacts"); strings.Contains(got, "a.txt") {
				t.Errorf("killed after %s: files of a fork that does not exist: %s", after, got)
			}
			return
		}
		if n := strings.Count(u.get(at+"/events?limit=100"), `"user.message"`); n != 20 || u.get(at+"/artifacts/a.txt") != file {
			t.Errorf("killed after %s: a part of a fork with %d messages", after, n)
		}
	})
}

func (u *killedServer) imports(t *testing.T) {
	from := serve(t, t.TempDir())
	export := func(i int) string {
		id := fmt.Sprintf("import-%d", i)
		from.post("/parley/v1/sessions", `{"id":"`+id+`","agent":"none"}`)
		for range 4 {
			many := strings.Repeat(`{"type":"user.message","payload":{"text":"`+strings.Repeat("import ", 50)+`"}},`, 100)
			from.post("/parley/v1/sessions/"+id+"/events", "["+strings.TrimSuffix(many, ",")+"]")
		}
		return from.get("/parley/v1/sessions/" + id + "/export")
	}
	into := func(log string) call { return call{method: "POST", path: "/parley/v1/import", body: log} }
	atEachMoment(u.timed(into(export(99))), func(i int, after time.Duration) {
		log := export(i)
		code := u.killDuring(into(log), after)
		at := fmt.Sprintf("/parley/v1/sessions/import-%d", i)
		status, _, _ := u.do(call{path: at})
		switch {
		case status == http.StatusOK:
			if u.get(at+"/export") != log {
				t.Errorf("killed after %s: another log", after)
			}
		case status != http.StatusNotFound || code == http.StatusCreated:
			t.Errorf("killed after %s, answered %d: %d", after, code, status)
		default:
			u.must(into(log)) // the id is free
		}
	})
}

func (u *killedServer) restores(t *testing.T) {
	file := filepath.Join(t.TempDir(), "all.tar")
	if code, out, stderr := command(t, "backup", "--url", u.url, file); code != 0 {
		t.Fatal(code, out, stderr)
	}
	restore := func(data string) time.Duration {
		begun := time.Now()
		if code, out, stderr := command(t, "restore", file, "--data", data); code != 0 {
			t.Fatal(code, out, stderr)
		}
		return time.Since(begun)
	}
	took := restore(filepath.Join(t.TempDir(), "data"))
	atEachMoment(took, func(_ int, after time.Duration) {
		data := filepath.Join(t.TempDir(), "data")
		p := launch(t, binary, "restore", file, "--data", data)
		sleep.For(t.Context(), after)
		p.kill()
		if _, err := os.Stat(data); err != nil {
			if err := os.RemoveAll(data + ".part"); err != nil {
				t.Fatal(err)
			}
			restore(data)
		}
		if code, out, stderr := command(t, "verify", "--data", data); code != 0 {
			t.Errorf("killed after %s: %d %s%s", after, code, out, stderr)
		}
	})
}

// TestRestoreRefusesSparseFiles: a small backup that would unpack to gigabytes is
// refused before anything is written.
func TestRestoreRefusesSparseFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "small.tar")
	data := filepath.Join(dir, "data")
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	// The sparse map in the first block describes 3 GB of holes and one byte.
	content := []byte("1\n3000000000\n1\n")
	content = append(content, make([]byte, 512-len(content))...)
	content = append(content, 'x')
	head := &tar.Header{Typeflag: tar.TypeReg, Name: "store/db/x", Size: int64(len(content)), Mode: 0o600, Format: tar.FormatPAX}
	if err := w.WriteHeader(head); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// Go's tar writer cannot write sparse files; the test prepends the extended header.
	records := paxRecord("GNU.sparse.major", "1") + paxRecord("GNU.sparse.minor", "0") + paxRecord("GNU.sparse.name", "store/db/x") + paxRecord("GNU.sparse.realsize", "3000000001")
	var all bytes.Buffer
	x := tar.NewWriter(&all)
	if err := x.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "PaxHeaders/x", Size: int64(len(records)), Mode: 0o600, Format: tar.FormatUSTAR}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(x, records); err != nil {
		t.Fatal(err)
	}
	if err := x.Flush(); err != nil {
		t.Fatal(err)
	}
	front := all.Bytes()
	front[156] = tar.TypeXHeader
	setChecksum(front[:512])
	if err := os.WriteFile(file, append(front, b.Bytes()...), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if h, err := tar.NewReader(f).Next(); err != nil || h.Size != 3000000001 {
		t.Fatalf("the test file is not a sparse file: %+v %v", h, err)
	}
	expectExit(t, 1, []string{"is a sparse file"}, "restore", file, "--data", data)
	for _, path := range []string{data, data + ".part"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

// paxRecord is one record of an extended tar header.
func paxRecord(key, value string) string {
	for n := 0; ; n++ {
		if line := fmt.Sprintf("%d %s=%s\n", n, key, value); len(line) == n {
			return line
		}
	}
}

// setChecksum computes the checksum of a tar header.
func setChecksum(h []byte) {
	copy(h[148:156], "        ")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:156], fmt.Sprintf("%06o\x00 ", sum))
}
