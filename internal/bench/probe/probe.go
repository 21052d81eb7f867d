// Package probe measures a process by eBPF programs: system calls and ioctls, the scheduler, and
// page faults. [Detect] finds what the kernel offers. Probes of system calls and of the scheduler
// cost other processes a comparison.
package probe

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/reprise-tt/reprise/internal/tables"
)

// The programs are C in bpf/. Their compiled form is committed, so that building needs no clang.
//go:generate clang -O2 -g -Wall -Werror -mcpu=v2 -target bpfel -fno-ident -fdebug-compilation-dir . -c bpf/probe.bpf.c -o bpf_bpfel.o
//go:generate llvm-strip -g bpf_bpfel.o
//go:generate go test . -run TestNames -update

// Config says what to watch.
type Config struct {
	// PID of 0 means this process.
	PID int
	// Kinds selects what to measure; nil means all.
	Kinds []Kind
	// Slow is the duration above which an event is kept by itself. 0 means 50 µs.
	Slow time.Duration
	// Machine is [Detect] if nil.
	Machine Machine

	ring uint32 // bytes of the ring of slow events, a power of 2; 0 means 1 MiB
}

func (c Config) withDefaults() Config {
	if c.Kinds == nil {
		c.Kinds = []Kind{Calls, Scheduler, Faults}
	}
	c.Slow = cmp.Or(c.Slow, 50*time.Microsecond)
	if c.Machine == nil {
		c.Machine = Detect()
	}
	return c
}

const mostSlow = 1024 // events that are kept

// Cost is the time that a probe takes of the watched process.
type Cost struct {
	Probe string `json:"probe"`
	// Event triggers the probe and costs Ns.
	Event string  `json:"event"`
	Ns    float64 `json:"ns"`
}

// Feature is a kernel feature that may be missing or forbidden.
type Feature string

const (
	BPF            Feature = "eBPF"              // Linux 5.8 with CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN
	RawTracepoints Feature = "raw tracepoints"   // without tracefs
	BTF            Feature = "BTF"               // the kernel's description of its own types
	Fentry         Feature = "fentry"            // a jump in a kernel function; needs BTF
	Tracefs        Feature = "tracefs"           // mounted
	Counters       Feature = "hardware counters" // of instructions
)

// Machine returns nil for an available feature, or else what is missing and how to get it.
type Machine func(Feature) error

// Kind is something to measure.
type Kind string

// Kinds.
const (
	Calls     Kind = "system calls"
	Scheduler Kind = "scheduler"
	Faults    Kind = "page faults"
)

// Way is how something is measured.
type Way string

// Ways, the most detailed first.
const (
	ByRawTracepoint Way = "raw tracepoints"
	ByTracepoint    Way = "tracepoints" // through tracefs
	ByFentry        Way = "fentry"
)

type way struct {
	way      Way
	needs    []Feature
	lacks    string      // what this way can't measure
	programs [][2]string // with their events; ends first, so that no beginning is seen without its end
}

// ways lists the most detailed first.
var ways = map[Kind][]way{
	Calls: {{ByRawTracepoint, []Feature{BPF, RawTracepoints}, "", [][2]string{{"exit_call", "sys_exit"}, {"enter_call", "sys_enter"}}}},
	Scheduler: {
		{ByRawTracepoint, []Feature{BPF, RawTracepoints, BTF}, "", // BTF locates fields of struct task_struct
			[][2]string{{"wake_task", "sched_wakeup"}, {"switch_task", "sched_switch"}}},
		{ByTracepoint, []Feature{BPF, Tracefs}, "", [][2]string{{"wake_traced", "sched_wakeup"}, {"switch_traced", "sched_switch"}}},
	},
	Faults: {
		{ByFentry, []Feature{BPF, BTF, Fentry}, "", [][2]string{{"exit_fault"}, {"enter_fault"}}},
		{ByRawTracepoint, []Feature{BPF, RawTracepoints}, "only their number", [][2]string{{"count_fault", "page_fault_user"}}},
	},
}

// choose returns the available ways to measure a kind, and why better ones are unavailable.
func choose(m Machine, k Kind) (out []way, err error) {
	seen := map[Feature]bool{}
	for _, w := range ways[k] {
		var lacks error
		i := slices.IndexFunc(w.needs, func(f Feature) bool { lacks = m(f); return lacks != nil })
		if i < 0 {
			out = append(out, w)
		} else if f := w.needs[i]; len(out) == 0 && !seen[f] {
			seen[f] = true
			err = errors.Join(err, fmt.Errorf("%s: %w", f, lacks))
		}
	}
	return out, err
}

// ErrMissing is of missing features.
var ErrMissing = errors.New("not available")

