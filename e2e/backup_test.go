// Tests of backup, restore, export and import.

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestBackupAndRestore: a backup of a running server, restored into another folder, has
// the same content.
func TestBackupAndRestore(t *testing.T) {
	p := serve(t, t.TempDir())
	for _, id := range []string{"one", "two"} {
		p.post("/parley/v1/sessions", `{"id":"`+id+`","agent":"none","title":"`+id+`"}`)
		p.post("/parley/v1/sessions/"+id+"/events", `{"type":"user.message","payload":{"text":"in `+id+`"}}`)
		p.must(call{method: "PUT", path: "/parley/v1/sessions/" + id + "/artifacts/a/b.txt", body: "the same bytes"})
	}
	tar := filepath.Join(t.TempDir(), "all.tar")
	if code, out, stderr := command(t, "backup", "--url", p.url, tar); code != 0 {
		t.Fatalf("backup: %d\n%s%s", code, out, stderr)
	}
	p.post("/parley/v1/sessions/one/events", `{"type":"user.message","payload":{"text":"after the backup"}}`)

	data := filepath.Join(t.TempDir(), "restored")
	if code, out, stderr := command(t, "restore", tar, "--data", data); code != 0 {
		t.Fatalf("restore: %d\n%s%s", code, out, stderr)
	}
	q := serve(t, data)
	for _, id := range []string{"one", "two"} {
		for _, path := range []string{"/events?before=4", "/artifacts", "/artifacts/a/b.txt"} {
			path = "/parley/v1/sessions/" + id + path
			if a, b := p.get(path), q.get(path); a != b && !(id == "one" && strings.Contains(path, "events") && strings.HasPrefix(a, b[:len(b)-len(`"more":false}`)])) {
				t.Errorf("%s: %s\nwas %s", path, b, a)
			}
		}
	}
	if got := q.get("/parley/v1/sessions/one/events"); strings.Contains(got, "after the backup") {
		t.Error("the backup has later events")
	}
	if code, out, stderr := command(t, "verify", "--url", q.url); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, stderr)
	}
	if got := q.get("/parley/v1/verify"); !strings.Contains(got, `"done":true`) || strings.Contains(got, "problems") {
		t.Error(got)
	}
	// A restore refuses a folder with a store, and a truncated backup.
	if code, _, stderr := command(t, "restore", tar, "--data", data); code != 1 || stderr == "" {
		t.Errorf("restore over a store: %d %s", code, stderr)
	}
	whole, err := os.ReadFile(tar)
	if err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(t.TempDir(), "half.tar")
	if err := os.WriteFile(half, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "half")
	if code, _, stderr := command(t, "restore", half, "--data", elsewhere); code != 1 || stderr == "" {
		t.Errorf("restore of a truncated backup: %d %s", code, stderr)
	}
	if _, err := os.Stat(elsewhere); err == nil {
		t.Error("a truncated backup left a folder")
	}
}

// TestExportAndImport: an imported log is byte for byte the exported one, and a changed
// log is refused.
func TestExportAndImport(t *testing.T) {
	p, q := serve(t, t.TempDir()), serve(t, t.TempDir())
	p.post("/parley/v1/sessions", `{"id":"moved"}`)
	p.post("/parley/v1/sessions/moved/events", `{"type":"user.message","payload":{"text":"/tool add {\"a\":1}"}}`)
	deadline := time.Now().Add(60 * time.Second)
	for !strings.Contains(p.get("/parley/v1/sessions/moved/events"), "turn.completed") {
		if time.Now().After(deadline) {
			t.Fatal("the turn did not end")
		}
	}
	file := filepath.Join(t.TempDir(), "moved.ndjson")
	if code, out, stderr := command(t, "export", "--url", p.url, "moved", "--output", file); code != 0 {
		t.Fatalf("export: %d\n%s%s", code, out, stderr)
	}
	if code, out, stderr := command(t, "import", "--url", q.url, file); code != 0 {
		t.Fatalf("import: %d\n%s%s", code, out, stderr)
	}
	if a, b := p.get("/parley/v1/sessions/moved/export"), q.get("/parley/v1/sessions/moved/export"); a != b {
		t.Errorf("%s\nwas %s", b, a)
	}
	if code, _, stderr := command(t, "import", "--url", q.url, file); code != 1 || !strings.Contains(stderr, "moved") {
		t.Errorf("a second import: %d %s", code, stderr)
	}
	q.post("/parley/v1/sessions/moved/events", `{"type":"user.message","payload":{"text":"and continues"}}`)
	if code, out, stderr := command(t, "verify", "--url", q.url); code != 0 {
		t.Errorf("verify: %d\n%s%s", code, out, stderr)
	}
	// A changed log is refused.
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.Replace(string(whole), `\"a\":1`, `\"a\":2`, 1)
	r := serve(t, t.TempDir())
	if code, body, _ := r.do(call{method: "POST", path: "/parley/v1/import", body: forged, header: map[string]string{"Content-Type": "application/x-ndjson"}}); code != 400 {
		t.Errorf("a forged log: %d %s", code, body)
	}
	if code, _, _ := r.do(call{path: "/parley/v1/sessions/moved"}); code != 404 {
		t.Error("a part of a forged log was stored")
	}
}

// TestImportedTurnContinues: a turn that waited for an answer at the export continues
// after the import; the answer ends it.
func TestImportedTurnContinues(t *testing.T) {
	p, q := serve(t, t.TempDir()), serve(t, t.TempDir())
	p.post("/parley/v1/sessions", `{"id":"moved"}`)
	p.post("/parley/v1/sessions/moved/events", `{"type":"user.message","payload":{"text":"/ask text"}}`)
	await := func(s *process, word string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !strings.Contains(s.get("/parley/v1/sessions/moved/events"), word); {
			if time.Now().After(end) {
				t.Fatalf("there is no %s: %s", word, s.get("/parley/v1/sessions/moved/events"))
			}
		}
	}
	await(p, "agent.input_request")
	log := p.get("/parley/v1/sessions/moved/export")
	q.must(call{method: "POST", path: "/parley/v1/import", body: log, header: map[string]string{"Content-Type": "application/x-ndjson"}})
	await(q, "turn.resumed")
	request := regexp.MustCompile(`"request_id":"([^"]+)"`).FindStringSubmatch(log)[1]
	q.post("/parley/v1/sessions/moved/prompts/"+request+"/answer", `{"text":"Ada"}`)
	await(q, "turn.completed")
}
