package sims

import (
	"golang.org/x/sys/unix"
)

// thisRelease is the release of this machine's kernel.
func thisRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "" // no kernel has that name
	}
	return unix.ByteSliceToString(u.Release[:])
}
