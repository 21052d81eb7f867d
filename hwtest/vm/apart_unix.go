//go:build unix

package vm

import (
	"os/exec"
	"syscall"
)

// apart starts a command in a process group of its own, so that the terminal's interrupt reaches
// only this process, which ends it.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
