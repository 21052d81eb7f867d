//go:build !linux

package sims

// thisRelease is the release of this machine's kernel if it is Linux.
func thisRelease() string { return "" }
