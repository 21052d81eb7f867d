// Package naptest counts the timers of package nap, for tests of what closes them.
package naptest

import (
	"os"
	"path/filepath"
	"testing"
)

// Timers is how many file descriptors of timers this process has. It skips the test where that
// can't be known.
func Timers(t testing.TB) (n int) {
	t.Helper()
	const open = "/proc/self/fd"
	l, err := os.ReadDir(open)
	if err != nil {
		t.Skip(err)
	}
	for _, e := range l {
		if to, err := os.Readlink(filepath.Join(open, e.Name())); err == nil && to == "anon_inode:[timerfd]" {
			n++
		}
	}
	return n
}
