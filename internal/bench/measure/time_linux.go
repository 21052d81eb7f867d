package measure

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
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
	for _, pid := range children(os.Getpid()) {
		own += taskTime(pid)
	}
	return own, true
}

func children(pid int) (list []int) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range all {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// The name in parentheses may have any characters; state and parent follow it.
		_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" "))
		if fields := bytes.Fields(rest); ok && len(fields) > 1 && string(fields[1]) == strconv.Itoa(pid) {
			list = append(list, child)
		}
	}
	return list
}

func taskTime(pid int) (sum time.Duration) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, t := range tasks {
		stat, err := os.ReadFile(dir + "/" + t.Name() + "/schedstat")
		if err != nil {
			continue
		}
		first, _, _ := bytes.Cut(stat, []byte(" "))
		if ns, err := strconv.ParseInt(string(first), 10, 64); err == nil {
			sum += time.Duration(ns)
		}
	}
	return sum
}
