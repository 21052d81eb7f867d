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

// errEnded is the error for a process that has ended, or that there never was.
var errEnded = errors.New("there is no such process")

// readProc adds up what /proc says of a process's threads, and says when it began, by which it is
// told from a later one of the same number. What can't be read stays 0: schedstat isn't in every
// kernel. A process that only waits for somebody to ask how it ended has ended.
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
			// The name, in parentheses, may have anything in it. Behind it, from the third field
			// on, come single words.
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

// gone reports whether /proc has nothing more of a thread or a process.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// numbers say who a process is.
type numbers struct {
	global   uint32 // in the first namespace, 0 if this process can't know
	own      uint32 // in its own namespace
	dev, ino uint64 // which is this
}

// firstNamespace is the inode of the first namespace of processes (PROC_PID_INIT_INO of
// include/linux/proc_ns.h).
const firstNamespace = 0xEFFFFFFC

// number finds out how the kernel's tracepoints call a process. They use numbers of the first
// namespace, which a process in another, as in a container, can't see: there, programs recognise
// the process by its number in its own namespace.
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

// loadedFunctions returns those functions of the kernel driver that a list of symbols has. The
// compiler may have put any of them into others.
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

// threadName returns the name of a thread, empty if it has ended.
func threadName(pid, tid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
