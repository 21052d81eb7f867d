package sims

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ChildAttributes make a program end with this process.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// inForeground reports whether the terminal signals this process and its children.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// AdoptOrphans makes this process the parent of orphaned descendants.
func AdoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// KillOrphans ends children, own and adopted.
func KillOrphans() {
	for range 100 { // killed processes leave their children
		children := 0
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		for _, t := range tasks {
			list, _ := os.ReadFile("/proc/self/task/" + t.Name() + "/children")
			for _, word := range strings.Fields(string(list)) {
				if pid, err := strconv.Atoi(word); err == nil {
					children++
					_ = unix.Kill(pid, unix.SIGKILL)
					_, _ = unix.Wait4(pid, nil, 0, nil)
				}
			}
		}
		if children == 0 {
			return
		}
	}
}

func thisRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "" // no kernel has that name
	}
	return unix.ByteSliceToString(u.Release[:])
}
