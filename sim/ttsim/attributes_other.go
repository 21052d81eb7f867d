//go:build !linux

package ttsim

import "syscall"

// serverAttributes returns nil: no server is started here.
func serverAttributes() *syscall.SysProcAttr { return nil }
