//go:build linux && (amd64 || arm64 || riscv64)

package probe

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Calibrate measures the cost of probes on this process: how much each slows down the cheapest
// event that it sees, the best of several rounds. It takes some milliseconds for each kind. It
// leaves out kinds that can't be measured here, kernel functions, which have no cheapest event, and
// the scheduler without CAP_SYS_ADMIN, which counting the run time of programs takes.
func Calibrate(m Machine, kinds ...Kind) (_ []Cost, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var out []Cost
	for _, k := range kinds {
		if c := Choose(m, k)[0]; len(c.Ways) == 0 {
			continue
		}
		c := Cost{Probe: string(k)}
		switch k {
		case Calls:
			c.Event = "system call"
			c.Ns, err = difference(m, k, 2000, func(n int) error {
				for range n {
					unix.Getppid()
				}
				return nil
			})
		case Scheduler:
			c.Event = "switch or wake-up"
			c.Ns, err = runTime(m, k, func() {
				for range 50 {
					_ = unix.Nanosleep(&unix.Timespec{Nsec: 1000}, nil)
				}
			})
		case Faults:
			c.Event = "page fault"
			c.Ns, err = difference(m, k, 256, touch)
		case Marks:
			c.Event = "marker"
			c.Ns, err = difference(m, k, 500, func(n int) error {
				for i := range n {
					MarkCompleted(uint64(i))
				}
				return nil
			})
		default:
			continue
		}
		if errors.Is(err, errUncounted) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("probe: calibrate %s: %w", k, err)
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

// best returns the least time of an operation, over several rounds of n.
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

// difference returns by how much a probe slows down an operation.
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

// errUncounted says that the kernel doesn't count the run time of programs for this process.
var errUncounted = errors.New("the kernel counts the time of programs for CAP_SYS_ADMIN only")

// runTime returns the mean run time of a probe's programs by the kernel's own count, without the
// time to reach them. It serves events that have no cheapest one.
func runTime(m Machine, k Kind, op func()) (_ float64, err error) {
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if errors.Is(err, unix.EPERM) { // CAP_BPF and CAP_PERFMON aren't enough
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
