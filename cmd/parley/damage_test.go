package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/freeport"
)

// running is a server in this process.
type running struct {
	url, nats string
	cancel    context.CancelFunc
	ended     chan int
	log       *lockedBuffer
}

// lockedBuffer collects what a server prints.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startServer starts a server. Its url is empty when it refused to start.
func startServer(t *testing.T, data string, withNATS bool) *running {
	t.Helper()
	s := &running{log: &lockedBuffer{}, ended: make(chan int, 1), nats: "off"}
	if withNATS {
		s.nats = freeport.Addr(t)
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	out, in := io.Pipe()
	go func() {
		code := run(ctx, []string{"serve", "--addr=127.0.0.1:0", "--data=" + data, "--min-free=-1", "--min-free-percent=-1", "--log-level=info", "--nats=" + s.nats}, nil, in, s.log)
		in.Close()
		s.ended <- code
	}()
	lines := bufio.NewScanner(out)
	for s.url == "" && lines.Scan() {
		s.url = readyLine.FindString(lines.Text())
	}
	go io.Copy(io.Discard, out)
	return s
}

func (s *running) stop() int {
	s.cancel()
	return <-s.ended
}

func dial(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{URL: url, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// content is everything that a server has: events of sessions in order, and files.
type content struct {
	events map[chat.SessionID][]string
	files  map[string]string
}

func contentOf(ctx context.Context, c *client.Client) (content, error) {
	all := content{map[chat.SessionID][]string{}, map[string]string{}}
	for s, err := range c.Sessions(ctx, client.SessionQuery{}) {
		if err != nil {
			return all, err
		}
		all.events[s.ID] = nil
	}
	for id := range all.events {
		for e, err := range c.Events(ctx, id, client.EventQuery{}) {
			if err != nil {
				return all, err
			}
			all.events[id] = append(all.events[id], string(e.AppendJSON(nil)))
		}
		files, err := c.Artifacts(ctx, id)
		if err != nil {
			return all, err
		}
		for _, f := range files {
			body, _, err := c.Download(ctx, id, f.Path)
			if err != nil {
				return all, err
			}
			b, err := io.ReadAll(body)
			body.Close()
			if err != nil {
				return all, err
			}
			all.files[fmt.Sprint(id, "/", f.Path, " ", f.MediaType)] = string(b)
		}
	}
	return all, nil
}

// has reports whether everything of want is there. More may be there.
func (c content) has(want content) bool {
	for id, events := range want.events {
		if got := c.events[id]; len(got) < len(events) || !slices.Equal(got[:len(events)], events) {
			return false
		}
	}
	for name, bytes := range want.files {
		if c.files[name] != bytes {
			return false
		}
	}
	return true
}

// archived counts the messages that x1 clients find of each session.
func archived(ctx context.Context, addr string) (map[string]uint64, error) {
	conn, err := nats.Connect("nats://"+addr, nats.Timeout(30*time.Second))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, "X1_ARCHIVE")
	if err != nil {
		return nil, err
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	got := map[string]uint64{}
	for {
		batch, err := consumer.FetchNoWait(1000)
		if err != nil {
			return nil, err
		}
		n := 0
		for m := range batch.Messages() {
			got[m.Subject()]++
			n++
		}
		if n == 0 {
			return got, batch.Error()
		}
	}
}

// awaitArchive waits until the archive has every event of want.
func awaitArchive(ctx context.Context, addr string, want content) error {
	for {
		got, err := archived(ctx, addr)
		short := ""
		for id, events := range want.events {
			if n := got["x1.session."+string(id)+".archive"]; n < uint64(len(events)) {
				short = fmt.Sprintf("%d of %d events of %s", n, len(events), id)
			}
		}
		if err == nil && short == "" {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the archive has %s (%v)", short, err)
		}
	}
}

// Damages every file of a data folder in five ways, after a clean shutdown and after a kill. The server refuses to start
// and names the file, or the server or verify reports it, or all data is served as before.
func TestDamageOfEveryFileIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	live, older, killed := filepath.Join(dir, "live"), filepath.Join(dir, "older"), filepath.Join(dir, "killed")
	s := startServer(t, live, true)
	if s.url == "" {
		t.Fatal(s.log)
	}
	c := dial(t, s.url)
	ctx := t.Context()
	fill := func(n int) {
		for _, text := range []string{"hi", "/artifact image", "/artifact table"} {
			succeed(t, "", "send", "--url", s.url, "new", "-w", text)
		}
		sess, err := c.Create(ctx, client.NewSession{ID: chat.SessionID(fmt.Sprint("files-", n))})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []chat.SessionID{sess.ID, "files-1"} {
			if _, err := c.Upload(ctx, id, "notes.txt", strings.NewReader(fmt.Sprint("note ", n)), client.UploadOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	idle := func() content {
		want, err := contentOf(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		wait, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		if err := awaitArchive(wait, s.nats, want); err != nil {
			t.Fatal(err)
		}
		return want
	}
	fill(1)
	idle()
	c.Close()
	if code := s.stop(); code != exitOK {
		t.Fatal(code, s.log)
	}
	s = startServer(t, live, true) // the start moves the log to tables
	c = dial(t, s.url)
	fill(2)
	idle()
	copyFolder(t, live, older)
	if _, err := c.Delete(ctx, "files-2"); err != nil { // moves the rest, and writes the manifest
		t.Fatal(err)
	}
	fill(3)
	want := idle()
	copyFolder(t, live, killed) // no request is running: a kill leaves the same files
	c.Close()
	if code := s.stop(); code != exitOK {
		t.Fatal(code, s.log)
	}
	for end, folder := range map[string]string{"stopped": live, "killed": killed} {
		for _, name := range filesOf(t, folder) {
			for _, kind := range []string{"flipped", "cut", "emptied", "deleted", "older"} {
				b, ok := damagedFile(t, folder, older, name, kind)
				if !ok {
					continue
				}
				t.Run(end+"/"+name+"/"+kind, func(t *testing.T) {
					t.Parallel()
					data := filepath.Join(t.TempDir(), "data")
					copyFolder(t, folder, data)
					err := os.Remove(filepath.Join(data, name))
					if err == nil && b != nil {
						err = os.WriteFile(filepath.Join(data, name), b, 0o600)
					}
					if err != nil {
						t.Fatal(err)
					}
					checkDamaged(t, data, name, want)
				})
			}
		}
	}
}

// damagedFile returns a file after damage, nil when it is deleted. It reports false
// when the damage does not change it.
func damagedFile(t *testing.T, folder, older, name, kind string) ([]byte, bool) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	now := slices.Clone(b)
	switch kind {
	case "flipped":
		if len(b) > 0 {
			b[len(b)*2/3] ^= 0x10
		}
	case "cut":
		b = b[:len(b)*2/3]
	case "emptied":
		b = []byte{}
	case "deleted":
		return nil, true
	case "older":
		b, err = os.ReadFile(filepath.Join(older, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, false
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return b, !bytes.Equal(b, now)
}

func checkDamaged(t *testing.T, data, name string, want content) {
	t.Helper()
	base := filepath.Base(name)
	ofNATS := strings.HasPrefix(name, "nats/") || strings.HasPrefix(name, "x1-")
	s := startServer(t, data, ofNATS)
	if s.url == "" {
		s.stop()
		if !strings.Contains(s.log.String(), base) {
			t.Errorf("the server refuses to start without naming the file: %s", s.log)
		}
		if code, out, errs := cli(t, "", "verify", "--data", data); !strings.HasPrefix(name, "nats/") && code == exitOK {
			t.Errorf("verify --data finds nothing: %s%s", out, errs)
		}
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := dial(t, s.url)
	got, err := contentOf(ctx, c)
	c.Close()
	code, out, errs := cli(t, "", "verify", "--url", s.url)
	if ofNATS && err == nil && !strings.Contains(out, "X1_ARCHIVE") {
		if aerr := awaitArchive(ctx, s.nats, want); aerr != nil {
			t.Errorf("%v, and verify does not say so\n%s%s", aerr, s.log, out)
		}
	}
	s.stop()
	named := strings.Contains(s.log.String()+out+errs, base) || code != exitOK && strings.Contains(out, "artifact")
	if !named && (err != nil || !got.has(want)) {
		t.Errorf("something is missing (%v), and it is not reported:\n%s%s%s", err, s.log, out, errs)
	}
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func filesOf(t *testing.T, folder string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, rerr := filepath.Rel(folder, path)
			names, err = append(names, filepath.ToSlash(name)), rerr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A store with a missing file is refused until the loss is accepted.
func TestVerifyAcceptsTheLossOfMissingFiles(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := startServer(t, data, false)
	succeed(t, "", "send", "--url", s.url, "new", "-w", "hi")
	if code := s.stop(); code != exitOK {
		t.Fatal(code, s.log)
	}
	if err := os.Remove(filepath.Join(data, "store", "db.inventory")); err != nil {
		t.Fatal(err)
	}
	if s := startServer(t, data, false); s.url != "" || s.stop() == exitOK || !strings.Contains(s.log.String(), "parley verify --data DIR --accept") {
		t.Fatalf("it started: %s", s.log)
	}
	if code, _, errs := cli(t, "", "verify", "--data", data); code != exitError || !strings.Contains(errs, "db.inventory is missing") {
		t.Errorf("verify: %d %s", code, errs)
	}
	if code, _, errs := cli(t, "", "verify", "--accept"); code == exitOK || !strings.Contains(errs, "--data") {
		t.Errorf("verify --accept without a folder: %d %s", code, errs)
	}
	if out := succeed(t, "", "verify", "--data", data, "--accept"); !strings.Contains(out, "1 session") {
		t.Error(out)
	}
	s = startServer(t, data, false)
	if s.url == "" || s.stop() != exitOK {
		t.Errorf("the accepted store is refused: %s", s.log)
	}
}
