package program

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// State is what a command stream assumes about the workers and how it leaves them, as a value. A
// queue has one; a trace starts from ReplayState and carries the one it ends with.
type State struct {
	// Expected is the completion count once everything so far has run. It wraps.
	Expected cq.Count
	launch   uint32
	config   configRing
}

// TakeOver makes s the state of a stream that takes the workers over from another one, whose
// programs are all done.
func (t *Target) TakeOver(s, from *State) {
	s.launch, s.config = from.launch, newRing(t.Workers.L1.KernelConfigSize)
}

// ReplayState is the state in which a trace's commands run: nothing counted, launch messages at the
// first slot, all memory free.
func (t *Target) ReplayState() State {
	return State{config: newRing(t.Workers.L1.KernelConfigSize)}
}

// Detached is the state after a trace: all kernel-config memory is in use until its last program is
// done. It is a sixtieth of a State.
type Detached struct {
	Expected cq.Count
	launch   uint32
}

// Detach returns the state after a trace that ended in s.
func (s *State) Detach() Detached { return Detached{s.Expected, s.launch} }

// After returns the state of a queue after a trace.
func (t *Target) After(end Detached) State {
	return State{Expected: end.Expected, launch: end.launch, config: fullRing(t.Workers.L1.KernelConfigSize, uint32(end.Expected))}
}

// Dispatcher is the core that starts workers and to which they report completions.
type Dispatcher struct {
	At      chip.XY
	Workers uint32 // of one run: one from each worker of the queue
	Sub     uint8  // sub-device that is started: its workers have a go message and a completion stream of their own
}

// GoWord returns a go message of workers that report to the core.
func (d Dispatcher) GoWord(s cq.Signal) cq.GoWord { return cq.NewGoWord(d.Sub, d.At.X, d.At.Y, s) }

// After returns the state after that many programs of a trace.
func (d Dispatcher) After(programs int) Detached {
	return Detached{Expected: cq.Count(programs) * cq.Count(d.Workers), launch: uint32(programs % LaunchEntries)}
}

// A body can't depend on how often it ran before. So it begins where all programs are done, no
// completion is counted and the next launch message is the first. Kernels may stay on the workers.

// IsReset reports whether a Reset needs no commands.
func (s *State) IsReset() bool { return s.Expected == 0 && s.launch == 0 }

// Reset returns the state after a reset of launch pointers and completion count. Kernels stay.
func (s State) Reset() State {
	r := &s.config
	r.head, r.first, r.n = 0, 0, 0
	for i := range r.texts.list {
		r.texts.list[i].last = 0
	}
	s.Expected, s.launch = 0, 0
	return s
}

// ResetWithoutKernels is Reset without knowledge of the kernels on the workers.
func (s State) ResetWithoutKernels() State { return State{config: newRing(s.config.size)} }

// SameKernels reports whether two states have the same kernels at the same places.
func (s *State) SameKernels(o *State) bool {
	return s.config.end == o.config.end && s.config.texts == o.config.texts
}

// FitKernels reports whether the kernels of all these programs fit on the workers together, beside
// those in state s. Then running the programs in any order, after their kernels were put there in
// this order, moves none of them.
func FitKernels(s State, images []*Image) bool {
	r := &s.config
	before := r.texts
	for _, im := range images {
		r.makeRoom(im.slotSize)
		if _, ok := r.find(im.id, 0); !ok {
			r.place(im.id, im.textSize, im.slotSize, 0)
		}
	}
	for _, im := range images {
		r.makeRoom(im.slotSize)
	}
	for _, im := range images {
		if _, ok := r.find(im.id, 0); !ok {
			return false
		}
	}
	for _, t := range before.list {
		if _, ok := r.find(t.id, 0); !ok {
			return false
		}
	}
	return true
}
