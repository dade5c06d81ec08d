package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cli runs one command line in this process.
func cli(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// succeed runs a command line that must succeed.
func succeed(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	code, out, errs := cli(t, stdin, args...)
	if code != exitOK {
		t.Fatalf("parley %s: exit %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

var readyLine = regexp.MustCompile(`http://[0-9.:]+`)

// launch runs the real server on a data folder and returns its address.
func launch(t *testing.T, data string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		ended <- run(ctx, []string{"serve", "--addr=127.0.0.1:0", "--data=" + data, "--min-free=-1", "--min-free-percent=-1", "--log-level=error", "--nats=off"}, nil, in, &errs)
		in.Close()
	}()
	lines := bufio.NewScanner(out)
	url := ""
	for url == "" && lines.Scan() {
		url = readyLine.FindString(lines.Text())
	}
	drained := make(chan struct{})
	go func() { io.Copy(io.Discard, out); close(drained) }()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != exitOK {
			t.Errorf("the server ended with %d: %s", code, errs.String())
		}
		<-drained
	})
	if url == "" {
		t.Fatal("the server did not become ready")
	}
	t.Setenv("PARLEY_URL", url)
	t.Setenv("PARLEY_TOKEN", "")
	return url
}

// Every command can be run and has a help; the description of the command line has no mistakes.
func TestCommandsAreComplete(t *testing.T) {
	var check func(target reflect.Value, path []string)
	check = func(target reflect.Value, path []string) {
		nested := false
		for i := range target.NumField() {
			field := target.Type().Field(i)
			if _, ok := field.Tag.Lookup("cmd"); ok {
				nested = true
				check(target.Field(i), append(slices.Clone(path), strings.ToLower(field.Name)))
			}
		}
		if _, ok := target.Addr().Interface().(runnable); !ok && !nested {
			t.Errorf("%s has no method Run(ctx, std)", target.Type())
		}
		usage, _, _ := strings.Cut(succeed(t, "", append(slices.Clone(path), "--help")...), "\n")
		if want := strings.Join(append([]string{"Usage: parley"}, path...), " "); !strings.HasPrefix(usage+" ", want+" ") {
			t.Errorf("%v --help begins with %q", path, usage)
		}
	}
	check(reflect.ValueOf(&commands{}).Elem(), nil)
}

// A mistake in the command line leads to exit code 2 and names the help of the command; other errors do not.
func TestMistakesNameTheHelp(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"bogus", exitUsage, "parley: unexpected argument bogus; see parley --help\n"},
		{"chat a b", exitUsage, "parley: unexpected argument b; see parley chat --help\n"},
		{"cluster status x", exitUsage, "parley: unexpected argument x; see parley cluster status --help\n"},
		{"bench --writers 0", exitUsage, "parley: --writers, --readers and --span are at least 1, --batch is 1 to 1000; see parley bench --help\n"},
		{"sessions --url ::", exitError, "parley: \"::\" is not the address of a server: use something like http://127.0.0.1:8000\n"},
	} {
		if code, out, errs := cli(t, "", strings.Fields(c.args)...); code != c.code || out != "" || errs != c.want {
			t.Errorf("%s: exit %d, %q, %q", c.args, code, out, errs)
		}
	}
}

// A server cannot write to the terminal by its errors.
// What other programs call help and version is understood.
func TestUsualFormsOfHelpAndVersion(t *testing.T) {
	for _, c := range []struct {
		args []string
		like []string
	}{{nil, []string{"--help"}}, {[]string{"help"}, []string{"--help"}}, {[]string{"help", "cluster", "status"}, []string{"cluster", "status", "--help"}}, {[]string{"--version"}, []string{"version"}}} {
		if got, want := succeed(t, "", c.args...), succeed(t, "", c.like...); got != want {
			t.Errorf("parley %s: %q", strings.Join(c.args, " "), got)
		}
	}
}

func TestErrorsOfServersHaveNoControlCharacters(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"code":"invalid","message":"not\u001b]0;x\u0007\u009b2J this"}}`)
	}))
	defer s.Close()
	code, _, errs := cli(t, "", "sessions", "--url", s.URL)
	if code != exitError || !strings.HasPrefix(errs, "parley: not") || strings.ContainsFunc(strings.TrimSuffix(errs, "\n"), unicode.IsControl) {
		t.Errorf("exit %d, %q", code, errs)
	}
}

// No error shows a token, a secret or a password of the command line.
func TestErrorsShowNoSecrets(t *testing.T) {
	secret := regexp.MustCompile(`(Token|Secret|Password)$`)
	seen := 0
	var walk func(path []string, command reflect.Type)
	walk = func(path []string, command reflect.Type) {
		for i := range command.NumField() {
			f := command.Field(i)
			_, embedded := f.Tag.Lookup("embed")
			_, sub := f.Tag.Lookup("cmd")
			switch {
			case embedded:
				walk(path, f.Type)
			case sub:
				walk(append(slices.Clone(path), strings.ToLower(f.Name)), f.Type)
			case secret.MatchString(f.Name):
				seen++
				name := f.Tag.Get("name")
				if name == "" {
					name = strings.ToLower(f.Name)
				}
				code, out, errs := cli(t, "", append(slices.Clone(path), "--"+name, "-hunter2")...)
				if code != exitUsage || !strings.Contains(errs, "--"+name+"=VALUE") || strings.Contains(out+errs, "hunter2") {
					t.Errorf("%v --%s: exit %d\n%s%s", path, name, code, out, errs)
				}
			}
		}
	}
	walk(nil, reflect.TypeFor[commands]())
	if seen < 10 {
		t.Errorf("%d flags have secrets", seen)
	}
}
