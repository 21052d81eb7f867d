//go:build !linux

package sims

// thisRelease is unknown.
func thisRelease() string { return "" }
