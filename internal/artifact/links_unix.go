//go:build unix

package artifact

import (
	"errors"
	"io/fs"
	"syscall"
)

// links is how many names the file has.
func links(fi fs.FileInfo) int {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Nlink)
	}
	return 1
}

// diskFull reports whether the disk, or the share of it we may use, has no room.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
