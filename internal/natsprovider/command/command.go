// Package command answers requests by running a program: previews of web pages and image
// builds. The program reads the request on its standard input and writes the answer to
// its standard output. Several requests may run at the same time.
//
//	x1.provider.preview.provision   PreviewRequest → PreviewReply, 20 minutes
//	x1.image.build                  BuildRequest → BuildReply, 30 minutes
//
// Secrets of a request are passed on the program's input only, never in arguments, in the
// environment or in a log.
package command

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"strings"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/natsprovider"
)

// How long a request may take.
const (
	previewTimeout = 20 * time.Minute
	buildTimeout   = 30 * time.Minute
)

// PreviewRequest asks for a preview to be built and deployed.
type PreviewRequest struct {
	YAML         string            `json:"preview_yaml"`
	Repo         string            `json:"repo_full_name"`
	Branch       string            `json:"branch"`
	Commit       string            `json:"commit_sha"`
	Installation json.Number       `json:"installation_id,omitempty"`
	Secrets      map[string]string `json:"secret_values,omitempty"`
}

// LogValue leaves the secrets out.
func (r PreviewRequest) LogValue() slog.Value {
	return slog.GroupValue(slog.String("repo", r.Repo), slog.String("branch", r.Branch), slog.String("commit", r.Commit))
}

// PreviewReply has the address of the preview, or an error.
type PreviewReply struct {
	OK      bool   `json:"ok"`
	URL     string `json:"url,omitempty"`
	Slug    string `json:"slug,omitempty"`
	Image   string `json:"image,omitempty"`
	Job     string `json:"job_name,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// BuildRequest asks for an image of a workspace to be built.
type BuildRequest struct {
	ID         string            `json:"image_id"`
	Workspace  string            `json:"workspace,omitempty"`
	Dockerfile string            `json:"dockerfile,omitempty"`
	Args       map[string]string `json:"args,omitempty"`
}

// BuildReply has the image, or an error.
type BuildReply struct {
	OK      bool   `json:"ok"`
	ID      string `json:"image_id"`
	Image   string `json:"image,omitempty"`
	Digest  string `json:"digest,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// Preview serves x1.provider.preview.provision by a program.
func Preview(argv []string) natsprovider.Provider {
	return natsprovider.Provider{Domain: "preview", Timeout: previewTimeout, Parallel: 4, Ops: map[string]natsprovider.Op{
		"provision": natsprovider.Typed(func(ctx context.Context, _ natsprovider.Call, q PreviewRequest) (PreviewReply, error) {
			if q.YAML == "" || q.Repo == "" {
				return PreviewReply{}, chat.Errorf(chat.Invalid, "a preview needs preview_yaml and repo_full_name")
			}
			var r PreviewReply
			code, message := run(ctx, argv, q, &r)
			if code != "" {
				return PreviewReply{Code: code, Message: message}, nil
			}
			if r.OK && r.URL == "" {
				return PreviewReply{Code: "bad_answer", Message: "the program did not say where the preview is"}, nil
			}
			return r, nil
		}),
	}}
}

// Image serves x1.image.build by a program.
func Image(argv []string) natsprovider.Provider {
	return natsprovider.Provider{Domain: "image", Subject: "x1.image.*", Timeout: buildTimeout, Parallel: 2, Ops: map[string]natsprovider.Op{
		"build": natsprovider.Typed(func(ctx context.Context, _ natsprovider.Call, q BuildRequest) (BuildReply, error) {
			if q.ID == "" {
				return BuildReply{}, chat.Errorf(chat.Invalid, "an image build needs an image_id")
			}
			r := BuildReply{}
			if code, message := run(ctx, argv, q, &r); code != "" {
				r = BuildReply{Code: code, Message: message}
			}
			r.ID = q.ID
			return r, nil
		}),
	}}
}

// maxOutput bounds the output of a program.
const maxOutput = 512 << 10

// run runs the program; code is "" when it gave an answer.
func run(ctx context.Context, argv []string, ask, answer any) (code, message string) {
	if len(argv) == 0 {
		return "not_configured", "no program is configured for this"
	}
	in, err := json.Marshal(ask)
	if err != nil {
		return "bad_request", "the request cannot be passed on"
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, errs limited
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errs
	cmd.Cancel = func() error { return cmd.Process.Kill() }
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	if errors.Is(ctx.Err(), context.Canceled) {
		return "ended", "the server is shutting down and has ended the program; ask again"
	}
	if ctx.Err() != nil {
		return "timeout", "the program was ended: it took too long"
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		// The answer may have the error; else the last line of standard error is used.
		if json.Unmarshal(out.b, answer) == nil && strings.Contains(string(out.b), `"message"`) {
			return "", ""
		}
		return "failed", lastLine(errs.b, "the program failed: "+exit.String())
	}
	if err != nil {
		return "not_started", "the program could not be started"
	}
	if json.Unmarshal(out.b, answer) != nil {
		return "bad_answer", "the program's answer is not the JSON object that was expected"
	}
	return "", ""
}

// limited keeps the first bytes of what is written.
type limited struct{ b []byte }

func (l *limited) Write(p []byte) (int, error) {
	if room := maxOutput - len(l.b); room > 0 {
		l.b = append(l.b, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func lastLine(b []byte, otherwise string) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if s := strings.TrimSpace(lines[len(lines)-1]); s != "" {
		return strings.ToValidUTF8(s[:min(len(s), 500)], "")
	}
	return otherwise
}
