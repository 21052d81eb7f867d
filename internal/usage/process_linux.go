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

// parseStart finds the field after the name in parentheses, which may have any characters.
func parseStart(stat []byte) uint64 {
	const afterName = 22 - 3
	_, rest, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(")"))
	fields := bytes.Fields(rest)
	if len(fields) <= afterName {
		return 0
	}
	v, _ := strconv.ParseUint(string(fields[afterName]), 10, 64) // 0 after an error
	return v
}

// namespace returns the inode of this process's PID namespace; 0 if unknown.
func namespace() uint64 {
	var st syscall.Stat_t
	_ = syscall.Stat("/proc/self/ns/pid", &st)
	return st.Ino
}
