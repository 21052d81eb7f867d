package tracebuf

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// ControlKind is what a step does that runs no program and belongs to the control flow of its trace.
type ControlKind uint8

const (
	// ControlNone is the kind of a step that runs a program, or is an edge.
	ControlNone ControlKind = iota
	// ControlReset waits until all programs are done, has the workers take their launch pointers back and clears the completion
	// count, as the commands of a replay do before the trace.
	ControlReset
	// ControlKernels brings kernels to the workers which the body of a loop runs.
	ControlKernels
	// ControlLoop begins a loop: Target is the step after it.
	ControlLoop
	// ControlEnd ends an iteration: Target is the first step of the body.
	ControlEnd
	// ControlBranch goes to the step Target unless a condition holds.
	ControlBranch
	// ControlCall runs another trace.
	ControlCall
	// ControlArgs names words of memory that become arguments of the program in the step after it.
	ControlArgs
)

var controlNames = [...]string{"none", "reset", "kernels", "loop", "end of loop", "branch", "call", "arguments"}

// String is the kind in words.
func (k ControlKind) String() string {
	if int(k) < len(controlNames) {
		return controlNames[k]
	}
	return fmt.Sprintf("control(%d)", uint8(k))
}

// Control is what a step does that belongs to the control flow of its trace. Other steps have the zero Control.
type Control struct {
	Kind    ControlKind
	Loop    int    // of a ControlLoop, its ControlEnd and its conditions: the number of the loop in the trace
	Target  int    // step that a ControlLoop, a ControlEnd or a ControlBranch goes to; the number of steps for the end
	Count   uint32 // of a ControlLoop, as recorded: iterations, or the most that there may be
	At      int    // offset in the step of the command that goes to Target
	Program int    // of a ControlKernels: whose kernels, as an index in Image.Programs
	Callee  int    // of a ControlCall: which trace, as an index in the Callees of a file's part, or of the part that was recorded
}

// Cond is a word of a buffer that commands read: a BRANCH, which compares it, or a READ_ARG.
type Cond struct {
	At     int // offset of the BRANCH or READ_ARG in Image.Bytes
	Buffer int // index in the trace's Buffers
	Offset int // of the word in the buffer, in bytes, a multiple of 4
}

// Callee is a trace that the part of another one calls, on the same queue.
type Callee struct {
	Name string
	Addr uint64 // in every DRAM bank
	// Image has no Buffers, which are those of the file's first part, and no Callees: what it calls are those of the part that
	// come before it.
	Image Image
}

// HasControl reports whether the trace has loops, branches, calls, or arguments that the device computes.
func (im *Image) HasControl() bool {
	return slices.ContainsFunc(im.Steps, func(s Step) bool { return s.Control.Kind != ControlNone })
}

// Counted returns how many programs a queue counts as run when the trace has ended: none with control flow, which ends in a
// reset.
func (im *Image) Counted() int {
	if im.HasControl() {
		return 0
	}
	return im.Runs()
}

// program returns the index of the program whose kernels a step reads, NoProgram if it reads none.
func (s *Step) program() int {
	if s.Control.Kind == ControlKernels {
		return s.Control.Program
	}
	return s.Program
}

// AddControl records a step of control flow, with its commands.
func (r *Recording) AddControl(name string, c Control, commands []byte) int {
	r.steps = append(r.steps, Step{Name: name, Offset: len(r.cmds), Size: len(commands), Program: NoProgram, Control: c})
	r.cmds = append(r.cmds, commands...)
	return len(r.steps) - 1
}

// SetTarget has a step of control flow go to another step, which is recorded or will be the next one.
func (r *Recording) SetTarget(step, target int) {
	s := &r.steps[step]
	s.Control.Target = target
	to := len(r.cmds)
	if target < len(r.steps) {
		to = r.steps[target].Offset
	}
	cq.Put32(r.cmds, s.Offset+s.Control.At+4, uint32(to)) // LOOP_BEGIN, LOOP_END and BRANCH have it at the same place
}

// ResetConfig is what the commands of a reset depend on.
type ResetConfig struct {
	Layout    cq.Layout
	DispatchX uint8 // virtual coordinates of the dispatch core
	DispatchY uint8
	Workers   uint32 // completions that the go signal causes
	Stream    uint16 // that counts completions
	Packed    bool   // commands may share relays and pages
}

// AppendReset appends the commands of a ControlReset after which no completion is counted: before them expected are. With stall
// the prefetcher goes on only when that is done and all results are in memory.
func AppendReset(dst []byte, c ResetConfig, expected uint32, stall bool) ([]byte, error) {
	b := cq.NewBuilder(c.Layout, dst)
	if c.Packed {
		b.BeginSequence()
	}
	signal := cq.SendGoSignal{
		Go: cq.NewGoWord(0, c.DispatchX, c.DispatchY, cq.SignalReplayTrace), WaitCount: expected, WaitStream: uint32(c.Stream),
	}
	if c.Packed {
		b.ForwardSubordinateGo(false, signal)
	} else {
		b.NotifySubordinate(cq.NotifySubordinate{Mask: 1})
		b.SendGoSignal(cq.Subordinate, signal)
	}
	w := cq.Wait{Flags: cq.WaitStream | cq.ClearStream, Stream: c.Stream, Count: expected + c.Workers}
	if stall {
		w.Flags |= cq.WaitBarrier | cq.NotifyFetch
	}
	b.Wait(cq.Master, w)
	if c.Packed {
		b.EndSequence()
	}
	if stall {
		b.Stall()
	}
	return b.Finish()
}

// AppendStall appends commands after which the prefetcher goes on only when expected completions are counted and all results
// are in memory.
func AppendStall(dst []byte, c ResetConfig, expected uint32) ([]byte, error) {
	b := cq.NewBuilder(c.Layout, dst)
	b.WaitStall(cq.Wait{Flags: cq.WaitStream, Stream: c.Stream, Count: expected})
	return b.Finish()
}