// Snapshot holds what the probes have seen so far.
type Snapshot struct {
	// Elapsed is the time until now or the process's end.
	PID     int           `json:"pid"`
	Elapsed time.Duration `json:"elapsed_ns"`
	Ended   bool          `json:"ended"`
	Threads []Thread      `json:"threads"`
	// Slow are the latest events longer than [Config.Slow], oldest first.
	Slow []Slow `json:"slow,omitempty"`
	// Proc are figures of /proc since the start; see [Probe.Running].
	Proc    Proc      `json:"proc"`
	Used    []string  `json:"used"`
	LeftOut []LeftOut `json:"left_out,omitempty"`
	Lost    Lost      `json:"lost"`
}

// Thread holds what a thread did in a stage.
type Thread struct {
	// TID is in the process's own PID namespace.
	TID   int    `json:"tid"`
	Name  string `json:"name,omitempty"`
	Stage int    `json:"stage"`
	Calls []Call `json:"calls,omitempty"`
	Activity
}

// Activity is what a thread did besides its calls (struct activity of bpf/probe.bpf.c).
type Activity struct {
	// On is the time on processors, Off the time off them, of which Ready was spent waiting for
	// one.
	On    time.Duration `json:"on_ns"`
	Off   Durations     `json:"off"`
	Ready Durations     `json:"ready"`
	// Voluntary counts switches of a waiting thread, Preempted those of a runnable one.
	Voluntary uint64 `json:"voluntary_switches"`
	Preempted uint64 `json:"preemptions"`
	// Faults have no times where only their number is known. Major faults needed a disk.
	Faults Durations `json:"faults"`
	Major  uint64    `json:"major_faults"`
}

// Durations is a distribution of durations (struct durations of bpf/probe.bpf.c).
type Durations struct {
	Count uint64        `json:"count"`
	Total time.Duration `json:"total_ns"`
	Max   time.Duration `json:"max_ns"`
	// Slots[n] counts durations from 2^n ns up to 2^(n+1) ns, the last slot all longer ones.
	Slots [32]uint64 `json:"slots"`
}

// Quantile returns an upper bound of the q-quantile, to the width of a slot.
func (d *Durations) Quantile(q float64) time.Duration {
	var n, all uint64
	for _, c := range d.Slots {
		all += c
	}
	for i, c := range d.Slots {
		if n += c; n > 0 && float64(n) >= q*float64(all) {
			if i == len(d.Slots)-1 {
				return d.Max
			}
			return min(time.Duration(2)<<i, d.Max)
		}
	}
	return 0
}

func (d *Durations) add(o Durations) {
	d.Count += o.Count
	d.Total += o.Total
	d.Max = max(d.Max, o.Max)
	for i, n := range o.Slots {
		d.Slots[i] += n
	}
}

// Call is one kind of system call.
type Call struct {
	Name string `json:"name"`
	// Device and Command are an ioctl's.
	Device  string `json:"device,omitempty"`
	Command string `json:"command,omitempty"`
	CallTimes
}

// CallTimes are of calls of one kind (struct call of bpf/probe.bpf.c).
type CallTimes struct {
	// Errors counts failed calls, Off their time off the processor.
	Errors uint64        `json:"errors"`
	Off    time.Duration `json:"off_ns"`
	Durations
}

// Slow is an event that took longer than [Config.Slow].
type Slow struct {
	// At is the event's start on CLOCK_MONOTONIC.
	At    time.Duration `json:"at_ns"`
	For   time.Duration `json:"ns"`
	TID   int           `json:"tid"`
	Stage int           `json:"stage"`
	// What is "call", "blocked", "ready" (waited for a processor) or "fault", Name the call.
	What string `json:"what"`
	Name string `json:"name,omitempty"`
}

// Proc are the kernel's figures of a process, without ended threads.
type Proc struct {
	// On is the time on processors, Ready the time waiting for one (/proc/PID/task/TID/schedstat).
	On    time.Duration `json:"on_ns"`
	Ready time.Duration `json:"ready_ns"`
	// Voluntary and Preempted are switches (/proc/PID/task/TID/status).
	Voluntary uint64 `json:"voluntary_switches"`
	Preempted uint64 `json:"preemptions"`
	// Minor and Major are page faults (/proc/PID/task/TID/stat).
	Minor uint64 `json:"minor_faults"`
	Major uint64 `json:"major_faults"`
}

func (p Proc) with(o Proc, f func(a, b uint64) uint64) Proc {
	ns := func(a, b time.Duration) time.Duration { return time.Duration(f(uint64(a), uint64(b))) }
	return Proc{
		On: ns(p.On, o.On), Ready: ns(p.Ready, o.Ready), Voluntary: f(p.Voluntary, o.Voluntary), Preempted: f(p.Preempted, o.Preempted),
		Minor: f(p.Minor, o.Minor), Major: f(p.Major, o.Major),
	}
}

