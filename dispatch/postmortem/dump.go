package postmortem

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/internal/debug/live"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/kernels/watch"
)

// Dump is the state of a hung device, as far as it could be read.
type Dump struct {
	Time       time.Time       `json:"time"`
	Target     string          `json:"target"` // what was opened
	Arch       string          `json:"arch"`
	Harvesting chip.Harvesting `json:"harvesting"`
	Queue      int             `json:"queue"` // that hangs
	Waiting    string          `json:"waiting"`
	Last       string          `json:"last"` // submission of the queue
	Cause      string          `json:"cause"`
	// Unreachable says why nothing could be read from the device.
	Unreachable string      `json:"unreachable,omitempty"`
	Queues      []QueueDump `json:"queues"`
	Cores       []CoreState `json:"cores"`
	Regions     []Region    `json:"regions,omitempty"`
	// Prints is what is left in the print rings of busy workers, oldest first.
	Prints []print.Record  `json:"prints,omitempty"`
	Watch  []watch.Failure `json:"watch,omitempty"`
	// Stacks are of busy workers, then of the queue's own cores: of BRISC and the processors with a
	// kernel.
	Stacks     []live.Snapshot `json:"stacks,omitempty"`
	StacksNote string          `json:"stacks_note,omitempty"`
}

// Region is a piece of memory in a Dump.
type Region struct {
	Name string    `json:"name"` // a Region constant
	Core chip.Core `json:"core"`
	Host bool      `json:"host,omitempty"`
	Addr uint64    `json:"addr"` // in L1, or in the queue's issue ring
	Size int       `json:"size"`
	Data []byte    `json:"-"`
}

// Names of regions.
const (
	RegionMailbox         = "mailbox"       // of every core
	RegionKernelConfig    = "kernel config" // of the command-queue cores and of busy workers, up to 32
	RegionFirmware        = "base firmware" // of all processors of these workers
	RegionControl         = "control block" // with the prefetch queue on the prefetch core
	RegionCommandData     = "command data"
	RegionDispatchRing    = "dispatch ring"
	RegionSubordinateRing = "subordinate ring"
	RegionIssue           = "issue ring" // commands in host memory, by entry of the prefetch queue
	RegionTrace           = "trace"      // replayed last, unless it has more than 32 MiB
)

// QueueDump is what is known of one queue.
type QueueDump struct {
	ID       int       `json:"id"`
	Prefetch chip.Core `json:"prefetch"`
	Dispatch chip.Core `json:"dispatch"`
	Last     string    `json:"last"`
	// Busy: another goroutine was submitting, so that Host and Entries were not read.
	Busy    bool         `json:"busy,omitempty"`
	Host    HostRings    `json:"host"`
	Device  DeviceRings  `json:"device"`
	Entries []FetchState `json:"entries,omitempty"`
	Pending []string     `json:"pending,omitempty"` // reports that the host expects, in order
	// Programs is the run that the queue waits for in a trace with control flow or, if a loop
	// exceeded its limit, the last one that ended. Several if the queue can be at several places.
	Programs []TraceProgram `json:"programs,omitempty"`
}

// HostRings is the host's side of a queue's rings.
type HostRings struct {
	FetchNext     uint32 `json:"fetch_next"`  // L1 address of the next prefetch queue entry
	FetchPut      uint64 `json:"fetch_put"`   // entries since the start
	FetchTaken    uint64 `json:"fetch_taken"` // by the prefetcher
	IssueWrite    uint32 `json:"issue_write"`
	IssueSize     uint32 `json:"issue_size"`
	Expected      uint32 `json:"expected"`        // once everything so far has run
	CompletionRd  uint32 `json:"completion_rd"`   // as published
	CompletionWr  uint32 `json:"completion_wr"`   // as published in host memory
	CompletionLow uint32 `json:"completion_base"` // of an empty ring
	Pages         uint64 `json:"pages"`           // since the start
}

// DeviceRings are the words that the command-queue kernels and the host share.
type DeviceRings struct {
	Read               bool          `json:"read"` // the rest could be read
	PrefetchReset      uint32        `json:"prefetch_reset"`
	DispatchReset      uint32        `json:"dispatch_reset"`   // soft reset registers
	FetchRead          uint32        `json:"fetch_read"`       // prefetch core: entry taken last
	IssueRead          uint32        `json:"issue_read"`       // prefetch core: NoC address after what arrived
	DispatchCredits    uint32        `json:"dispatch_credits"` // prefetch core: pages it may ever have used
	SubordinateCredits uint32        `json:"subordinate_credits"`
	Syncs              uint32        `json:"syncs"` // prefetch core: counted by STALLs
	DispatchPages      uint32        `json:"dispatch_pages"`
	SubordinatePages   uint32        `json:"subordinate_pages"` // dispatch core
	CompletionWr       uint32        `json:"completion_wr"`
	CompletionRd       uint32        `json:"completion_rd"`
	LastEvents         []uint32      `json:"last_events"`
	GoSyncs            []uint32      `json:"go_syncs"`
	Streams            []uint32      `json:"streams"` // dispatch core
	FirstStream        int           `json:"first_stream"`
	Replays            uint32        `json:"replays"`         // since the start
	Loops              []memmap.Loop `json:"loops,omitempty"` // outermost first
}

// FetchState is one entry of the prefetch queue and its commands.
type FetchState struct {
	Number uint64 `json:"number"` // since the start
	Taken  bool   `json:"taken"`
	Offset uint32 `json:"offset"` // in the issue ring
	Size   uint32 `json:"size"`
}

