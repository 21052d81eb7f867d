package usage

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// startOf returns a process's start time in ticks since boot, field 22 of proc(5)'s stat; 0 if
// unknown.
func startOf(pid int) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return parseStart(b)
}

// parseStart finds the field. The second field, the name in parentheses, may have any characters.
func parseStart(stat []byte) uint64 {
	const afterName = 22 - 3
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0
	}
	fields := bytes.Fields(stat[i+1:])
	if len(fields) <= afterName {
		return 0
	}
	v, err := strconv.ParseUint(string(fields[afterName]), 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// namespace returns the inode of this process's PID namespace; 0 if unknown.
func namespace() uint64 {
	i, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return 0
	}
	s, ok := i.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return s.Ino
}
