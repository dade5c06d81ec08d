//go:build s3

// Three nodes that keep the bytes of files in a real S3 service. `make s3-test` installs the service.

package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-hq/parley/internal/freeport"
)

// bucket is a bucket of a real service.
type bucket struct {
	t    *testing.T
	dir  string // of the service
	addr string
	p    *process
}

const (
	bucketKey    = "the-key-of-this-test"
	bucketSecret = "the-secret-key-of-this-test"
)

func startBucket(t *testing.T) *bucket {
	t.Helper()
	b := &bucket{t: t, dir: t.TempDir(), addr: freeport.Addr(t)}
	for _, name := range []string{"data/files", "meta"} {
		if err := os.MkdirAll(filepath.Join(b.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.start()
	return b
}

func (b *bucket) start() {
	b.t.Helper()
	program := os.Getenv("PARLEY_S3_SERVER")
	if program == "" {
		b.t.Fatal("PARLEY_S3_SERVER is not set; run this test with make s3-test")
	}
	b.p = launch(b.t, program, "--quiet", "--port", b.addr, "--access", bucketKey, "--secret", bucketSecret,
		"posix", "--sidecar", filepath.Join(b.dir, "meta"), filepath.Join(b.dir, "data"))
	until(b.t, "the S3 service answers", func() bool {
		res, err := http.Get("http://" + b.addr + "/")
		if err != nil {
			return false
		}
		res.Body.Close()
		return true
	})
}

// objects returns the keys of all objects.
func (b *bucket) objects() (keys []string) {
	b.t.Helper()
	root := filepath.Join(b.dir, "data", "files")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			keys = append(keys, strings.TrimPrefix(path, root+"/"))
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return keys
}

func TestFilesInARealBucket(t *testing.T) {
	b := startBucket(t)
	c := newNodes(t, "", []string{"off", "off", "off"})
	credentials := filepath.Join(c.dir, "credentials")
	if err := os.WriteFile(credentials, []byte("[default]\naws_access_key_id = "+bucketKey+"\naws_secret_access_key = "+bucketSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.args = []string{"--artifacts", "s3://files/of/parley", "--artifacts-endpoint", "http://" + b.addr, "--artifacts-credentials", credentials}
	c.startAll()
	const sessions = "/parley/v1/sessions"
	data := make([]byte, 30_000_000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data) // never fails
	want := func(node int, what string, code int, c2 call) string {
		t.Helper()
		got, body, _ := c.all[node].do(c2)
		if got != code {
			t.Fatalf("%s at node %d: %d %.300s", what, node, got, body)
		}
		return body
	}
	read := func(node int, id, path, content string) {
		t.Helper()
		until(t, fmt.Sprintf("node %d has the file", node), func() bool {
			code, body, _ := c.all[node].do(call{path: sessions + "/" + id + "/artifacts/" + path})
			return code == http.StatusOK && body == content
		})
	}
	want(0, "create", http.StatusCreated, call{method: "POST", path: sessions, body: `{"id":"s","agent":"none"}`})
	want(0, "upload", http.StatusCreated, call{method: "PUT", path: sessions + "/s/artifacts/large.bin", body: string(data)})
	want(1, "upload", http.StatusCreated, call{method: "PUT", path: sessions + "/s/artifacts/empty", header: map[string]string{"Content-Length": "0"}})
	for i := range c.all {
		read(i, "s", "large.bin", string(data))
		if part := want(i, "range", http.StatusPartialContent, call{path: sessions + "/s/artifacts/large.bin", header: map[string]string{"Range": "bytes=20000000-20000999"}}); part != string(data[20_000_000:20_001_000]) {
			t.Errorf("node %d serves another part", i)
		}
	}
	var fork struct {
		ID string `json:"session_id"`
	}
	if err := json.Unmarshal([]byte(want(2, "fork", http.StatusCreated, call{method: "POST", path: sessions + "/s/fork", body: "{}"})), &fork); err != nil {
		t.Fatal(err)
	}
	for _, key := range b.objects() {
		if !strings.HasPrefix(key, "of/parley/") || strings.Contains(key, "large") {
			t.Errorf("an object is called %s", key)
		}
	}

	c.all[0].kill()
	read(1, "s", "large.bin", string(data))
	read(2, fork.ID, "large.bin", string(data))
	until(t, "an upload without the killed node", func() bool {
		code, _, _ := c.all[2].do(call{method: "PUT", path: sessions + "/s/artifacts/second", body: "second"})
		return code == http.StatusCreated
	})

	b.p.kill()
	for _, q := range []call{
		{method: "PUT", path: sessions + "/s/artifacts/third", body: "third"},
		{method: "GET", path: sessions + "/s/artifacts/second"},
		{method: "DELETE", path: sessions + "/s"},
	} {
		if body := want(1, q.method+" without the bucket", http.StatusServiceUnavailable, q); !strings.Contains(body, "storage of files") {
			t.Errorf("%s: %s", q.method, body)
		}
	}
	b.start()
	c.start(0)
	c.ready()
	for _, id := range []string{"s", fork.ID} {
		until(t, "the receipt of "+id, func() bool {
			code, body, _ := c.all[1].do(call{method: "DELETE", path: sessions + "/" + id})
			return code == http.StatusOK && !strings.Contains(body, "nodes_pending") || code == http.StatusGone
		})
	}
	if left := b.objects(); len(left) > 0 {
		t.Errorf("%d objects are left: %v", len(left), left)
	}
	for i, p := range c.all {
		for _, secret := range []string{bucketKey, bucketSecret} {
			if strings.Contains(p.out.String()+p.err.String(), secret) {
				t.Errorf("node %d has printed the credentials of the bucket", i)
			}
		}
	}
}
