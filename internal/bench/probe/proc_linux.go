//go:build linux && (amd64 || arm64 || riscv64)

package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	kernel "github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

var errEnded = errors.New("there is no such process")

// readProc also returns the start time. Unreadable figures stay 0: not every kernel has schedstat.
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
			for name, to := range map[string]*uint64{"voluntary_ctxt_switches": &p.Voluntary, "nonvoluntary_ctxt_switches": &p.Preempted} {
				n, _ := strconv.ParseUint(statusField(string(b), name), 10, 64)
				*to += n
			}
		}
		if b, err := os.ReadFile(filepath.Join(at, "stat")); err == nil {
			// The name in parentheses may have any characters.
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

// statusField returns a field of a /proc status file, "" if there is none.
func statusField(status, name string) string {
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

type numbers struct {
	global   uint32 // in the initial PID namespace; 0 if unknown
	own      uint32
	dev, ino uint64 // of that namespace
}

// firstNamespace is PROC_PID_INIT_INO of include/linux/proc_ns.h.
const firstNamespace = 0xEFFFFFFC

// number returns a process's identity. Tracepoints have numbers of the initial PID namespace, which
// a container doesn't know.
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
	if f := strings.Fields(statusField(string(status), "NSpid")); len(f) > 0 {
		last, err := strconv.ParseUint(f[len(f)-1], 10, 32)
		if err != nil {
			return n, fmt.Errorf("the numbers of process %d: %w", pid, err)
		}
		n.own = uint32(last)
	}
	return n, nil
}

func threadName(pid, tid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid)) // nothing of a thread that has ended
	return strings.TrimSpace(string(b))
}

// OpenCounter counts the instructions of the calling thread, which is locked, in user mode.
func OpenCounter() (*Counter, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_INSTRUCTIONS, Size: unix.PERF_ATTR_SIZE_VER0,
		Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("probe: count instructions: %w", err)
	}
	return &Counter{os.NewFile(uintptr(fd), "perf event")}, nil
}

// Detect returns the features that this kernel offers to this process, without mounting or
// attaching anything.
func Detect() Machine {
	missing := map[Feature]error{}
	lack := func(f Feature, err error) {
		if err != nil {
			missing[f] = fmt.Errorf("%w: %w", ErrMissing, err)
		}
	}
	lack(BTF, findBTF())
	lack(Tracefs, findTracefs())
	lack(Counters, findCounters())
	if lack(BPF, findBPF()); missing[BPF] != nil {
		missing[RawTracepoints], missing[Fentry] = missing[BPF], missing[BPF]
	} else {
		lack(RawTracepoints, kernel.HaveProgramType(ebpf.RawTracepoint))
		if lack(Fentry, kernel.HaveProgramType(ebpf.Tracing)); missing[BTF] != nil {
			missing[Fentry] = missing[BTF]
		}
	}
	return func(f Feature) error { return missing[f] }
}

// Numbers of capabilities (include/uapi/linux/capability.h).
const (
	capSysAdmin = 21
	capPerfmon  = 38
	capBPF      = 39
)

func findBPF() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("can't tell what this process may do: %w", err)
	}
	if err := mayLoad(string(status)); err != nil {
		return err
	}
	if err := kernel.HaveMapType(ebpf.RingBuf); err != nil {
		return fmt.Errorf("ring buffers need Linux 5.8: %w", err)
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.RawTracepoint, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}, License: "GPL",
	})
	if err != nil {
		return fmt.Errorf("the kernel refuses an empty program: %w: a lockdown or a filter of system calls may forbid it", err)
	}
	return p.Close()
}

func mayLoad(status string) error {
	caps, err := strconv.ParseUint(statusField(status, "CapEff"), 16, 64)
	if err != nil {
		return fmt.Errorf("the process's capabilities can't be read: %w", err)
	}
	lacking := func(n int) bool { return caps>>n&1 == 0 }
	var lacks []string
	if lacking(capBPF) {
		lacks = append(lacks, "CAP_BPF")
	}
	if lacking(capPerfmon) {
		lacks = append(lacks, "CAP_PERFMON")
	}
	if len(lacks) > 0 && lacking(capSysAdmin) {
		return fmt.Errorf("this process has no %s: run it as root, or give the file the capabilities with setcap cap_bpf,cap_perfmon+ep",
			strings.Join(lacks, " and no "))
	}
	return nil
}

