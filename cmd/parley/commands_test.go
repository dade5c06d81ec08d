package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// wholeStore matches the output of verify for a session of 9 events and an audit log with as many entries as the backup
// has.
var wholeStore = regexp.MustCompile(`^(1 session with 9|2 sessions with 1\d) events, all whole`)

// Sends, lists, watches, exports, imports, verifies, backs up and restores one session.
func TestCommandsOnOneSession(t *testing.T) {
	dir := t.TempDir()
	launch(t, filepath.Join(dir, "data"))

	if _, _, errs := cli(t, "", "sessions"); !strings.Contains(errs, "begin one") {
		t.Errorf("the output for an empty list is %q", errs)
	}
	if out := succeed(t, "", "send", "new", "--wait", "/echo", "Hello", "there"); out != "Hello there\n" {
		t.Fatalf("the answer is %q", out)
	}
	var s chat.Session
	if err := json.Unmarshal([]byte(succeed(t, "", "sessions", "--json", "--limit", "1")), &s); err != nil || s.Agent != "demo" {
		t.Fatalf("session %+v, %v", s, err)
	}
	id := string(s.ID)
	if out := succeed(t, "", "sessions", "--status", "idle"); !strings.Contains(out, id) {
		t.Errorf("the list has no %s:\n%s", id, out)
	}
	if _, _, errs := cli(t, "", "sessions", "--agent", "nobody"); !strings.Contains(errs, "no such sessions") {
		t.Errorf("the output for an unknown agent is %q", errs)
	}
	if out := succeed(t, "from a pipe\n", "send", id, "-", "-w"); out != "You said: from a pipe\n" {
		t.Errorf("the answer to standard input is %q", out)
	}
	watched := succeed(t, "", "watch", id, "--after", "0", "--json", "--until-idle")
	if n := strings.Count(watched, `"type":"user.message"`); n != 2 || !strings.Contains(watched, `"text":"Hello there"`) {
		t.Errorf("watch until idle gave\n%s", watched)
	}

	file := filepath.Join(dir, "log.ndjson")
	succeed(t, "", "export", id, "-o", file)
	if code, _, errs := cli(t, "", "export", id, "-o", file); code != exitError || !strings.Contains(errs, "already exists") {
		t.Errorf("export overwrote a file: %d %s", code, errs)
	}
	exported, _ := os.ReadFile(file)
	if string(exported) != succeed(t, "", "export", id) {
		t.Error("a file and standard output have different logs")
	}
	if code, _, errs := cli(t, "", "import", file); code != exitError || strings.Count(errs, "\n") != 1 {
		t.Errorf("a log was imported over itself: %d %s", code, errs)
	}
	if out := succeed(t, "", "verify"); !strings.Contains(out, "all whole") {
		t.Errorf("verify printed %q", out)
	}

	backup, restored := filepath.Join(dir, "b.tar"), filepath.Join(dir, "restored")
	succeed(t, "", "backup", backup)
	succeed(t, "", "restore", backup, "--data", restored)
	if out := succeed(t, "", "verify", "--data", restored); !wholeStore.MatchString(out) {
		t.Errorf("the restored store: %q", out)
	}
	if code, _, errs := cli(t, "", "restore", backup, "--data", restored); code != exitError || !strings.Contains(errs, "not empty") {
		t.Errorf("restore overwrote a store: %d %s", code, errs)
	}
	if err := os.Mkdir(restored+"2.part", 0o700); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := cli(t, "", "restore", backup, "--data", restored+"2"); code != exitError || !strings.Contains(errs, "2.part already exists") {
		t.Errorf("after an interrupted restore: %d %s", code, errs)
	}

	t.Run("on another server", func(t *testing.T) {
		launch(t, filepath.Join(dir, "other"))
		if out := succeed(t, "", "import", file); out != id+"\n" {
			t.Fatalf("imported as %q", out)
		}
		if succeed(t, "", "export", id) != string(exported) {
			t.Error("the log is not the same byte for byte")
		}
	})
	t.Run("on the restored store", func(t *testing.T) {
		launch(t, restored)
		if out := succeed(t, "", "send", id, "still there?", "-w"); out != "You said: still there?\n" {
			t.Errorf("the answer is %q", out)
		}
	})
}

