package main

import (
	"context"
	"fmt"
	"io"

	"github.com/parley-hq/parley/internal/terminal"
)

// BackupCmd saves the whole store of a running server.
type BackupCmd struct {
	serverFlags `embed:""`
	File        string `arg:"" help:"Tar file to write."`
}

// Run writes the file. It exists only when it is complete.
func (c *BackupCmd) Run(ctx context.Context, std *stdio) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	p := newProgress(std.err)
	defer p.end()
	var n int64
	err = writeNew(c.File, func(w io.Writer) error {
		n, err = cl.Backup(ctx, w, func(n int64) { p.printf("received %s", terminal.Size(n)) })
		if err == nil {
			p.end()
			err = checkTar(c.File + ".part")
		}
		return err
	})
	p.end()
	if err != nil {
		return err
	}
	fmt.Fprintf(std.err, "wrote %s to %s; restore it with: parley restore %s --data DIR\n", terminal.Size(n), c.File, c.File)
	return nil
}
