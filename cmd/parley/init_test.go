package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/parley-hq/parley/internal/agentconfig"
)

func TestInitWritesTheExampleOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "parley.yaml")
	succeed(t, "", "init", path)
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, agentconfig.Example) {
		t.Fatalf("%v\n%s", err, b)
	}
	if code, _, _ := cli(t, "", "init", path); code != exitError {
		t.Error("init replaced an existing file")
	}
	succeed(t, "", "init", "--force", path)
}
