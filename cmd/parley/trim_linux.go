package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
)

// trim gives back the memory that only the start needed: what the collector can
// do without, and the pages of the program's own file, most of which are code and
// tables of parts that are set up once. The kernel maps them again as they are
// used; they are backed by the file, so nothing can be lost. It is an economy:
// what goes wrong is left as it is.
func trim() {
	debug.FreeOSMemory()
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to uintptr
		var mode string
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &mode); n != 3 {
			continue
		}
		// Never a part that can be written: that would take back what was written.
		if (mode == "r-xp" || mode == "r--p") && strings.HasSuffix(lines.Text(), " "+exe) {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED)
		}
	}
}
