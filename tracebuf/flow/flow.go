// Package flow is the control flow of traces. It has the tree that a recorder builds ([Node]), its
// commands ([Encode]), and their one reader ([Read]), which file checks, listings, debuggers,
// timelines and hang reports use.
//
// The commands of a loop's body are the same in every iteration, so a body begins in a state that
// is the same each time: all programs are done, no completion is counted, and the workers have the
// kernels that they had when the loop began.
package flow

import (
	"fmt"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Kind is what a step of control flow does.
type Kind uint8

const (
	// None is the kind of a step that runs a program, or is an edge.
	None Kind = iota
	// Reset waits for all programs, resets the workers' launch pointers and clears the completion
	// count, as a replay does before the trace.
	Reset
	// Kernels brings the kernels of a loop's body to the workers.
	Kernels
	// Loop begins a loop: Target is the step after it.
	Loop
	// End ends an iteration: Target is the first step of the body.
	End
	// Branch goes to the step Target unless a condition holds.
	Branch
	// Call runs another trace.
	Call
	// Args names words of memory as arguments of the program in the next step.
	Args
)

var kindNames = [...]string{"none", "reset", "kernels", "loop", "end of loop", "branch", "call", "arguments"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("control(%d)", uint8(k))
}

// Control is what a step does to the control flow; zero for steps that run programs.
type Control struct {
	Kind    Kind
	Loop    int    // of a Loop, its End and its conditions
	Target  int    // step that a Loop, an End or a Branch goes to; the number of steps for the end
	Count   uint32 // of a Loop, as recorded
	Program int    // in Image.Programs
	Callee  int    // in the Callees
}

// Jumps reports whether the step may go on at Target.
func (c *Control) Jumps() bool { return c.Kind == Loop || c.Kind == End || c.Kind == Branch }

// ResetConfig is what the commands of a reset depend on.
type ResetConfig struct {
	Layout    cq.Layout
	DispatchX uint8 // virtual coordinates of the dispatch core
	DispatchY uint8
	Workers   uint32
	Stream    uint16 // that counts completions of sub-device 0
	Sub       uint8
	Packed    bool // commands may share relays and pages
}

// Begin appends commands that have every worker reset its launch pointer once so many completions
// are counted, wait for the workers and clear the count. With stall the prefetcher goes on only
// then, with all results in memory. It returns the offsets of the 32-bit counts of the go signal
// and the wait. Source: tt-metal trace/dispatch.cpp.
func (c *ResetConfig) Begin(b *cq.Builder, expected uint32, stall bool) (goCount, waitCount int) {
	stream := c.Stream + uint16(c.Sub)
	signal := cq.SendGoSignal{
		Go: cq.NewGoWord(c.Sub, c.DispatchX, c.DispatchY, cq.SignalReplayTrace), Multicast: c.Sub, WaitCount: expected,
		WaitStream: uint32(stream),
	}
	if c.Packed {
		b.BeginSequence()
		goCount = cq.AtForwarded + b.ForwardSubordinateGo(false, signal)
	} else {
		b.NotifySubordinate(cq.NotifySubordinate{Mask: 1 << c.Sub})
		goCount = b.SendGoSignal(cq.Subordinate, signal)
	}
	w := cq.Wait{Flags: cq.WaitStream | cq.ClearStream, Stream: stream, Count: expected + c.Workers}
	if stall {
		w.Flags |= cq.WaitBarrier | cq.NotifyFetch
	}
	waitCount = b.Wait(cq.Master, w)
	if c.Packed {
		b.EndSequence()
	}
	if stall {
		b.Stall()
	}
	return goCount + cq.AtGoWaitCount, waitCount + cq.AtWaitCount
}

// AppendReset appends the commands of a Reset.
func AppendReset(dst []byte, c ResetConfig, expected uint32, stall bool) ([]byte, error) {
	b := cq.NewBuilder(c.Layout, dst)
	c.Begin(&b, expected, stall)
	return b.Finish()
}

// AppendStall appends commands after which the prefetcher goes on only when expected completions
// are counted and all results are in memory.
func AppendStall(dst []byte, c ResetConfig, expected uint32) ([]byte, error) {
	b := cq.NewBuilder(c.Layout, dst)
	b.WaitStall(cq.Wait{Flags: cq.WaitStream, Stream: c.Stream, Count: expected})
	return b.Finish()
}
