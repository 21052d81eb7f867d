package tracebuf

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

type nest struct {
	places []flow.Place // by step, and for the end

	arriving []int // programs counted when commands go there; -1 for none
	dead     bool  // no command before the present step goes on to it
	open     []int
	used     []bool
	conds    int // seen so far
	callees  []Callee
	shapes   []shape
	shape    shape // of the trace

	flights map[int]*flight // by step that commands go to
}

// shape is how deep a trace nests, with its callees, and where it leaves kernels.
type shape struct {
	loops, calls int
	texts        []text
}

func (w *walker) noted() (err error) {
	n := &w.nest
	n.arriving = slices.Repeat([]int{-1}, len(w.im.Steps)+1)
	n.places, err = w.im.Flow()
	if bad, ok := errors.AsType[*flow.NestError](err); ok {
		return w.fail(w.im.Steps[bad.Step].Offset, "%s", bad.What)
	}
	return err
}

// The same programs must be counted at a step on all ways to it.
func (w *walker) enter() error {
	n := &w.nest
	if n.arriving == nil {
		return nil
	}
	to, at := n.arriving[w.step], w.im.offset(w.step)
	w.lands(n.dead)
	switch {
	case w.of != nil && (n.dead || to >= 0):
		return w.fail(at, "a command goes to step %d, in a branch", w.step)
	case n.dead && to < 0:
		return w.fail(at, "no command goes to step %d", w.step)
	case n.dead:
		w.runs, n.dead = to, false
	case to >= 0 && to != w.runs:
		return w.fail(at, "step %d begins after %d programs or %d, by the way there", w.step, to, w.runs)
	}
	return nil
}

func (im *Image) offset(step int) int {
	if step < len(im.Steps) {
		return im.Steps[step].Offset
	}
	last := &im.Steps[step-1]
	return last.Offset + last.Size
}

func (w *walker) arrive(step int) error {
	n := &w.nest
	if was := n.arriving[step]; was >= 0 && was != w.runs {
		return w.fail(w.im.offset(w.step), "it goes to step %d after %d programs, another one after %d", step, w.runs, was)
	}
	n.arriving[step] = w.runs
	w.flies(step)
	return nil
}

func (w *walker) control(e *cq.Entry, s *Step) error {
	n := &w.nest
	w.offsets = [3]uint32{}
	was := s.Control
	if w.of != nil && was.Kind != flow.Divide {
		return w.fail(s.Offset, "step %d, a %v, is in a branch", w.step, was.Kind)
	}
	if w.readTo > 0 && was.Kind != flow.Args {
		return w.fail(s.Offset, "step %d, a %v, comes between arguments and their program", w.step, was.Kind)
	}
	switch was.Kind {
	case flow.Divide:
		return w.divides(s)
	case flow.Reset:
		return w.reset(s)
	case flow.Args:
		return w.readArgs(s)
	case flow.Kernels:
		if w.started || w.notify {
			return w.fail(e.Offset, "a go signal in step %d, which only brings kernels", w.step)
		}
		if was != (flow.Control{Kind: flow.Kernels, Program: was.Program}) {
			return w.fail(s.Offset, "step %d brings kernels, and is a loop or a call as well", w.step)
		}
		return nil
	}
	if e.Offset != s.Offset {
		return w.fail(s.Offset, "step %d is of more commands than one", w.step)
	}
	if c, ok := e.Command.(cq.CallTrace); ok && was.Kind == flow.Call {
		return w.call(s, &c)
	}
	if was == was.Decode(e.Command, n.open, w.im.stepAt) {
		n.open = flow.OpenLoops(n.open, e.Command)
		switch c := e.Command.(type) {
		case cq.LoopBegin:
			return w.loop(s, &c)
		case cq.LoopEnd:
			return w.endLoop(s, &c)
		case cq.Branch:
			return w.branch(s, &c)
		}
	}
	return w.fail(s.Offset, "step %d is a %v to step %d of loop %d, its command is %s", w.step, was.Kind, was.Target, was.Loop,
		e.Command.ID())
}

