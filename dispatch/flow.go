package dispatch

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Control flow in traces: what the commands of a body assume can't depend on how often it ran before. So bodies begin where
// all programs are done, no completion is counted and the next launch message is the first one. The kernels that are on the
// workers may stay there.

// IsReset reports whether a stream needs no commands to get to where its Reset is.
func (s *State) IsReset() bool { return s.Expected == 0 && s.launch == 0 }

// Reset returns the state after all programs so far are done, the workers have taken their launch pointers back and the
// completion count was cleared. Kernels stay where they are.
func (s State) Reset() State {
	r := &s.config
	r.head, r.first, r.n = 0, 0, 0
	for i := range r.texts.list {
		r.texts.list[i].last = 0
	}
	s.Expected, s.launch = 0, 0
	return s
}

// ResetWithoutKernels is Reset for a stream that doesn't know which kernels are on the workers.
func (s State) ResetWithoutKernels() State { return State{config: newRing(s.config.size)} }

// SameKernels reports whether two states have the same kernels at the same places.
func (s *State) SameKernels(o *State) bool {
	return s.config.end == o.config.end && s.config.texts == o.config.texts
}

// FitKernels reports whether the kernels of all these programs can be on the workers at a time, beside those that are there in
// state s. Then running the programs in any order, after their kernels were put there in this order, moves none of them.
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

// AppendKernels appends the commands that bring the kernels of a program, unless they are on the workers already, and moves st
// past them.
func (im *Image) AppendKernels(dst []byte, st *State, dispatcher Dispatcher) []byte {
	r := &st.config
	wait := r.makeRoom(im.slotSize)
	if _, ok := r.find(im.id, uint32(st.Expected)); ok {
		return dst
	}
	off, room := r.place(im.id, im.textSize, im.slotSize, uint32(st.Expected))
	p := placement{base: im.configBase, text: im.configBase + off}
	start := len(dst)
	dst = append(dst, im.text.bytes...)
	im.text.patch(dst[start:], &p, later(wait, room), im.stream, dispatcher, 0)
	return dst
}

// KernelPages is RelayedPages for the commands of AppendKernels.
func (im *Image) KernelPages() []int {
	var pages []int
	for _, r := range im.text.relays {
		pages = append(pages, r.page)
	}
	return pages
}

// ControlFlow returns nil if traces of the queue may have loops, conditions and calls, and [ErrQueueFirmware] otherwise.
func (q *Queue) ControlFlow() error {
	if q.d.ctl.control == 0 {
		return fmt.Errorf("dispatch: queue %d: control flow in traces: %w", q.id, ErrQueueFirmware)
	}
	return nil
}

// Offsets in the prefetcher's struct cq_control. Source: firmware, cq_prefetch_control.h.
const (
	controlAbort   = 0
	controlAborted = 4
	controlReplays = 8
	controlDepth   = 12
	controlLoops   = 16 // entries of controlLoop bytes: number, iterations left, iterations, address of the trace
	controlLoop    = 16
)

// Abort asks the queue to end the replays that it was given so far where an iteration of a loop ends. Those without loops run to
// their end. While another goroutine waits for room to submit something, it asks this only of the replay that is running.
// Abort doesn't wait.
func (q *Queue) Abort() (err error) {
	if err := q.ControlFlow(); err != nil {
		return err
	}
	if q.mu.TryLock() {
		defer q.leave(&err, debug.SetPanicOnFault(true))
		if err := q.usable("abort"); err != nil {
			return err
		}
		return q.control("abort", func(w controlWords) error { return w.store(controlAbort, q.stream.replays) })
	}
	return q.control("abort", func(w controlWords) error {
		n, err := w.load(controlReplays)
		if err != nil {
			return err
		}
		return w.store(controlAbort, n)
	})
}

// Aborted returns how many replays have ended because of Abort since the queue was started.
func (q *Queue) Aborted() (n uint32, err error) {
	if err := q.ControlFlow(); err != nil {
		return 0, err
	}
	err = q.control("read how many replays were aborted", func(w controlWords) (err error) {
		n, err = w.load(controlAborted)
		return err
	})
	return n, err
}

// control calls a function that uses words of the prefetcher's struct cq_control.
func (q *Queue) control(op string, f func(controlWords) error) error {
	q.life.mu.RLock()
	defer q.life.mu.RUnlock()
	err := q.overLocked(false)
	if err == nil {
		var xy chip.XY
		if xy, err = q.d.ch.Virtual(q.tiles.prefetch); err == nil {
			err = f(controlWords{q.d, xy})
		}
	}
	if err != nil {
		return fmt.Errorf("dispatch: queue %d: %s: %w", q.id, op, err)
	}
	return nil
}

// controlWords are the words of a prefetcher's struct cq_control, by their offsets. They are read and written by the way that
// leads to every core, also of a chip that is reached over Ethernet: the queue's own windows lead elsewhere there.
type controlWords struct {
	d    *Device
	core chip.XY
}

func (w controlWords) load(off uint32) (uint32, error) {
	return w.d.kd.Read32(w.core, uint64(w.d.ctl.control+off))
}

func (w controlWords) store(off, v uint32) error {
	return w.d.kd.Write32(w.core, uint64(w.d.ctl.control+off), v)
}

// parseLoops reads the loops of a struct cq_control.
func parseLoops(b []byte) []LoopState {
	le := binary.LittleEndian
	var out []LoopState
	for i := range min(le.Uint32(b[controlDepth:]), cq.MaxLoops) {
		l := b[controlLoops+controlLoop*i:]
		count := le.Uint32(l[8:])
		out = append(out, LoopState{Loop: le.Uint32(l), Iteration: count - le.Uint32(l[4:]), Of: count, Trace: le.Uint32(l[12:])})
	}
	return out
}

// LoopState is a loop that a queue's prefetcher is in.
type LoopState struct {
	Trace     uint32 `json:"trace"`     // address in every DRAM bank of the trace that has it
	Loop      uint32 `json:"loop"`      // its number in the trace
	Iteration uint32 `json:"iteration"` // from 0
	Of        uint32 `json:"of"`        // iterations, or the most that there may be
}

// String is as "loop 2, iteration 5 of 10".
func (l LoopState) String() string {
	return fmt.Sprintf("loop %d of the trace at %#x, iteration %d of at most %d", l.Loop, l.Trace, l.Iteration, l.Of)
}