// Lost counts events that found no room or were missed.
type Lost struct {
	// Ring counts slow events that are only in the totals.
	Ring uint64 `json:"ring"`
	// Events whose table was full.
	Threads    uint64 `json:"threads"`
	Calls      uint64 `json:"calls"`
	Activities uint64 `json:"activities"`
	// Missed counts runs that the kernel skipped: the program was running already.
	Missed uint64 `json:"missed"`
	// Old counts slow events that later ones displaced.
	Old uint64 `json:"old"`
}

// Any reports whether totals lack events.
func (l Lost) Any() bool {
	l.Old = 0
	return l != Lost{}
}

// Add adds the counts of another snapshot.
func (l *Lost) Add(o Lost) {
	for i, n := range o.full() {
		*l.full()[i] += *n
	}
	l.Missed += o.Missed
	l.Old += o.Old
}

// full returns the counts of events without room, in the order of bpf/probe.bpf.c's table.
func (l *Lost) full() [4]*uint64 {
	return [...]*uint64{&l.Ring, &l.Threads, &l.Calls, &l.Activities}
}

// LeftOut is a probe that doesn't work here, and why.
type LeftOut struct {
	Probe string `json:"probe"`
	Why   string `json:"why"`
}

// Thread returns what a thread did in a stage.
func (s *Snapshot) Thread(tid, stage int) (Thread, bool) {
	for _, t := range s.Threads {
		if t.TID == tid && t.Stage == stage {
			return t, true
		}
	}
	return Thread{}, false
}

// Syscalls returns the number of system calls in the thread's stage.
func (t *Thread) Syscalls() uint64 {
	var n uint64
	for _, c := range t.Calls {
		n += c.Count
	}
	return n
}

// Calls sums up all threads and stages, longest first.
func (s *Snapshot) Calls() []Call {
	var out []Call
	for _, t := range s.Threads {
		for _, c := range t.Calls {
			i := slices.IndexFunc(out, func(o Call) bool { return o.Name == c.Name && o.Device == c.Device && o.Command == c.Command })
			if i < 0 {
				out = append(out, c)
				continue
			}
			out[i].Errors += c.Errors
			out[i].Off += c.Off
			out[i].add(c.Durations)
		}
	}
	sortCalls(out)
	return out
}

func sortCalls(c []Call) {
	slices.SortFunc(c, func(a, b Call) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Command, b.Command),
			cmp.Compare(a.Device, b.Device))
	})
}

// Counter counts the instructions that the calling thread executes in user mode.
type Counter struct{ f *os.File }

// Read returns the count so far.
func (c *Counter) Read() (uint64, error) {
	var b [8]byte
	if _, err := c.f.Read(b[:]); err != nil {
		return 0, fmt.Errorf("probe: count instructions: %w", err)
	}
	return binary.NativeEndian.Uint64(b[:]), nil
}

// Close releases the counter.
func (c *Counter) Close() error { return c.f.Close() }

// WriteTable writes the snapshot for people.
func (s *Snapshot) WriteTable(w io.Writer) error {
	return tables.Print(w, s.print)
}

func (s *Snapshot) print(b tables.Text) {
	duration := tables.Duration[time.Duration]
	until := ""
	if s.Ended {
		until = ", until it ended"
	}
	b.F("process %d for %s%s: %s on processors, %s waiting for one, %d page faults (%d major)\n",
		s.PID, duration(s.Elapsed), until, duration(s.Proc.On), duration(s.Proc.Ready), s.Proc.Minor+s.Proc.Major, s.Proc.Major)
	t := b.Table()
	if calls := s.Calls(); len(calls) > 0 {
		t.Head("system call", "of", "times", "failed", "together", "median below", "longest", "off processor")
		for _, c := range calls {
			t.Row(c.Name, c.Command+" "+c.Device, c.Count, c.Errors, duration(c.Total), duration(c.Quantile(0.5)), duration(c.Max),
				duration(c.Off))
		}
		t.Flush()
	}
	if len(s.Threads) > 0 {
		t.Head("thread", "name", "calls", "switches", "preempted", "off processor", "of that ready", "longest", "page faults")
		for _, th := range s.Threads {
			t.Row(th.TID, th.Name, th.Syscalls(), th.Voluntary+th.Preempted, th.Preempted, duration(th.Off.Total),
				duration(th.Ready.Total), duration(th.Off.Max), th.Faults.Count)
		}
		t.Flush()
	}
	for _, l := range s.LeftOut {
		b.F("left out: %s: %s\n", l.Probe, l.Why)
	}
	if s.Lost.Any() {
		b.F("LOST: %+v\n", s.Lost)
	}
	b.F("\n")
}
