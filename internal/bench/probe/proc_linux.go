//go:build linux && (amd64 || arm64 || riscv64)

package probe

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// errEnded is the error for a process that doesn't exist or has ended.
var errEnded = errors.New("there is no such process")

// readProc adds up the figures of a process's threads and returns the process's start time, which
// tells it from a later process of the same number. Unreadable figures stay 0: not every kernel has
// schedstat. A zombie has ended.
func readProc(pid int) (p Proc, began uint64, err error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		if gone(err) {
			err = errEnded
		}
		return p, 0, err
	}
	ended := 0
	for _, t := range tasks {
		at := filepath.Join(dir, t.Name())
		if b, err := os.ReadFile(filepath.Join(at, "schedstat")); err == nil {
			var on, ready time.Duration
			if _, err := fmt.Sscan(string(b), &on, &ready); err == nil {
				p.On += on
				p.Ready += ready
			}
		}
		if b, err := os.ReadFile(filepath.Join(at, "status")); err == nil {
			for line := range strings.Lines(string(b)) {
				k, v, _ := strings.Cut(line, ":")
				n, _ := strconv.ParseUint(strings.TrimSpace(v), 10, 64)
				switch k {
				case "voluntary_ctxt_switches":
					p.Voluntary += n
				case "nonvoluntary_ctxt_switches":
					p.Preempted += n
				}
			}
		}
		if b, err := os.ReadFile(filepath.Join(at, "stat")); err == nil {
			// The name in parentheses may have any characters. Single words follow, from the third
			// field on.
			s := string(b)
			if f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:]); len(f) > 19 {
				if f[0] == "Z" || f[0] == "X" {
					ended++
				}
				if t.Name() == strconv.Itoa(pid) {
					began, _ = strconv.ParseUint(f[19], 10, 64)
				}
				minor, _ := strconv.ParseUint(f[7], 10, 64)
				major, _ := strconv.ParseUint(f[9], 10, 64)
				p.Minor += minor
				p.Major += major
			}
		} else if gone(err) {
			ended++
		}
	}
	if ended == len(tasks) {
		return p, began, errEnded
	}
	return p, began, nil
}

// gone reports whether /proc has lost a thread or process.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// numbers identify a process.
type numbers struct {
	global   uint32 // in the initial PID namespace; 0 if unknown
	own      uint32 // in its own namespace
	dev, ino uint64 // of that namespace
}

// firstNamespace is the inode of the initial PID namespace (PROC_PID_INIT_INO of
// include/linux/proc_ns.h).
const firstNamespace = 0xEFFFFFFC

// number returns a process's identity for the kernel's tracepoints. They use numbers of the initial
// PID namespace, which a process in a container can't see; programs then compare the number in the
// process's own namespace.
func number(pid int) (numbers, error) {
	var n numbers
	var own, its syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/pid", &own); err != nil {
		return n, fmt.Errorf("the namespace of this process: %w", err)
	}
	n.own = uint32(pid)
	if own.Ino == firstNamespace {
		n.dev, n.ino, n.global = uint64(own.Dev), own.Ino, uint32(pid)
		return n, nil
	}
	if err := syscall.Stat(fmt.Sprintf("/proc/%d/ns/pid", pid), &its); err != nil {
		return n, fmt.Errorf("the namespace of process %d: %w", pid, err)
	}
	n.dev, n.ino = uint64(its.Dev), its.Ino
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return n, err
	}
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "NSpid:"); ok {
			f := strings.Fields(v)
			if len(f) == 0 {
				break
			}
			last, err := strconv.ParseUint(f[len(f)-1], 10, 32)
			if err != nil {
				return n, fmt.Errorf("the numbers of process %d: %w", pid, err)
			}
			n.own = uint32(last)
		}
	}
	return n, nil
}

// loadedFunctions returns the driver's functions in a list of symbols. The compiler may have
// inlined any of them.
func loadedFunctions(kallsyms string) ([]string, error) {
	f, err := os.Open(kallsyms)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	for s := bufio.NewScanner(f); s.Scan(); {
		// Address, type, name, and the module in brackets.
		w := strings.Fields(s.Text())
		if len(w) == 4 && w[3] == "[tenstorrent]" && strings.EqualFold(w[1], "t") && driverFunctions[w[2]] {
			out = append(out, w[2])
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func threadName(pid, tid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
