package sims

import (
	"golang.org/x/sys/unix"
)

func thisRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "" // no kernel has that name
	}
	return unix.ByteSliceToString(u.Release[:])
}
