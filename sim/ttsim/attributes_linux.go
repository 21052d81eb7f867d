package ttsim

import "syscall"

// serverAttributes puts the server in a process group of its own: an interrupt from the terminal
// ends it through its parent.
func serverAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
