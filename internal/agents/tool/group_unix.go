//go:build unix

package tool

import (
	"os/exec"
	"syscall"
)

// apart gives a program a group of its own, so that what it starts can be ended
// with it, and a Ctrl-C in our terminal leaves its end to us.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// sweep ends what a program that has ended left behind, such as the server behind
// a launcher.
func sweep(cmd *exec.Cmd) {
	if cmd != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // there is usually nothing left
	}
}
