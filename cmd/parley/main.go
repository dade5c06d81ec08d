// Command parley is a server for conversations between people and agents, with the commands to use and operate it.
//
// Each command has a file, such as send.go; serverflags.go has the flags of those that call a server. The server is [ServeCmd]:
//
//	serve.go        flags of the server
//	parley.go       type parley: opens the parts in order, runs them, and closes them in reverse
//	dialects.go     the dialects; nats.go and x1.go: the embedded NATS server and what uses it
//	audited.go, files.go, signin.go, grants.go, console.go, …   how parts are connected that do not import each other
//	member.go, hello.go, join.go   a node before it has a store: it finds its cluster, begins one, or copies a store
//	cluster.go      a node that has a store; cluster_*.go: the routes and commands of parley cluster
//	maintenance.go, reload.go, limits.go   backup, verify, SIGHUP and quotas of a running server
//
// A parley is built by one goroutine, and its fields do not change while it runs. member.mu comes before the locks of the node;
// no other lock of this package is held while another one is taken.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/client"
	"github.com/parley-hq/parley/internal/commandline"
	"github.com/parley-hq/parley/internal/config"
	"github.com/parley-hq/parley/internal/terminal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// commands are the commands of the command line, one file each.
type commands struct {
	Serve    ServeCmd    `cmd:"" help:"Run the server."`
	Chat     ChatCmd     `cmd:"" help:"Talk with an agent in the terminal."`
	Send     SendCmd     `cmd:"" help:"Send one message."`
	Watch    WatchCmd    `cmd:"" help:"Print the events of a session as they happen."`
	Sessions SessionsCmd `cmd:"" help:"List sessions."`
	Agents   AgentsCmd   `cmd:"" help:"List agents and their health."`
	Init     InitCmd     `cmd:"" help:"Write a commented configuration file to start from."`
	Export   ExportCmd   `cmd:"" help:"Write a session's whole log, one event per line."`
	Import   ImportCmd   `cmd:"" help:"Create a session from an exported log."`
	Replay   ReplayCmd   `cmd:"" help:"Serve a recorded session as an agent that needs no model."`
	Verify   VerifyCmd   `cmd:"" help:"Check every hash chain for damage."`
	Backup   BackupCmd   `cmd:"" help:"Save the whole store of a running server to a tar file."`
	Restore  RestoreCmd  `cmd:"" help:"Unpack a backup into a new data folder."`
	Cluster  ClusterCmd  `cmd:"" help:"Show and change a cluster."`
	Audit    AuditCmd    `cmd:"" help:"Show the audit log: sign-ins, grants, members, exports, erasures, backups."`
	Sidecar  SidecarCmd  `cmd:"" help:"Attach an x1 agent process to a session."`
	Bench    BenchCmd    `cmd:"" help:"Put load on a running server and measure it."`
	Version  VersionCmd  `cmd:"" help:"Print the version."`
}

// stdio is the standard input, output and error of a command.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// runnable is what the struct of each command is.
type runnable interface {
	Run(ctx context.Context, std *stdio) error
}

// app describes the command line.
var app = commandline.App{
	Name:        "parley",
	Description: "A server for conversations between people and agents.\n\nStart with: parley serve, then parley chat in another terminal.",
	Vars:        map[string]string{"url": client.DefaultURL},
}

// run runs one command line and returns the exit code. Everything that the command started has ended when it returns.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	call, err := app.Parse(&commands{}, translateArgs(args))
	if e, ok := errors.AsType[*commandline.Error](err); ok {
		fmt.Fprintf(stderr, "parley: %s; see %s --help\n", e, strings.TrimSpace("parley "+e.Path))
		return exitUsage
	}
	if call.Help {
		err = call.WriteHelp(stdout)
	} else {
		err = call.Command.(runnable).Run(ctx, &stdio{in: stdin, out: stdout, err: stderr})
	}
	if err == nil {
		return exitOK
	}
	if u, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(stderr, "parley: %s; see parley %s --help\n", u, call.Path)
		return exitUsage
	}
	fmt.Fprintln(stderr, "parley: "+explain(err))
	return exitError
}

// translateArgs replaces forms of other programs, such as `help COMMAND`, by those of this one.
func translateArgs(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case args[0] == "--version":
		return []string{"version"}
	}
	return args
}

// usageError is a mistake in the command line; it leads to exit code 2.
type usageError string

func (e usageError) Error() string { return string(e) }

// explain formats an error as one line that says what to do. Errors in a configuration file have a line each.
func explain(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	text := err.Error()
	if _, ok := errors.AsType[*config.Error](err); ok {
		return strings.ReplaceAll(text, "\n", "\nparley: ")
	}
	if e, ok := errors.AsType[*chat.Error](err); ok && e.Msg != "" {
		text = e.Msg
		_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
		_, unresolved := errors.AsType[*net.DNSError](err)
		switch {
		case untrusted:
			text += ": this machine does not trust its certificate, or it is for another name; SSL_CERT_FILE names certificates to trust"
		case unresolved:
			text += ": its name has no address: check the spelling"
		case errors.Is(err, http.ErrSchemeMismatch):
			text += ": it does not use TLS: write http:// instead of https://"
		case errors.Is(err, client.ErrUnreachable):
			text += ": is the server running? start it with: parley serve"
		case e.Code == chat.Unauthenticated:
			text, _, _ = strings.Cut(text, ": ")
			text += ": give a token with --token or PARLEY_TOKEN"
		}
	}
	return terminal.OneLine(text) // the text of a server may have control characters
}