func TestConnectionErrorsNameTheCause(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that fails
	server.StartTLS()
	defer server.Close()
	if code, _, errs := cli(t, "", "sessions", "--url", server.URL); code != exitError || !strings.Contains(errs, "does not trust its certificate") {
		t.Errorf("a foreign certificate: %d %s", code, errs)
	}
	for addr, want := range map[string]string{"[::]:8443": "parley.example.com:8443", "0.0.0.0:80": "parley.example.com:80", "127.0.0.1:8000": "127.0.0.1:8000"} {
		c := &ServeCmd{Host: []string{"parley.example.com"}}
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.url(tcp); got != "http://"+want {
			t.Errorf("%s is reached at %s, want %s", addr, got, want)
		}
	}
	for _, address := range []string{":::", "collector:4318", "ftp://x", "http://user:secret%zz@host", "ftp://user:secret@host"} {
		if _, err := tracing(address, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:4318") || strings.Contains(err.Error(), "secret") {
			t.Errorf("--otlp %s: %v", address, err)
		}
	}
}

// The log names the collector that does not answer, but not the password in its address.
func TestCollectorIsLoggedWithoutPassword(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	address := strings.TrimPrefix(closed.URL, "http://")
	var out bytes.Buffer
	provider, err := tracing("http://me:hunter2@"+address, slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	_, span := provider.Tracer("test").Start(t.Context(), "turn")
	span.End()
	_ = provider.Shutdown(t.Context())
	if got := out.String(); !strings.Contains(got, "me:xxxxx@"+address) || strings.Contains(got, "hunter2") {
		t.Errorf("the log is %q", got)
	}
}

// The sidecar fails at once when the server has no NATS, and creates no session.
func TestSidecarFailsWhenNATSIsOff(t *testing.T) {
	launch(t, t.TempDir())
	code, _, errs := cli(t, "", "sidecar", "s1", "--listen=127.0.0.1:0")
	if code != exitError || !strings.Contains(errs, "--nats off") || !strings.Contains(errs, "127.0.0.1:4222") {
		t.Errorf("%d %s", code, errs)
	}
	if out := succeed(t, "", "sessions", "--json"); strings.Contains(out, "s1") {
		t.Errorf("it created a session: %s", out)
	}
}

// A file whose bytes have changed is named by session and path, with the server
// and without it; a cut backup is not unpacked.
func TestVerifyNamesDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	data, backup := filepath.Join(dir, "data"), filepath.Join(dir, "b.tar")
	want := "artifact out/"
	t.Run("served", func(t *testing.T) {
		launch(t, data)
		succeed(t, "", "send", "new", "-w", "/artifact image")
		succeed(t, "", "backup", backup)
		var s chat.Session
		if err := json.Unmarshal([]byte(succeed(t, "", "sessions", "--json")), &s); err != nil {
			t.Fatal(err)
		}
		want = "session " + string(s.ID) + ": " + want
		files, _ := filepath.Glob(filepath.Join(data, "artifacts", "sessions", "*", "*", "*-*"))
		if len(files) != 1 {
			t.Fatalf("the artifact is in %q", files)
		}
		info, err := os.Stat(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(files[0], make([]byte, info.Size()), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, errs := cli(t, "", "verify"); code != exitError || !strings.Contains(out, want) || !strings.Contains(errs, "1 problem in ") {
			t.Errorf("verify: %d %s%s", code, out, errs)
		}
	})
	if code, out, errs := cli(t, "", "verify", "--data", data); code != exitError || !strings.Contains(out, want) {
		t.Errorf("verify --data: %d %s%s, want %s", code, out, errs, want)
	}
	whole, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(backup, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := cli(t, "", "restore", backup, "--data", filepath.Join(dir, "new")); code != exitError || !strings.Contains(errs, "not complete") {
		t.Errorf("restore of half a backup: %d %s", code, errs)
	}
}

func TestChatOverPlainLines(t *testing.T) {
	launch(t, filepath.Join(t.TempDir(), "data"))
	code, out, errs := cli(t, strings.Join([]string{
		"hi", "/ask radio", "nonsense", "2", "/ask checkbox", "1, Push", "/ask text", "Ada",
		`/approve deploy {"env":"prod"}`, "no too risky", `/approve deploy {"env":"prod"}`, "yes", `/approve deploy {"env":"prod"}`, "yes {nonsense", `yes {"env":"staging"}`, "/permission a b", "b", "/ask notification", "/artifact table", "/artifact chart", "/fail boom", "after",
	}, "\n"), "chat")
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	at := 0
	for _, want := range []string{
		"You said: hi\n", "? How should I notify you?", "2. SMS", "You answered: sms\n", "You answered: email, push\n", "You answered: Ada\n",
		"deploy {\"env\":\"prod\"}", "Denied: too risky\n", "deploy gave {\"env\":\"prod\"}", "deploy gave {\"env\":\"staging\"}", "Granted: b. Denied: a", "🔔 This is a notification.\nNotified.\n", "◆ table Cities by size\n  City      │ Country │ Million people\n", "  São Paulo │ Brazil  │           22.8\n",
		"◆ chart Visits per day\n  Visits\n  Mon ███", "█ 240\n", "You said: after\n",
	} {
		i := strings.Index(out[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing behind\n%s\nin\n%s", want, out[:at], out)
		}
		at += i + len(want)
	}
	for _, want := range []string{"is not one of the options", "the arguments are not valid JSON", "the turn failed: boom", "continue with: parley chat s-"} {
		if !strings.Contains(errs, want) {
			t.Errorf("standard error lacks %q:\n%s", want, errs)
		}
	}
}

// A question that is open when the conversation is continued comes before the first line, which answers it. A message that
// has to wait for such a question says so.
func TestPlainLinesAnswerAnOpenQuestion(t *testing.T) {
	launch(t, filepath.Join(t.TempDir(), "data"))
	id, _, _ := strings.Cut(succeed(t, "", "send", "new", "/ask text"), " ")
	code, out, errs := cli(t, "Ada\n/ask radio\nsms\n", "chat", id)
	if code != exitOK || out != "? What is your name?\nYou answered: Ada\n? How should I notify you?\n  1. Email\n  2. SMS\n  3. Push\nYou answered: sms\n" {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	succeed(t, "", "send", id, "/ask text")
	if code, out, errs := cli(t, "", "chat", id); code != exitError || out != "? What is your name?\n" || !strings.Contains(errs, "the input ended") {
		t.Errorf("without input: exit %d, %q, %q", code, out, errs)
	}
	succeed(t, "", "send", id, "queued")
	if code, out, errs := cli(t, "Bob\nthen\n", "chat", id); code != exitOK || !strings.HasSuffix(out, "You answered: Bob\nYou said: then\n") {
		t.Errorf("with a message that waits: exit %d, %q, %q", code, out, errs)
	}
	succeed(t, "", "send", id, "/ask text timeout=1")
	if code, out, errs := cli(t, "", "send", id, "hello", "--wait"); code != exitOK || out != "You said: hello\n" || !strings.Contains(errs, "the agent asks: What is your name?") {
		t.Errorf("send --wait: exit %d, %q, %q", code, out, errs)
	}
}

// An agent that does not exist is refused before a session is created.
func TestChatRefusesAnUnknownAgent(t *testing.T) {
	launch(t, filepath.Join(t.TempDir(), "data"))
	for _, args := range [][]string{{"chat", "--agent", "nobody"}, {"send", "new", "hi", "--wait", "--agent", "nobody"}} {
		if code, out, errs := cli(t, "hi\n", args...); code != exitError || out != "" || errs != "parley: there is no agent \"nobody\"; the only one is demo\n" {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, errs)
		}
	}
	if _, _, errs := cli(t, "", "sessions"); !strings.Contains(errs, "no sessions") {
		t.Errorf("a session was created: %q", errs)
	}
	if code, out, errs := cli(t, "hi\n", "chat", "--agent", "demo"); code != exitOK || out != "You said: hi\n" {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	succeed(t, "", "send", "new", "hi", "--agent", "later") // a worker may connect later
}

func TestUsageErrorsSayWhatToDo(t *testing.T) {
	t.Setenv("PARLEY_URL", "http://127.0.0.1:1")
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"sessions", exitError, "is the server running? start it with: parley serve"},
		{"send new hi", exitError, "parley serve"},
		{"chat", exitError, "parley serve"},
		{"nonsense", exitUsage, "nonsense"},
		{"send", exitUsage, "<session>"},
		{"send new", exitUsage, "see parley send --help"},
		{"sessions --status=lost", exitUsage, "--status"},
		{"sessions --limit=-1", exitUsage, "negative"},
		{"sessions --url=localhost:8000", exitError, "is not the address of a server"},
		{"chat s-1 --agent demo", exitUsage, "new sessions"},
		{"restore nothing.tar --data x", exitError, "no such file"},
		{"verify --data /nonexistent", exitError, "not the data folder of a server"},
	} {
		code, _, errs := cli(t, "", strings.Fields(test.args)...)
		if code != test.code || !strings.HasPrefix(errs, "parley: ") || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, test.want) {
			t.Errorf("parley %s: exit %d, %q", test.args, code, errs)
		}
	}
	if out := succeed(t, "", "--help"); !strings.Contains(out, "chat") {
		t.Errorf("help is %q", out)
	}
	if out := succeed(t, "", "version"); !strings.HasPrefix(out, "parley ") {
		t.Errorf("version is %q", out)
	}
}

// The reason why a server is not reached is named, if it is a mistake in its address.
func TestAWrongAddressIsExplained(t *testing.T) {
	plain := launch(t, filepath.Join(t.TempDir(), "data"))
	secured := httptest.NewUnstartedServer(http.NotFoundHandler())
	secured.Config.ErrorLog = log.New(io.Discard, "", 0)
	secured.StartTLS()
	defer secured.Close()
	for url, want := range map[string]string{
		strings.Replace(plain, "http:", "https:", 1):       "write http:// instead of https://",
		strings.Replace(secured.URL, "https:", "http:", 1): "Client sent an HTTP request to an HTTPS server",
		secured.URL:                    "does not trust its certificate",
		"http://no-such-name.invalid/": "its name has no address",
	} {
		if code, out, errs := cli(t, "", "sessions", "--url", url); code != exitError || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q, %q", url, code, out, errs)
		}
	}
}

func TestRestoreRefusesOtherTarFiles(t *testing.T) {
	type file struct {
		name string
		kind byte
	}
	for name, files := range map[string][]file{
		"leads out":      {{"../evil", tar.TypeReg}, {"manifest.json", tar.TypeReg}},
		"leads out deep": {{"store/../../evil", tar.TypeReg}, {"manifest.json", tar.TypeReg}},
		"absolute":       {{"/evil", tar.TypeReg}, {"manifest.json", tar.TypeReg}},
		"link":           {{"store", tar.TypeSymlink}, {"manifest.json", tar.TypeReg}},
		"twice":          {{"store/a", tar.TypeReg}, {"store/a", tar.TypeReg}, {"manifest.json", tar.TypeReg}},
		"cut":            {{"store/a", tar.TypeReg}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			for _, f := range files {
				h := &tar.Header{Name: f.name, Typeflag: f.kind, Mode: 0o600, Size: 2}
				if f.kind == tar.TypeSymlink {
					h.Size, h.Linkname = 0, "/tmp"
				}
				if err := w.WriteHeader(h); err != nil {
					t.Fatal(err)
				}
				if h.Size > 0 {
					w.Write([]byte("{}"))
				}
			}
			w.Close()
			dir := t.TempDir()
			path := filepath.Join(dir, "in", "b.tar")
			os.Mkdir(filepath.Dir(path), 0o700)
			os.WriteFile(path, b.Bytes(), 0o600)
			code, _, errs := cli(t, "", "restore", path, "--data", filepath.Join(dir, "in", "data"))
			if code != exitError {
				t.Fatalf("exit %d: %s", code, errs)
			}
			left, _ := filepath.Glob(filepath.Join(dir, "*"))
			inside, _ := filepath.Glob(filepath.Join(dir, "in", "*"))
			if len(left) != 1 || len(inside) != 1 {
				t.Fatalf("it left %v %v", left, inside)
			}
		})
	}
}
