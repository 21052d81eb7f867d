package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes make the kernel end a program with this process, however that ends.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// inForeground reports whether a terminal sends its signals to this process and those that it started.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
