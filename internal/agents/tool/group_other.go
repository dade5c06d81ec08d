//go:build !unix

package tool

import "os/exec"

// apart and sweep do nothing where there are no process groups.
func apart(*exec.Cmd) {}
func sweep(*exec.Cmd) {}
