package command

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parley-hq/parley/internal/natsprovider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func script(t *testing.T, text string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{"/bin/sh", file}
}

func TestPreview(t *testing.T) {
	ask := `{"preview_yaml":"a: b","repo_full_name":"x/y","commit_sha":"c0ffee","secret_values":{"KEY":"hidden"}}`
	for name, c := range map[string]struct{ program, want string }{
		"ready":         {`read in; case "$in" in *c0ffee*hidden*) echo '{"ok":true,"url":"https://p.test","slug":"p"}';; esac`, `{"ok":true,"url":"https://p.test","slug":"p"}`},
		"no address":    {`echo '{"ok":true}'`, `"code":"bad_answer"`},
		"refused":       {`echo '{"ok":false,"code":"quota","message":"too many"}'; exit 1`, `"code":"quota","message":"too many"`},
		"fails":         {`echo 'no such branch' >&2; exit 3`, `"code":"failed","message":"no such branch"`},
		"no answer":     {`echo hello`, `"code":"bad_answer"`},
		"says too much": {`head -c 2000000 /dev/zero`, `"code":"bad_answer"`},
	} {
		got, err := Preview(script(t, c.program)).Ops["provision"](t.Context(), natsprovider.Call{Op: "provision"}, json.RawMessage(ask))
		b, _ := json.Marshal(got)
		if err != nil || !strings.Contains(string(b), c.want) {
			t.Errorf("%s: %s %v", name, b, err)
		}
	}
	if _, err := Preview(nil).Ops["provision"](t.Context(), natsprovider.Call{}, json.RawMessage(`{}`)); err == nil {
		t.Error("an empty request is refused")
	}
	got, err := Preview([]string{"/no/such/program"}).Ops["provision"](t.Context(), natsprovider.Call{}, json.RawMessage(ask))
	if r, ok := got.(PreviewReply); err != nil || !ok || r.Code != "not_started" {
		t.Error(got, err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, done := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer done()
	for ctx, want := range map[context.Context]string{canceled: "ended", late: "timeout"} {
		got, err = Preview(script(t, "exec sleep 60")).Ops["provision"](ctx, natsprovider.Call{}, json.RawMessage(ask))
		if r, ok := got.(PreviewReply); err != nil || !ok || r.Code != want {
			t.Error(want, got, err)
		}
	}
}

func TestImage(t *testing.T) {
	got, err := Image(script(t, `echo '{"ok":true,"image":"i:1"}'`)).Ops["build"](t.Context(), natsprovider.Call{}, json.RawMessage(`{"image_id":"7"}`))
	if r, ok := got.(BuildReply); err != nil || !ok || !r.OK || r.ID != "7" || r.Image != "i:1" {
		t.Error(got, err)
	}
	if _, err := Image(nil).Ops["build"](t.Context(), natsprovider.Call{}, json.RawMessage(`{}`)); err == nil {
		t.Error("it needs an id")
	}
}
