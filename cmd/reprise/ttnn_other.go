//go:build !linux

package main

import "syscall"

func childAttributes() *syscall.SysProcAttr { return nil }

func inForeground() bool { return true }

func adoptOrphans() {}

func killOrphans() {}
