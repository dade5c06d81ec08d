package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/parley-hq/parley/internal/agentconfig"
	"github.com/parley-hq/parley/internal/config"
)

// InitCmd writes a configuration file to start from.
type InitCmd struct {
	File  string `arg:"" optional:"" help:"File to write; default parley.yaml in this folder." type:"path"`
	Force bool   `help:"Replace an existing file."`
}

// Run writes the file, unless it exists.
func (c *InitCmd) Run(_ context.Context, std *stdio) error {
	path := c.File
	if path == "" {
		path = config.Name
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if c.Force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s already exists; give --force to replace it", path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(agentconfig.Example)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	fmt.Fprintf(std.out, "%s is written. Change endpoint and model in it, then run: parley serve\n", path)
	return nil
}
