package reprise

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Encoding of control flow. A body's commands are the same in every iteration, so it begins in a state that is the same: all
// programs are done, no completion is counted, and the workers have the kernels that they had when the loop began.

// encode appends the commands of a node.
func (r *Recorder) encode(n *flowNode) error {
	switch n.kind {
	case tracebuf.ControlLoop:
		return r.encodeLoop(n)
	case tracebuf.ControlBranch:
		return r.encodeBranch(n)
	case tracebuf.ControlCall:
		return r.encodeCall(n)
	}
	return r.encodeRun(n)
}

func (r *Recorder) encodeBody(nodes []flowNode) error {
	for i := range nodes {
		if err := r.encode(&nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Recorder) encodeRun(n *flowNode) error {
	x := r.part.programs[n.run.program]
	x.mu.RLock()
	defer x.mu.RUnlock()
	if err := r.encodeReads(n.reads); err != nil {
		return err
	}
	if err := r.encodeAgain(n.name, n.run.program, n.run.commands, n.run.variant, x); err != nil {
		return err
	}
	s := r.lastStep()
	return r.addParams(n.params, s.Offset+x.image.MainOffset(dispatch.Variant(s.Variant)))
}

// encodeAgain appends a run with the arguments of one that was encoded before.
func (r *Recorder) encodeAgain(name string, program int, run []byte, v dispatch.Variant, x *Executable) error {
	var err error
	r.rec.Reserve(x.image.RunBytes())
	r.rec.Add(name, program, func(dst []byte) ([]byte, uint8) {
		var now dispatch.Variant
		dst, now, err = x.image.AppendAgain(dst, run, v, &r.state, r.q.q.Dispatcher(), uint16(r.rec.Len()))
		return dst, uint8(now)
	})
	return err
}

func (r *Recorder) lastStep() *tracebuf.Step {
	steps := r.rec.Steps()
	return &steps[len(steps)-1]
}

// addParams names words whose offsets count from base.
func (r *Recorder) addParams(params []flowParam, base int) error {
	for _, p := range params {
		at := slices.Clone(p.at)
		for i := range at {
			at[i] += base
		}
		if err := r.part.params.add(r.part, r.rec.Bytes(), p.name, p.kind, p.buf, at); err != nil {
			return fmt.Errorf("name parameter %q: %w", p.name, err)
		}
	}
	return nil
}

func (r *Recorder) resetConfig() tracebuf.ResetConfig {
	core := r.q.q.DispatchCore()
	return tracebuf.ResetConfig{
		Layout: cq.Layout(r.d.Arch()), DispatchX: core.X, DispatchY: core.Y, Workers: uint32(r.q.q.Workers().Size()),
		Stream: uint16(r.d.disp.Chip().Params().Stream.FirstDispatch), Packed: r.d.disp.PackedPage() > 0,
	}
}

// reset gets to where all programs are done and nothing is counted. With stall the prefetcher waits for that.
func (r *Recorder) reset(stall bool) error {
	var cmds []byte
	var err error
	switch {
	case !r.state.IsReset():
		cmds, err = tracebuf.AppendReset(nil, r.resetConfig(), uint32(r.state.Expected), stall)
	case stall:
		cmds, err = tracebuf.AppendStall(nil, r.resetConfig(), 0)
	}
	if err != nil {
		return err
	}
	if len(cmds) > 0 {
		r.rec.AddControl("reset", tracebuf.Control{Kind: tracebuf.ControlReset}, cmds)
	}
	r.state = r.state.Reset()
	return nil
}

// stall has the prefetcher wait until all programs are done and their results are in memory.
func (r *Recorder) stall() error {
	cmds, err := tracebuf.AppendStall(nil, r.resetConfig(), uint32(r.state.Expected))
	if err == nil {
		r.rec.AddControl("wait for results", tracebuf.Control{Kind: tracebuf.ControlReset}, cmds)
	}
	return err
}

// command appends one command of the prefetcher as a step, and returns its index.
func (r *Recorder) command(name string, c tracebuf.Control, p cq.PrefetchCommand) (int, error) {
	b := cq.NewBuilder(cq.Layout(r.d.Arch()), nil)
	b.Append(p)
	cmds, err := b.Finish()
	if err != nil {
		return 0, err
	}
	return r.rec.AddControl(name, c, cmds), nil
}

// readWord notes that the next command reads the word of a condition, if it does.
func (r *Recorder) readWord(c *flowCond) {
	if !c.reads() {
		return
	}
	c.word.at = len(r.rec.Bytes())
	r.part.conds = append(r.part.conds, c.word)
}

// next is the index of the next step.
func (r *Recorder) next() int { return r.rec.Len() }

// branch is the command that tests a condition. A nil condition never holds.
func (c *flowCond) branch() cq.Branch {
	if c == nil {
		return cq.Branch{Compare: cq.Never}
	}
	return cq.Branch{Compare: c.is, Level: uint8(c.level), NOC: c.noc, Addr: c.addr, Value: c.value}
}

// reads reports whether the condition reads a word, which programs may have to write first.
func (c *flowCond) reads() bool { return c != nil && c.level == 0 }

func (r *Recorder) encodeLoop(n *flowNode) error {
	if err := r.reset(n.cond.reads()); err != nil {
		return err
	}
	r.keepKernels(n)
	head := r.state
	begin, err := r.command(n.name, tracebuf.Control{Kind: tracebuf.ControlLoop, Loop: n.loop, Count: n.count},
		cq.LoopBegin{Loop: uint16(n.loop), Count: n.count})
	if err != nil {
		return err
	}
	if err := r.addParams(n.params, r.lastStep().Offset); err != nil {
		return err
	}
	first, branch := r.next(), -1
	if n.cond != nil {
		c := n.cond.branch()
		c.Leave, c.Limited = true, true
		r.readWord(n.cond)
		if branch, err = r.command("condition of "+n.name, tracebuf.Control{Kind: tracebuf.ControlBranch, Loop: n.loop}, c); err != nil {
			return err
		}
	}
	if err := r.encodeBody(n.body); err != nil {
		return err
	}
	if err := r.reset(n.cond.reads()); err != nil {
		return err
	}
	end, err := r.command("end of "+n.name, tracebuf.Control{Kind: tracebuf.ControlEnd, Loop: n.loop},
		cq.LoopEnd{Loop: uint16(n.loop), Limited: n.cond != nil})
	if err != nil {
		return err
	}
	r.rec.SetTarget(end, first)
	r.rec.SetTarget(begin, r.next())
	if branch >= 0 {
		r.rec.SetTarget(branch, r.next())
	}
	r.state = head // what every way out of the loop leaves
	return nil
}

// keepKernels brings the kernels of a loop's body to the workers, if they can all be there. Otherwise, every iteration brings
// them again.
func (r *Recorder) keepKernels(n *flowNode) {
	var images []*dispatch.Image
	calls := false
	n.eachInside(func(n *flowNode) {
		if n.run != nil {
			if im := r.part.programs[n.run.program].image; !slices.Contains(images, im) {
				images = append(images, im)
			}
		}
		calls = calls || n.call != nil // which bring kernels of their own
	})
	if calls || !program.FitKernels(r.state, images) {
		r.state = r.state.ResetWithoutKernels()
		return
	}
	for _, im := range images {
		if cmds := im.AppendKernels(nil, &r.state, r.q.q.Dispatcher()); len(cmds) > 0 {
			program := slices.IndexFunc(r.part.programs, func(x *Executable) bool { return x.image == im })
			r.rec.AddControl("kernels of "+im.Name(), tracebuf.Control{Kind: tracebuf.ControlKernels, Program: program}, cmds)
		}
	}
}

// eachInside calls f for everything inside of a node.
func (n *flowNode) eachInside(f func(*flowNode)) {
	visit := func(nodes []flowNode) {
		for i := range nodes {
			f(&nodes[i])
			nodes[i].eachInside(f)
		}
	}
	visit(n.body)
	for i := range n.cases {
		visit(n.cases[i].body)
	}
}

func (r *Recorder) encodeBranch(n *flowNode) error {
	cases := n.cases
	if len(cases) > 0 && cases[0].cond.reads() {
		if err := r.stall(); err != nil {
			return err
		}
	}
	before := r.state
	if k := len(cases); k == 0 || cases[k-1].cond != nil {
		cases = append(slices.Clone(cases), flowCase{})
	}
	var ends []int // jumps to the end
	var after []dispatch.State
	for i, c := range cases {
		r.state = before
		branch := -1
		if c.cond != nil {
			b := c.cond.branch()
			b.Same = i > 0
			var err error
			r.readWord(c.cond)
			if branch, err = r.command(n.name, tracebuf.Control{Kind: tracebuf.ControlBranch}, b); err != nil {
				return err
			}
		}
		if err := r.encodeBody(c.body); err != nil {
			return err
		}
		if err := r.reset(false); err != nil {
			return err
		}
		after = append(after, r.state)
		if branch < 0 {
			continue
		}
		jump, err := r.command("end of a branch", tracebuf.Control{Kind: tracebuf.ControlBranch}, (*flowCond)(nil).branch())
		if err != nil {
			return err
		}
		ends = append(ends, jump)
		r.rec.SetTarget(branch, r.next())
	}
	for _, jump := range ends {
		r.rec.SetTarget(jump, r.next())
	}
	for i := range after {
		if !after[i].SameKernels(&r.state) {
			r.state = r.state.ResetWithoutKernels()
		}
	}
	return nil
}

func (r *Recorder) encodeCall(n *flowNode) error {
	if err := r.reset(false); err != nil {
		return err
	}
	p := n.call
	c := p.q.replayConfig(p.image, p.ext)
	exec := cq.CallTrace{Base: c.Addr, LogPageSize: uint32(bits.TrailingZeros(uint(c.PageSize))), Pages: uint32(c.Pages)}
	if _, err := r.command(n.name, tracebuf.Control{Kind: tracebuf.ControlCall, Callee: slices.Index(r.part.callees, p)}, exec); err != nil {
		return err
	}
	r.state = r.d.disp.After(p.prep.After)
	return nil
}
