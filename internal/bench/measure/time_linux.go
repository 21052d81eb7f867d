package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessTime is this process's time on processors, if counted.
func ProcessTime() (time.Duration, bool) {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}

// TreeTime is the time of this process and its children, also ended ones: simulators may be
// processes.
func TreeTime() (time.Duration, bool) {
	own, ok := ProcessTime()
	var ended unix.Rusage
	if !ok || unix.Getrusage(unix.RUSAGE_CHILDREN, &ended) != nil {
		return 0, false
	}
	own += time.Duration(ended.Utime.Nano() + ended.Stime.Nano())
	return own + childrenTime(), true
}

// childrenTime is of children that run; the kernel adds up those of ended ones.
func childrenTime() (sum time.Duration) {
	read := func(pattern string, each func(text string)) {
		files, _ := filepath.Glob(pattern)
		for _, name := range files {
			if b, err := os.ReadFile(name); err == nil { // otherwise the task has ended
				each(string(b))
			}
		}
	}
	read("/proc/self/task/*/children", func(pids string) {
		for _, pid := range strings.Fields(pids) {
			read("/proc/"+pid+"/task/*/schedstat", func(text string) {
				var ns time.Duration
				if _, err := fmt.Sscan(text, &ns); err == nil {
					sum += ns
				}
			})
		}
	})
	return sum
}
