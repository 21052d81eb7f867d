//go:build linux && (amd64 || arm64 || riscv64)

package probe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	kernel "github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

type machine struct{ missing map[Feature]error }

// Missing implements [Machine].
func (m machine) Missing(f Feature) error { return m.missing[f] }

// Detect returns the features that this kernel offers to this process, without mounting or
// attaching anything.
func Detect() Machine {
	m := machine{missing: map[Feature]error{}}
	for f, find := range map[Feature]func() error{
		BPF: findBPF, BTF: findBTF, Tracefs: findTracefs,
		Kprobes: func() error { return findDynamic("kprobe") }, Uprobes: func() error { return findDynamic("uprobe") },
		Counters: findCounters,
	} {
		if err := find(); err != nil {
			m.missing[f] = err
		}
	}
	if m.missing[BPF] != nil {
		m.missing[RawTracepoints], m.missing[Fentry] = m.missing[BPF], m.missing[BPF]
		return m
	}
	if err := kernel.HaveProgramType(ebpf.RawTracepoint); err != nil {
		m.missing[RawTracepoints] = fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if m.missing[BTF] != nil {
		m.missing[Fentry] = m.missing[BTF]
	} else if err := kernel.HaveProgramType(ebpf.Tracing); err != nil {
		m.missing[Fentry] = fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return m
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
		return fmt.Errorf("%w: can't tell what this process may do: %w", ErrMissing, err)
	}
	if err := mayLoad(string(status)); err != nil {
		return err
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("%w: uname: %w", ErrMissing, err)
	}
	if err := newEnough(unix.ByteSliceToString(u.Release[:])); err != nil {
		return err
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.RawTracepoint, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}, License: "GPL",
	})
	if err != nil {
		return fmt.Errorf("%w: the kernel refuses an empty program: %w: a lockdown or a filter of system calls may forbid it", ErrMissing,
			err)
	}
	return p.Close()
}

// mayLoad returns nil if a process with this /proc/PID/status may load tracing programs.
func mayLoad(status string) error {
	var caps uint64
	found := false
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, "CapEff:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(v), 16, 64)
			if err != nil {
				return fmt.Errorf("%w: the process's capabilities can't be read: %w", ErrMissing, err)
			}
			caps, found = n, true
		}
	}
	has := func(n int) bool { return caps>>n&1 == 1 }
	if !found {
		return fmt.Errorf("%w: the process's capabilities can't be read", ErrMissing)
	}
	if has(capSysAdmin) {
		return nil
	}
	var lacks []string
	for _, c := range []struct {
		n    int
		name string
	}{{capBPF, "CAP_BPF"}, {capPerfmon, "CAP_PERFMON"}} {
		if !has(c.n) {
			lacks = append(lacks, c.name)
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf(
			"%w: this process has no %s: run it as root, or give the file the capabilities with setcap cap_bpf,cap_perfmon+ep",
			ErrMissing,
			strings.Join(lacks, " and no "),
		)
	}
	return nil
}

// newEnough returns nil if a Linux release has ring buffers and CAP_BPF, which came with 5.8.
func newEnough(release string) error {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return fmt.Errorf("%w: Linux %q: its version can't be read", ErrMissing, release)
	}
	if major < 5 || major == 5 && minor < 8 {
		return fmt.Errorf("%w: Linux %s: ring buffers need 5.8", ErrMissing, release)
	}
	return nil
}

func findBTF() error {
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		return fmt.Errorf("%w: the kernel was built without CONFIG_DEBUG_INFO_BTF: there is no /sys/kernel/btf/vmlinux", ErrMissing)
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
	return fmt.Errorf("%w: it isn't mounted: mount -t tracefs tracefs %s", ErrMissing, tracefsPlaces[0])
}

// findDynamic looks for kprobes or uprobes among the kernel's event sources and in tracefs.
func findDynamic(kind string) error {
	if _, err := os.Stat("/sys/bus/event_source/devices/" + kind + "/type"); err == nil {
		return nil
	}
	for _, p := range tracefsPlaces {
		if _, err := os.Stat(filepath.Join(p, kind+"_events")); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: the kernel was built without CONFIG_%sS, or neither offers them as an event source nor in a mounted tracefs",
		ErrMissing, strings.ToUpper(kind))
}

func findCounters() error {
	c, err := openCounter()
	if err != nil {
		why := err.Error()
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.EOPNOTSUPP):
			why = "this machine, often because it is a virtual one, has none"
		case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			why = "/proc/sys/kernel/perf_event_paranoid forbids it: give the process CAP_PERFMON"
		}
		return fmt.Errorf("%w: %s", ErrMissing, why)
	}
	return c.Close()
}
