package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/parley-hq/parley/internal/terminal"
)

// ImportCmd creates a session from a log.
type ImportCmd struct {
	serverFlags `embed:""`
	File        string `arg:"" help:"File that export wrote; - is standard input."`
}

// Run sends the log and prints the session's id.
func (c *ImportCmd) Run(ctx context.Context, std *stdio) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	in, total := std.in, int64(0)
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			total = info.Size()
		}
		in = f
	}
	p := newProgress(std.err)
	defer p.end()
	s, err := cl.Import(ctx, &countingReader{r: in, report: func(n int64) {
		if total > 0 {
			p.printf("sent %s of %s", terminal.Size(n), terminal.Size(total))
		} else {
			p.printf("sent %s", terminal.Size(n))
		}
	}})
	if err != nil {
		return err
	}
	p.end()
	fmt.Fprintln(std.out, s.ID)
	fmt.Fprintf(std.err, "imported %s; look at it with: parley chat %s\n", terminal.Count(uint64(s.Last), "event", "events"), s.ID)
	return nil
}

// countingReader reports how many bytes were read.
type countingReader struct {
	r      io.Reader
	n      int64
	report func(int64)
}

func (t *countingReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.n += int64(n)
	t.report(t.n)
	return n, err
}
