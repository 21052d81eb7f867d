package tracebuf

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// SpanKind is the kind of a ControlSpan.
type SpanKind uint8

const (
	// SpanLoop is from before a loop's first iteration to the end of its last one.
	SpanLoop SpanKind = iota
	// SpanIteration is an iteration of the loop around it, with the test of its condition.
	SpanIteration
	// SpanBranch is a body that a condition has chosen.
	SpanBranch
	// SpanCall is a run of another trace.
	SpanCall
)

var spanNames = [...]string{"loop", "iteration", "branch", "call"}

func (k SpanKind) String() string {
	if int(k) < len(spanNames) {
		return spanNames[k]
	}
	return fmt.Sprintf("span(%d)", uint8(k))
}

// ControlSpan is a time in which a queue was in a part of a trace's control flow, according to the
// queue's log.
type ControlSpan struct {
	Kind  SpanKind
	Name  string // of the loop, branch or call, as "loop of 5"
	Depth int    // of spans around it
	// Number of a SpanIteration, from 0, of a SpanBranch's body, or of a SpanLoop's iterations.
	Number   int
	Programs []string // in order, without those in loops and calls inside
	Aborted  bool
	// Start and End are cycles of the dispatch core's clock: when everything before is done and
	// when the span's programs are. But a condition on an iteration begins a body when the program
	// before is launched; a call ends when its last program is launched, and a branch's last body
	// at the queue's next decision.
	Start, End uint64
}

// ControlSpans reads the log of one replay, which ended at end, as nested spans, outer ones first.
// trace finds a trace by its address; entries of unknown traces are left out.
func ControlSpans(log []cq.TurnEntry, end uint64, trace func(addr uint32) *Image) []ControlSpan {
	r := spanReader{end: end, places: map[*Image][]flow.Place{}}
	for i := range log {
		e := &log[i]
		if im := trace(e.Trace); im != nil {
			if step := im.stepAt(e.Offset); step >= 0 && step < len(im.Steps) {
				r.turn(e, im, step)
			}
		}
	}
	r.closeTo(0, end)
	return r.out
}

type spanReader struct {
	out  []ControlSpan
	open []openSpan
	end  uint64

	left     int    // a call that has just returned, by its index in out plus 1; 0 without one
	leftAt   int    // step after it
	leftFrom *Image // that has the step
	chain    int    // step that the condition before has gone to, in a branch
	skipped  int    // conditions of the branch that didn't hold
	chainIn  *Image
	places   map[*Image][]flow.Place
}

type openSpan struct {
	at     int // in spanReader.out
	im     *Image
	lo, hi int
	kind   SpanKind
	next   uint64
	done   uint64
}

func (r *spanReader) turn(e *cq.TurnEntry, im *Image, step int) {
	s := &im.Steps[step]
	r.settleCall(im, step, e.Cycles)
	r.leave(im, step, e.Cycles)
	switch e.Turn {
	case cq.TurnLoop:
		r.iterate()
		r.push(SpanLoop, s.Name, 0, im, step+1, s.Control.Target, e.Cycles)
		top := &r.open[len(r.open)-1]
		top.next, top.done = e.Cycles, e.Cycles
	case cq.TurnNext, cq.TurnAbort:
		r.iterate()
		if k := r.innermost(SpanLoop); k >= 0 {
			r.closeTo(k+1, e.Cycles)
			r.open[k].next, r.open[k].done = e.Cycles, e.Cycles
		}
		if e.Turn == cq.TurnAbort {
			for k := range r.open {
				r.out[r.open[k].at].Aborted, r.open[k].done = true, e.Cycles
			}
			r.closeTo(0, e.Cycles)
		}
	case cq.TurnLeave:
		if k := r.innermost(SpanLoop); k >= 0 {
			r.open[k].done = e.Cycles
			r.closeTo(k, e.Cycles)
		}
	case cq.TurnTake:
		r.iterate()
		r.push(SpanBranch, s.Name, r.conditions(im, step), im, step+1, s.Control.Target, e.Cycles)
	case cq.TurnElse:
		r.iterate()
		r.otherwise(im, step, e.Cycles)
	case cq.TurnJoin:
		if k := r.innermost(SpanBranch); k >= 0 {
			r.closeTo(k, e.Cycles)
		}
	case cq.TurnCall:
		r.iterate()
		r.push(SpanCall, s.Name, 0, nil, 0, 0, e.Cycles)
	case cq.TurnReturn:
		if k := r.innermost(SpanCall); k >= 0 {
			at := r.open[k].at
			r.closeTo(k, e.Cycles)
			r.left, r.leftAt, r.leftFrom = at+1, step, im
		}
	}
}

