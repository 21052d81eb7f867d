//go:build !linux

package bench

// machine returns nothing: the names are only known on Linux.
func machine() (cpu, kernel string) { return "", "" }
