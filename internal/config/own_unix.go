//go:build unix

package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Own reports why a file is not the user's own, nil when it is: the file and its
// folder belong to the user who runs this program, and no other user can write to
// them. A link is followed; its target must be the user's own, too.
func Own(path string) error {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	for _, name := range []string{target, filepath.Dir(target), filepath.Dir(path)} {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if why := notOwn(info); why != "" {
			if abs, err := filepath.Abs(name); err == nil {
				name = abs
			}
			return fmt.Errorf("%s %s", name, why)
		}
	}
	return nil
}

// notOwn reports why a file or folder is not the user's own. The user's own group may write:
// on many systems it has no other members.
func notOwn(info fs.FileInfo) string {
	sys, ok := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode().Perm(); {
	case !ok:
		return ""
	case int64(sys.Uid) != int64(os.Getuid()):
		return "belongs to another user"
	case mode&0o002 != 0:
		return "can be written by all users"
	case mode&0o020 != 0 && int64(sys.Gid) != int64(os.Getgid()):
		return "can be written by another group"
	}
	return ""
}
