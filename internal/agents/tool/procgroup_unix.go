//go:build unix

package tool

import (
	"os/exec"
	"syscall"
)

// setProcessGroup gives a program its own process group, so that its child processes can be ended with it, and a Ctrl-C
// in the terminal does not reach it.
func setProcessGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killProcessGroup ends the child processes that a program left behind, such as the server behind a launcher.
func killProcessGroup(cmd *exec.Cmd) {
	if cmd != nil && cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // there is usually nothing left
	}
}