func (w *walker) reset(s *Step) error {
	im, t := w.im, w.target
	if s.Control != (flow.Control{Kind: flow.Reset}) {
		return w.fail(s.Offset, "step %d is a reset, and goes to step %d", w.step, s.Control.Target)
	}
	have := im.Bytes[s.Offset : s.Offset+s.Size]
	c := t.resetConfig(im.Layout, uint16(w.stream()))
	if cmds, err := flow.AppendStall(nil, c, uint32(w.expected())); err == nil && bytes.Equal(cmds, have) {
		w.flight.landed(w.runs)
		return nil
	}
	for _, c.Packed = range []bool{false, true} {
		for _, stall := range []bool{false, true} {
			if cmds, err := flow.AppendReset(nil, c, uint32(w.expected()), stall); err == nil && bytes.Equal(cmds, have) {
				w.runs, w.flight = 0, flight{}
				return nil
			}
		}
	}
	return w.fail(s.Offset, "step %d isn't what a reset after %d completions is made of", w.step, uint32(w.expected()))
}

func (t *Target) resetConfig(l cq.Layout, stream uint16) flow.ResetConfig {
	return flow.ResetConfig{Layout: l, DispatchX: t.Dispatch.X, DispatchY: t.Dispatch.Y, Workers: uint32(t.Workers.Size()), Stream: stream}
}

// divides checks the step at the beginning or the end of branches.
func (w *walker) divides(s *Step) error {
	have, join := w.im.Bytes[s.Offset:s.Offset+s.Size], w.of != nil
	of, n := map[chip.Core]uint8{}, 0
	for e := range cq.All(w.im.Layout, have) {
		c, _, _ := e.Dispatch()
		p, ok := c.(cq.WritePacked)
		if join || !ok || p.Addr != w.l1.GoIndex {
			continue
		}
		l := lane{sub: uint8(len(w.lanes)), rects: p.Rects}
		for _, r := range p.Rects {
			if err := w.rect(s.Offset, p.ID(), r.NOC, int(r.Dests)); err != nil {
				return err
			}
			x0, y0, x1, y1, _ := w.im.Layout.SplitRect(r.NOC)
			for x, y := range w.reached(x0, y0, x1, y1) {
				core, _ := w.ch.Logical(chip.XY{X: x, Y: y})
				of[core] = l.sub
				l.workers++
			}
		}
		n, w.lanes = n+l.workers, append(w.lanes, l)
	}
	d := flow.Division{ResetConfig: w.target.resetConfig(w.im.Layout, uint16(w.stream())), Go: w.l1.Go, GoIndex: w.l1.GoIndex}
	for _, l := range w.lanes[1:] {
		d.Lanes = append(d.Lanes, flow.Lane{Rects: l.rects, Workers: uint32(l.workers), Expected: uint32(l.runs * l.workers)})
	}
	w.lane = &w.lanes[0]
	for _, d.Packed = range []bool{false, true} {
		cmds, err := d.Append(nil, join)
		if err == nil && bytes.Equal(cmds, have) && s.Control == (flow.Control{Kind: flow.Divide}) && n == len(of) {
			if w.of = of; join {
				w.of, w.lanes = nil, w.lanes[:1]
			}
			w.texts = nil
			return w.clean(s)
		}
	}
	return w.fail(s.Offset, "step %d isn't what divides the workers among branches, or ends that", w.step)
}

func (w *walker) clean(s *Step) error {
	if w.runs != 0 {
		return w.fail(s.Offset, "step %d, a %v, comes after %d programs without a reset between them", w.step, s.Control.Kind, w.runs)
	}
	return nil
}

func (w *walker) loop(s *Step, c *cq.LoopBegin) error {
	n := &w.nest
	if err := w.clean(s); err != nil {
		return err
	}
	for len(n.used) <= int(c.Loop) {
		n.used = append(n.used, false)
	}
	if n.used[c.Loop] {
		return w.fail(s.Offset, "another loop has number %d", c.Loop)
	}
	n.used[c.Loop] = true
	n.shape.loops = max(n.shape.loops, len(n.open))
	if after := n.places[w.step].End; s.Control.Target != after {
		return w.fail(s.Offset, "loop %d exits to step %d, it ends before step %d", c.Loop, s.Control.Target, after)
	}
	w.args = append(w.args, ByteRange{s.Offset + cq.AtLoopCount, s.Offset + cq.AtLoopCount + 4})
	return w.arrive(s.Control.Target)
}

