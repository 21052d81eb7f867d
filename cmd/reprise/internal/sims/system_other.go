//go:build !linux

package sims

import "syscall"

// ChildAttributes is empty: nothing ends children with this process.
func ChildAttributes() *syscall.SysProcAttr { return nil }

func inForeground() bool { return true }

// AdoptOrphans does nothing.
func AdoptOrphans() {}

// KillOrphans does nothing.
func KillOrphans() {}

// thisRelease is unknown.
func thisRelease() string { return "" }
