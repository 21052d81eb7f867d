package postmortem

import (
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/internal/debug/stack"
)

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