func (w *walker) endLoop(s *Step, c *cq.LoopEnd) error {
	if err := w.clean(s); err != nil {
		return err
	}
	first := w.nest.places[w.step].Loop + 1
	if s.Control.Target != first {
		return w.fail(s.Offset, "loop %d goes back to step %d, its body begins with step %d", c.Loop, s.Control.Target, first)
	}
	if c.Limited != w.nest.places[first].Branch.Limited {
		return w.fail(s.Offset, "loop %d has a condition at its start if and only if its end is limited", c.Loop)
	}
	w.nest.dead = c.Limited
	return nil
}

func (w *walker) branch(s *Step, c *cq.Branch) error {
	n, to := &w.nest, s.Control.Target
	if c.Compare == cq.Never && (c.Level != 0 || c.NOC != 0 || c.Addr != 0 || c.Value != 0 || c.Same) {
		return w.fail(s.Offset, "a branch without a condition has a word to compare")
	}
	if c.Level != 0 && (c.NOC != 0 || c.Addr != 0 || c.Same || int(c.Level) > len(n.open)) {
		return w.fail(s.Offset, "a condition on the iteration of loop %d from the innermost has a word, or there are only %d loops", c.Level,
			len(n.open))
	}
	if c.Compare != cq.Never && c.Level == 0 {
		if err := w.word(s.Offset, c.ID(), c.NOC, c.Addr); err != nil {
			return err
		}
	}
	if c.Leave || c.Limited {
		begin := n.places[w.step].Loop
		if !c.Leave || !c.Limited || begin < 0 || begin != w.step-1 || to != n.places[begin].End || c.Compare == cq.Never || c.Same {
			return w.fail(s.Offset, "a BRANCH that leaves a loop must be its condition, at the start of its body, and go to what follows the loop")
		}
		return w.arrive(to)
	}
	if to <= w.step || n.places[to].Loop != n.places[w.step].Loop {
		return w.fail(s.Offset, "BRANCH from step %d to step %d: want a later one in the same loop", w.step, to)
	}
	err := w.arrive(to)
	n.dead = c.Compare == cq.Never
	return err
}

// The allocator distributes pages of L1 and of sharded buffers: there any word from the buffer's
// address on is accepted.
func (w *walker) word(at int, name fmt.Stringer, noc, addr uint32) error {
	n := &w.nest
	if n.conds == len(w.im.Conds) || w.im.Conds[n.conds].At != at {
		return w.fail(at, "%s reads a word that no condition names", name)
	}
	cond := &w.im.Conds[n.conds]
	n.conds++
	if cond.Buffer < 0 || cond.Buffer >= len(w.buffers) {
		return w.fail(at, "a condition reads buffer %d of %d", cond.Buffer, len(w.buffers))
	}
	b := &w.buffers[cond.Buffer]
	if cond.Offset < 0 || cond.Offset%4 != 0 || cond.Offset > b.Size-4 {
		return w.fail(at, "a condition reads a word at %d of buffer %q, which has %d B", cond.Offset, b.Name, b.Size)
	}
	inside := false
	if b.Kind == KindDRAM {
		page := cond.Offset / b.PageSize
		for i, bank := range w.ch.DRAMBanks() {
			xy, row := bank.Endpoint[chip.NOC0], uint64(page/w.target.Banks)
			if noc != w.im.Layout.NOCXY(xy.X, xy.Y) {
				continue
			}
			if b.Sharding != nil {
				inside = inside || uint64(addr) >= bank.Offset+b.Addr && uint64(addr)+4 <= bank.Offset+bank.Size
			} else if i == page%w.target.Banks {
				inside = inside || uint64(addr) == bank.Offset+b.Addr+row*uint64(b.Stride)+uint64(cond.Offset%b.PageSize)
			}
		}
	} else if x, y, ok := w.im.Layout.SplitXY(noc); ok {
		_, worker := w.ch.Logical(chip.XY{X: x, Y: y})
		inside = worker && uint64(addr) >= b.Addr && uint64(addr)+4 <= uint64(w.ch.Params().L1Size)
	}
	if !inside {
		return w.fail(at, "a condition reads %#x of the tile %#x, where buffer %q doesn't have its word at %d", addr, noc, b.Name, cond.Offset)
	}
	return nil
}

