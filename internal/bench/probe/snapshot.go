package probe

import (
	"cmp"
	"slices"
	"time"
)

// Snapshot holds what the probes have seen so far.
type Snapshot struct {
	// PID is the watched process, Elapsed the time watched, up to the process's end if it has
	// ended.
	PID     int           `json:"pid"`
	Elapsed time.Duration `json:"elapsed_ns"`
	// Ended says that the process has ended.
	Ended bool `json:"ended"`
	// Threads are the active threads, by thread and stage.
	Threads []Thread `json:"threads"`
	// Functions are the watched kernel functions, by stage.
	Functions []Function `json:"functions,omitempty"`
	// Markers is nil unless markers are probed.
	Markers *Markers `json:"markers,omitempty"`
	// Slow are the latest events longer than [Config.Slow], oldest first.
	Slow []Slow `json:"slow,omitempty"`
	// Proc are the figures of /proc for the whole process since the start; after the process's end
	// the largest that were read: see [Probe.Running].
	Proc Proc `json:"proc"`
	// Used names the working probes, LeftOut the others with the reason.
	Used    []string  `json:"used"`
	LeftOut []LeftOut `json:"left_out,omitempty"`
	// Lost counts events missing in the figures.
	Lost Lost `json:"lost"`
}

// Thread holds what a thread did in a stage.
type Thread struct {
	// TID is the thread's number in the process's own PID namespace.
	TID   int    `json:"tid"`
	Name  string `json:"name,omitempty"`
	Stage int    `json:"stage"`
	Calls []Call `json:"calls,omitempty"`

	// On is the time on processors, Off the time off them, of which Ready was spent waiting for
	// one. The time since the last switch isn't included.
	On    time.Duration `json:"on_ns"`
	Off   Durations     `json:"off"`
	Ready Durations     `json:"ready"`
	// Voluntary counts switches of a waiting thread, Preempted those of a runnable one.
	Voluntary uint64 `json:"voluntary_switches"`
	Preempted uint64 `json:"preemptions"`
	// Faults are page faults, without times where only their number is known. Major faults needed a
	// disk.
	Faults Durations `json:"faults"`
	Major  uint64    `json:"major_faults"`
}

// Durations is a distribution of durations.
type Durations struct {
	Count uint64        `json:"count"`
	Total time.Duration `json:"total_ns"`
	Max   time.Duration `json:"max_ns"`
	// Slots[n] counts durations from 2^n ns up to 2^(n+1) ns; the last slot counts all longer ones.
	Slots [32]uint64 `json:"slots"`
}

// Quantile returns an upper bound of the q-quantile, 0 <= q <= 1, to the width of a slot; 0 without
// durations.
func (d *Durations) Quantile(q float64) time.Duration {
	var n, all uint64
	for _, c := range d.Slots {
		all += c
	}
	for i, c := range d.Slots {
		if n += c; n > 0 && float64(n) >= q*float64(all) {
			if i == len(d.Slots)-1 { // it has no upper end
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
	// Device is an ioctl's file, if known, and Command the ioctl's command.
	Device  string `json:"device,omitempty"`
	Command string `json:"command,omitempty"`
	// Errors counts failed calls, Off their time off the processor.
	Errors uint64        `json:"errors"`
	Off    time.Duration `json:"off_ns"`
	Durations
}

// Function holds the durations of a kernel function.
type Function struct {
	Name  string `json:"name"`
	Stage int    `json:"stage"`
	Durations
}

// Markers counts calls of [MarkSubmitted] and [MarkCompleted]. Durations are from one to the other
// of the same number.
type Markers struct {
	Submitted uint64    `json:"submitted"`
	Completed Durations `json:"completed"`
}

// Slow is an event that took longer than [Config.Slow].
type Slow struct {
	// At is the event's start on CLOCK_MONOTONIC.
	At    time.Duration `json:"at_ns"`
	For   time.Duration `json:"ns"`
	TID   int           `json:"tid"`
	Stage int           `json:"stage"`
	// What is "call", "blocked", "ready" (waited for a processor), "fault" or "function". Name is
	// the call or function; for "blocked", the call that blocked.
	What string `json:"what"`
	Name string `json:"name,omitempty"`
}

// Proc are figures that the kernel keeps of every process. Those of ended threads aren't included.
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

// since subtracts earlier figures. Ended threads can make a count smaller than before.
func (p Proc) since(o Proc) Proc {
	less := func(a, b uint64) uint64 { return a - min(a, b) }
	return Proc{
		On: max(0, p.On-o.On), Ready: max(0, p.Ready-o.Ready),
		Voluntary: less(p.Voluntary, o.Voluntary), Preempted: less(p.Preempted, o.Preempted),
		Minor: less(p.Minor, o.Minor), Major: less(p.Major, o.Major),
	}
}

// most takes the larger figures: as a process ends, the times of each ended thread disappear.
func (p Proc) most(o Proc) Proc {
	return Proc{
		On: max(p.On, o.On), Ready: max(p.Ready, o.Ready),
		Voluntary: max(p.Voluntary, o.Voluntary), Preempted: max(p.Preempted, o.Preempted),
		Minor: max(p.Minor, o.Minor), Major: max(p.Major, o.Major),
	}
}

// Lost counts events that found no room or were missed.
type Lost struct {
	// Ring counts slow events that found the ring full; they are in the totals.
	Ring uint64 `json:"ring"`
	// These count events whose table was full.
	Threads    uint64 `json:"threads"`
	Calls      uint64 `json:"calls"`
	Activities uint64 `json:"activities"`
	Functions  uint64 `json:"functions"`
	Marks      uint64 `json:"marks"`
	// Missed counts runs that the kernel skipped because the program was already running on the
	// processor.
	Missed uint64 `json:"missed"`
	// Old counts slow events that later ones displaced; they are in the totals.
	Old uint64 `json:"old"`
}

// Any reports whether totals lack events.
func (l Lost) Any() bool {
	l.Old = 0
	return l != Lost{}
}

// Add adds the counts of another snapshot.
func (l *Lost) Add(o Lost) {
	l.Ring += o.Ring
	l.Threads += o.Threads
	l.Calls += o.Calls
	l.Activities += o.Activities
	l.Functions += o.Functions
	l.Marks += o.Marks
	l.Missed += o.Missed
	l.Old += o.Old
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

// Calls returns the system calls of all threads and stages, longest first.
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