// settleCall ends a call that has returned at the present turn if no program was in between.
func (r *spanReader) settleCall(im *Image, step int, now uint64) {
	if r.left > 0 && im == r.leftFrom && step >= r.leftAt && !im.runs(r.leftAt, step) {
		r.out[r.left-1].End = now
	}
	r.left = 0
}

func (im *Image) runs(lo, hi int) bool {
	return slices.ContainsFunc(im.Steps[lo:hi], func(s Step) bool { return s.Program != NoProgram || s.Control.Kind == flow.Call })
}

func (r *spanReader) leave(im *Image, step int, now uint64) {
	for k := len(r.open) - 1; k >= 0; k-- {
		o := &r.open[k]
		if o.kind == SpanCall {
			return
		}
		if o.im != im || step < o.lo || step >= o.hi {
			r.closeTo(k, now)
		}
	}
}

func (r *spanReader) iterate() {
	k := len(r.open) - 1
	if k < 0 || r.open[k].kind != SpanLoop {
		return
	}
	o := &r.open[k]
	l := &r.out[o.at]
	r.push(SpanIteration, l.Name, l.Number, o.im, o.lo, o.hi, o.next)
	r.out[r.open[k].at].Number++
}

func (r *spanReader) innermost(kind SpanKind) int {
	for k := len(r.open) - 1; k >= 0; k-- {
		if r.open[k].kind == kind {
			return k
		}
	}
	return -1
}

func (r *spanReader) push(kind SpanKind, name string, number int, im *Image, lo, hi int, start uint64) {
	s := ControlSpan{Kind: kind, Name: name, Number: number, Depth: len(r.open), Start: start, End: start}
	if im != nil && kind != SpanLoop {
		s.Programs = im.programsOf(lo, hi)
	}
	r.open = append(r.open, openSpan{at: len(r.out), im: im, lo: lo, hi: hi, kind: kind})
	r.out = append(r.out, s)
}

// programsOf leaves out the programs in loops among the steps.
func (im *Image) programsOf(lo, hi int) []string {
	var out []string
	for i := lo; i < hi && i < len(im.Steps); i++ {
		s := &im.Steps[i]
		if s.Control.Kind == flow.Loop && s.Control.Target > i {
			i = s.Control.Target - 1
			continue
		}
		if s.Program != NoProgram {
			out = append(out, s.Name)
		}
	}
	return out
}

// conditions returns and forgets the number of false conditions of the branch.
func (r *spanReader) conditions(im *Image, step int) int {
	n := 0
	if r.chainIn == im && r.chain == step {
		n = r.skipped
	}
	r.chainIn, r.skipped = nil, 0
	return n
}

// After the last false condition of its branch, the body for all other cases begins.
func (r *spanReader) otherwise(im *Image, step int, now uint64) {
	n := r.conditions(im, step) + 1
	to := im.Steps[step].Control.Target
	places := r.places[im]
	if places == nil {
		places, _ = im.Flow()
		r.places[im] = places
	}
	if places[to].Branch.Same { // another case
		r.chain, r.skipped, r.chainIn = to, n, im
		return
	}
	join := im.Steps[to-1].Control.Target
	if join > to && im.runs(to, join) {
		r.push(SpanBranch, im.Steps[step].Name, n, im, to, join, now)
	}
}

func (r *spanReader) closeTo(n int, now uint64) {
	top := len(r.open) - 1
	for k := top; k >= n; k-- {
		o := &r.open[k]
		r.out[o.at].End = max(now, r.out[o.at].Start)
		if o.kind == SpanLoop && k == top { // between two iterations
			r.out[o.at].End = o.done
		}
	}
	r.open = r.open[:min(n, len(r.open))]
}
