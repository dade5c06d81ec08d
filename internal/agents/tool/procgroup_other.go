//go:build !unix

package tool

import "os/exec"

// setProcessGroup and killProcessGroup do nothing on systems without process groups.
func setProcessGroup(*exec.Cmd)  {}
func killProcessGroup(*exec.Cmd) {}
