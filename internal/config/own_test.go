//go:build unix

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOwnRefusesFilesThatOthersCanWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, Name)
	if err := os.WriteFile(path, []byte("agents: []\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	mode := func(path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	mode(dir, 0o755)
	if err := Own(path); err != nil {
		t.Errorf("the user's own file: %v", err)
	}
	mode(path, 0o646)
	if err := Own(path); err == nil || !strings.Contains(err.Error(), path+" can be written by all users") {
		t.Errorf("a file that all users can write: %v", err)
	}
	mode(path, 0o644)
	mode(dir, 0o777)
	if err := Own(path); err == nil || !strings.Contains(err.Error(), dir+" can be written by all users") {
		t.Errorf("a folder that all users can write: %v", err)
	}
	// A link in the user's own folder to that file.
	link := filepath.Join(t.TempDir(), Name)
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := Own(link); err == nil {
		t.Error("a link to a file that others can replace")
	}
	mode(dir, 0o755)
	if err := Own(link); err != nil {
		t.Errorf("a link to the user's own file: %v", err)
	}
	if os.Getuid() != 0 {
		if err := Own("/etc/passwd"); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
			t.Errorf("another user's file: %v", err)
		}
	} else if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	} else if err := Own(path); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("another user's file: %v", err)
	}
}
