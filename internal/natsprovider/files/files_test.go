package files

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/artifact"
	"github.com/parley-hq/parley/internal/natsprovider"
)

// store is the real one on the disk.
type store struct{ *artifact.Local }

func (s store) Put(ctx context.Context, id chat.SessionID, path, mediaType string, body io.Reader, limit int64) (chat.FileInfo, error) {
	return s.Local.Put(ctx, id, path, mediaType, body, artifact.PutOptions{Max: limit})
}

func (s store) Delete(ctx context.Context, id chat.SessionID, path string) error {
	return s.Remove(ctx, id, path, 0, func(chat.FileInfo) error { return nil })
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	local, err := artifact.Open(dir, artifact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := New(store{local})
	ask := func(id chat.SessionID, op, body string) string {
		t.Helper()
		got, err := p.Ops[op](t.Context(), natsprovider.Call{Op: op, Session: id}, json.RawMessage(body))
		if err != nil {
			return string(chat.CodeOf(err))
		}
		b, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	big := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00\xff", maxInline/2+10)))
	for _, c := range []struct {
		id             chat.SessionID
		op, body, want string
	}{
		{"s1", "put", `{"path":"a/b.txt","text":"hello","media_type":"text/plain"}`, `"size":5`},
		{"s1", "get", `{"path":"a/b.txt"}`, `"text":"hello"`},
		{"s1", "get", `{"path":"a/b.txt","offset":3}`, `"text":"lo"`},
		{"s1", "get", `{"path":"a/b.txt","offset":9}`, "invalid"},
		{"s1", "stat", `{"path":"a/b.txt"}`, `"media_type":"text/plain`},
		{"s1", "list", `{"prefix":"a/"}`, `"path":"a/b.txt"`},
		{"s1", "upload", `{"path":"c.bin","content_b64":"` + big + `"}`, `"ok":true`},
		{"s1", "download", `{"path":"c.bin"}`, `"next_offset":524288`},
		{"s1", "put", `{"path":"../x","text":"x"}`, "invalid"},
		{"s1", "put", `{"path":"x","text":"x","content_b64":"eA=="}`, "invalid"},
		{"s2", "get", `{"path":"a/b.txt"}`, "not_found"}, // another session's
		{"", "list", `{}`, "denied"},
		{"s1", "delete", `{"path":"a/b.txt"}`, `"ok":true`},
		{"s1", "get", `{"path":"a/b.txt"}`, "not_found"},
	} {
		if got := ask(c.id, c.op, c.body); !strings.Contains(got, c.want) {
			t.Errorf("%s of %q: %.200s", c.op, c.id, got)
		}
	}
}