func findBTF() error {
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		return errors.New("the kernel was built without CONFIG_DEBUG_INFO_BTF: there is no /sys/kernel/btf/vmlinux")
	}
	return nil
}

var tracefsPlaces = [...]string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

func findTracefs() error {
	for _, p := range tracefsPlaces {
		if _, err := os.Stat(filepath.Join(p, "events", "sched")); err == nil {
			return nil
		}
	}
	return errors.New("it isn't mounted: mount -t tracefs tracefs " + tracefsPlaces[0])
}

func findCounters() error {
	c, err := OpenCounter()
	if err == nil {
		return c.Close()
	}
	why := errors.Unwrap(err).Error()
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP):
		why = "this machine, often because it is a virtual one, has none"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		why = "/proc/sys/kernel/perf_event_paranoid forbids it: give the process CAP_PERFMON"
	}
	return errors.New(why)
}

// Calibrate measures by how much probes slow down the cheapest event that each sees. Without
// CAP_SYS_ADMIN it leaves out the scheduler, since counting the run time of programs takes that.
func Calibrate(m Machine, kinds ...Kind) (_ []Cost, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	naps := func() {
		for range 50 {
			_ = unix.Nanosleep(&unix.Timespec{Nsec: 1000}, nil)
		}
	}
	each := func(f func()) func(int) error {
		return func(n int) error {
			for range n {
				f()
			}
			return nil
		}
	}
	var out []Cost
	for _, e := range []struct {
		kind  Kind
		event string
		n     int
		op    func(int) error // nil for the scheduler
	}{
		{Calls, "system call", 2000, each(func() { unix.Getppid() })},
		{Scheduler, "switch or wake-up", 0, nil},
		{Faults, "page fault", 256, touch},
	} {
		if ways, _ := choose(m, e.kind); len(ways) == 0 || !slices.Contains(kinds, e.kind) {
			continue
		}
		c := Cost{Probe: string(e.kind), Event: e.event}
		if e.op == nil {
			c.Ns, err = runTime(m, e.kind, naps)
		} else {
			c.Ns, err = difference(m, e.kind, e.n, e.op)
		}
		if errors.Is(err, errUncounted) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("probe: calibrate %s: %w", e.kind, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func touch(n int) (err error) {
	page := os.Getpagesize()
	m, err := unix.Mmap(-1, 0, n*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Munmap(m)) }()
	_ = unix.Madvise(m, unix.MADV_NOHUGEPAGE) // not in every kernel
	for i := 0; i < len(m); i += page {
		m[i] = 1
	}
	return nil
}

func best(n int, op func(int) error) (float64, error) {
	least := time.Duration(1<<63 - 1)
	for range 9 {
		start := time.Now()
		if err := op(n); err != nil {
			return 0, err
		}
		least = min(least, time.Since(start))
	}
	return float64(least) / float64(n), nil
}

func difference(m Machine, k Kind, n int, op func(int) error) (float64, error) {
	before, err := best(n, op)
	if err != nil {
		return 0, err
	}
	p, err := Start(Config{Kinds: []Kind{k}, Machine: m, Slow: time.Hour})
	if err != nil {
		return 0, err
	}
	after, err := best(n, op)
	return max(0, after-before), errors.Join(err, p.Close())
}

var errUncounted = errors.New("the kernel counts the time of programs for CAP_SYS_ADMIN only")

// runTime is for events that have no cheapest one: the mean by the kernel's count.
func runTime(m Machine, k Kind, op func()) (_ float64, err error) {
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if errors.Is(err, unix.EPERM) {
		return 0, errUncounted
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stats.Close()) }()
	p, err := Start(Config{Kinds: []Kind{k}, Machine: m, Slow: time.Hour})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	op()
	var total time.Duration
	var runs uint64
	for _, prog := range p.programs {
		st, err := prog.Stats()
		if err != nil {
			return 0, err
		}
		total += st.Runtime
		runs += st.RunCount
	}
	return float64(total) / float64(max(1, runs)), nil
}
