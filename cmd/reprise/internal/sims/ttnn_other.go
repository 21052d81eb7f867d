//go:build !linux

package sims

import "syscall"

// ChildAttributes has nothing that ends children with this process.
func ChildAttributes() *syscall.SysProcAttr { return nil }

func inForeground() bool { return true }

// AdoptOrphans does nothing: there is no way to.
func AdoptOrphans() {}

// KillOrphans does nothing.
func KillOrphans() {}
