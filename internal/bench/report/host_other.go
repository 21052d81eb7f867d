//go:build !linux

package report

// machine returns nothing: the names are only known on Linux.
func machine() (cpu, kernel string) { return "", "" }