func (w *walker) call(s *Step, c *cq.CallTrace) error {
	n, i := &w.nest, s.Control.Callee
	if s.Control != (flow.Control{Kind: flow.Call, Callee: i}) || i < 0 || i >= len(n.shapes) {
		return w.fail(s.Offset, "step %d calls trace %d, before which there are %d in the file", w.step, i, len(n.shapes))
	}
	if err := w.clean(s); err != nil {
		return err
	}
	callee := &n.callees[i]
	want := callee.Image.Call(uint32(callee.Addr))
	if *c != want {
		return w.fail(s.Offset, "it calls %d pages of 2^%d B at %#x, trace %q has %d of 2^%d B at %#x", c.Pages, c.LogPageSize, c.Base,
			callee.Name, want.Pages, want.LogPageSize, want.Base)
	}
	n.shape.loops = max(n.shape.loops, len(n.open)+n.shapes[i].loops)
	n.shape.calls = max(n.shape.calls, 1+n.shapes[i].calls)
	w.runs, w.flight = callee.Image.Counted(), flight{}
	w.placed(n.shapes[i].texts...)
	if w.runs > 0 {
		w.flight.busy = []memory{{w.runs - 1, w.l1.KernelConfig, w.l1.KernelEnd()}}
	}
	return nil
}

func (w *walker) nested() error {
	n := &w.nest
	switch {
	case n.shape.loops > cq.MaxLoops || n.shape.calls > cq.MaxCalls:
		return invalid("steps", "loops nest %d deep and calls %d deep, %d and %d are possible", n.shape.loops, n.shape.calls, cq.MaxLoops,
			cq.MaxCalls)
	case w.of != nil && w.target.SubDevices == nil:
		return invalid("steps", "branches have no end")
	case n.conds != len(w.im.Conds):
		return invalid("conditions", "%d conditions, the commands have %d", len(w.im.Conds), n.conds)
	case w.im.HasControl() && w.runs != 0:
		return invalid("steps", "the trace ends after %d programs without a reset", w.runs)
	case w.im.HasControl() && slices.ContainsFunc(w.im.Steps, func(s Step) bool { return s.Edge.Kind != EdgeNone }):
		return invalid("steps", "a trace can't have both control flow and edges between its parts")
	}
	return nil
}

func (w *walker) readArgs(s *Step) error {
	if s.Control != (flow.Control{Kind: flow.Args}) {
		return w.fail(s.Offset, "step %d names arguments, and goes to step %d", w.step, s.Control.Target)
	}
	for e := range cq.All(w.im.Layout, w.im.Bytes[s.Offset:s.Offset+s.Size]) {
		relay, _ := e.Command.(cq.RelayInline)
		c, ok := relay.Command.(cq.ReadArg)
		at := s.Offset + e.Offset + cq.AtRelayed
		if !ok || relay.To != cq.Master || c.OffsetIndex != 1 {
			return w.fail(at, "step %d names arguments, its command is %s", w.step, e.Command.ID())
		}
		if err := w.word(at, c.ID(), c.NOC, c.Addr); err != nil {
			return err
		}
		for _, t := range c.Targets {
			if x, y, ok := w.im.Layout.SplitXY(t.NOC); t.Dests == 0 && (!ok || !w.worker(x, y)) {
				return w.fail(at, "READ_ARG to %#x, which is no worker", t.NOC)
			}
			if t.Dests != 0 {
				if err := w.rect(at, c.ID(), t.NOC, int(t.Dests)); err != nil {
					return err
				}
			}
			w.readTo = max(w.readTo, uint32(t.Addr)+4)
		}
	}
	return nil
}