// Region returns the first region of a name and core.
func (d *Dump) Region(name string, c chip.Core) (Region, bool) {
	i := slices.IndexFunc(d.Regions, func(r Region) bool { return r.Name == name && r.Core == c })
	if i < 0 {
		return Region{}, false
	}
	return d.Regions[i], true
}

// queue returns a queue's state, or nil.
func (d *Dump) queue(id int) *QueueDump {
	if i := slices.IndexFunc(d.Queues, func(q QueueDump) bool { return q.ID == id }); i >= 0 {
		return &d.Queues[i]
	}
	return nil
}

func (d *Dump) core(c chip.Core) (s CoreState) {
	if i := slices.IndexFunc(d.Cores, func(s CoreState) bool { return s.Core == c }); i >= 0 {
		s = d.Cores[i]
	}
	return s
}

// HangError is returned when a queue makes no progress. Error is one line; Detail describes the
// device.
type HangError struct {
	Queue   int
	Waiting string
	Last    string // submission of the queue
	Cause   error  // ErrTimeout, or why the device stopped
	Cores   []CoreState
	Dump    *Dump
	File    string // or empty
	FileErr error
}

func (e *HangError) Error() string { return e.line("hangs", ", "+busyCores(e.Cores)) }

func (e *HangError) line(what, cores string) string {
	s := fmt.Sprintf("dispatch: queue %d %s: waiting for %s, last submitted %s%s%s: %v", e.Queue, what, e.Waiting, e.Last, e.inTrace(),
		cores, e.Cause)
	if e.File != "" {
		s += "; see " + e.File
	}
	return s
}

func (e *HangError) inTrace() string {
	if e.Dump != nil {
		if q := e.Dump.queue(e.Queue); q != nil {
			return q.inTrace()
		}
	}
	return ""
}

func (e *HangError) Unwrap() error { return e.Cause }

// Detail describes the queues' pointers and commands, and every core that is not idle.
func (e *HangError) Detail() string {
	var b strings.Builder
	fmt.Fprintln(&b, e)
	if e.FileErr != nil {
		fmt.Fprintf(&b, "the dump could not be written: %v\n", e.FileErr)
	}
	if e.Dump != nil {
		_ = e.Dump.Print(&b)
	}
	return b.String()
}

// LostError is returned when the device is lost while a queue waits. It matches kmd.ErrDeviceLost,
// and isn't a *HangError: no core waits for anything.
type LostError struct {
	Report *HangError // what the host knows; nothing was read from the device
}

func (e *LostError) Error() string { return e.Report.line("lost its device", "") }

func (e *LostError) Unwrap() error { return e.Report.Cause }

// KernelError is the cause of a *HangError when a known kernel made the device stop.
type KernelError struct {
	Core            chip.Core
	Processor       chip.Processor
	Program, Kernel string
	Offset          uint32 // in the kernel's text
	// Frames are the function of the instruction, after those that are inlined there.
	Frames []stack.Frame
	Err    error
}

func (e *KernelError) Error() string {
	where := ""
	if len(e.Frames) > 0 && e.Frames[0].Function != "" {
		where = ", " + e.Frames[0].Function
		if f := e.Frames[0]; f.File != "" {
			where += fmt.Sprintf(" at %s:%d", f.File, f.Line)
		}
		if f := e.Frames[len(e.Frames)-1]; len(e.Frames) > 1 && f.File != "" {
			where += fmt.Sprintf(", in %s at %s:%d", f.Function, f.File, f.Line)
		}
	}
	return fmt.Sprintf("kernel %q of program %q on %v of core %v, at +%#x of its text%s: %v", e.Kernel, e.Program, e.Processor, e.Core,
		e.Offset, where, e.Err)
}

func (e *KernelError) Unwrap() error { return e.Err }

// culprit is an error of an emulated device that knows the worker to blame.
type culprit interface {
	Culprit() (core chip.Core, p chip.Processor, pc uint32, ok bool)
}

// Find returns the kernel whose text a worker's program counter is in, its program, and the offset
// in its text in bytes; nil if unknown.
type Find func(core chip.Core, p chip.Processor, pc uint32) (of *program.Loaded, k *program.LoadedKernel, in uint32)

// Blame adds to an error of the device the kernel to blame, if it is known.
func Blame(cause error, find Find) error {
	var c culprit
	if !errors.As(cause, &c) {
		return cause
	}
	core, p, pc, ok := c.Culprit()
	if !ok {
		return cause
	}
	of, k, in := find(core, p, pc)
	if k == nil {
		return cause
	}
	e := &KernelError{Core: core, Processor: p, Program: of.Program, Kernel: k.Name, Offset: in, Err: cause}
	if m, err := stack.Load(k.Name, k.File, pc-in); err == nil {
		e.Frames = stack.Space{m}.Unwind(stack.Registers{PC: pc}, nil)
	}
	return e
}

// Report collects the state of the device for an error, and writes a dump unless dir is empty.
func (m *Machine) Report(h *Hang, dir string) *HangError {
	d := m.Collect(h)
	e := &HangError{Queue: h.Queue, Waiting: h.Waiting, Last: h.Last, Cause: h.Cause, Dump: d, Cores: d.Cores}
	if dir != "" {
		e.File, e.FileErr = d.save(dir)
	}
	return e
}
