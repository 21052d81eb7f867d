//go:build unix

package vm

import (
	"os/exec"
	"syscall"
)

// apart keeps the terminal's interrupt from a command, which this process ends.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
