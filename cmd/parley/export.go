package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/terminal"
)

// ExportCmd writes a session's log.
type ExportCmd struct {
	serverFlags `embed:""`
	Session     string `arg:"" help:"The session."`
	Output      string `short:"o" help:"File to write; - is standard output." default:"-" placeholder:"FILE"`
}

// Run writes one event per line, with the stored bytes.
func (c *ExportCmd) Run(ctx context.Context, std *stdio) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	p := newProgress(std.err)
	defer p.end()
	tell := func(n int) { p.printf("%s", terminal.Count(n, "event", "events")) }
	if c.Output == "-" {
		_, err := cl.Export(ctx, chat.SessionID(c.Session), std.out, tell)
		return err
	}
	n := 0
	err = writeNew(c.Output, func(w io.Writer) error {
		n, err = cl.Export(ctx, chat.SessionID(c.Session), w, tell)
		return err
	})
	p.end()
	if err != nil {
		return err
	}
	fmt.Fprintf(std.err, "wrote %s to %s\n", terminal.Count(n, "event", "events"), c.Output)
	return nil
}

// writeNew creates a file that is complete or does not exist. It does not overwrite a file.
func writeNew(path string, fill func(io.Writer) error) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s already exists; choose another name or remove it", path)
	}
	temporary := path + ".part"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		os.Remove(temporary)
	}
	return err
}
