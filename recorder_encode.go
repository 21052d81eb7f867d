package reprise

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// encoder appends nodes to a Recorder's recording. It implements flow.Target.
type encoder struct{ *Recorder }

func (e encoder) State() dispatch.State     { return e.state }
func (e encoder) SetState(s dispatch.State) { e.state = s }
func (e encoder) Next() int                 { return e.rec.Len() }
func (e encoder) SetTarget(step, to int)    { e.rec.SetTarget(step, to) }

func (e encoder) Join(s dispatch.State) {
	if !s.SameKernels(&e.state) {
		e.state = e.state.ResetWithoutKernels()
	}
}

// Leaf appends a run or a call.
func (e encoder) Leaf(n *node) error {
	if n.Kind == flow.Call {
		return e.call(n)
	}
	x := e.part.programs[n.Rec.program]
	x.mu.RLock()
	defer x.mu.RUnlock()
	return e.runLocked(n, x)
}

// runLocked appends a run with the arguments that it was recorded with, and before it what the device reads for others.
func (e encoder) runLocked(n *node, x *Executable) error {
	if err := e.reads(n.Rec.reads); err != nil {
		return err
	}
	var err error
	e.rec.Reserve(x.image.RunBytes())
	e.rec.Add(n.Name, n.Rec.program, func(dst []byte) ([]byte, uint8) {
		run := &n.Rec
		dst, run.variant, err = x.image.AppendAgain(dst, run.commands, run.variant, &e.state, e.q.q.Dispatcher(), uint16(e.rec.Len()))
		return dst, uint8(run.variant)
	})
	if err != nil {
		return err
	}
	return e.addParams(n.Rec.params, e.lastStep().Offset+x.image.MainOffset(n.Rec.variant))
}

// Begun names the count of a loop.
func (e encoder) Begun(n *node) error { return e.addParams(n.Rec.params, e.lastStep().Offset) }

// addParams names words whose offsets count from base.
func (e encoder) addParams(params []argParam, base int) error {
	for _, p := range params {
		if err := e.addParam(&p, base); err != nil {
			return fmt.Errorf("name parameter %q: %w", p.name, err)
		}
	}
	return nil
}

// reads appends the commands for arguments of the run that is appended next.
func (e encoder) reads(reads []argRead) error {
	for i := range reads {
		a := &reads[i]
		b := cq.NewBuilder(cq.Layout(e.d.Arch()), nil)
		for _, c := range a.commands() {
			a.word.at = len(e.rec.Bytes()) + b.ReadArg(c)
			e.part.conds = append(e.part.conds, a.word)
		}
		cmds, err := b.Finish()
		if err != nil {
			return err
		}
		e.rec.AddControl(fmt.Sprintf("argument from %s[%d]", a.buf.name, a.offset), flow.Control{Kind: flow.Args}, cmds)
	}
	return nil
}

// Reset implements flow.Target. With stall the prefetcher waits for it.
func (e encoder) Reset(stall bool) error {
	if !e.state.IsReset() {
		cmds, err := flow.AppendReset(nil, e.resetConfig(), uint32(e.state.Expected), stall)
		if err != nil {
			return err
		}
		e.rec.AddControl("reset", flow.Control{Kind: flow.Reset}, cmds)
	} else if stall {
		if err := e.stall("reset", 0); err != nil {
			return err
		}
	}
	e.state = e.state.Reset()
	return nil
}

// Stall implements flow.Target.
func (e encoder) Stall() error { return e.stall("wait for results", uint32(e.state.Expected)) }

func (e encoder) stall(name string, expected uint32) error {
	cmds, err := flow.AppendStall(nil, e.resetConfig(), expected)
	if err == nil {
		e.rec.AddControl(name, flow.Control{Kind: flow.Reset}, cmds)
	}
	return err
}

func (e encoder) resetConfig() flow.ResetConfig {
	core := e.q.q.DispatchCore()
	return flow.ResetConfig{
		Layout: cq.Layout(e.d.Arch()), DispatchX: core.X, DispatchY: core.Y, Workers: uint32(e.q.q.Workers().Size()),
		Stream: uint16(e.d.disp.Chip().Params().Stream.FirstDispatch), Packed: e.d.disp.PackedPage() > 0,
	}
}

// Command implements flow.Target.
func (e encoder) Command(name string, c flow.Control, p cq.PrefetchCommand, reads *flow.Cond) (int, error) {
	if reads != nil && reads.Level == 0 {
		word := e.control.words[reads.Word]
		word.at = len(e.rec.Bytes())
		e.part.conds = append(e.part.conds, word)
	}
	b := cq.NewBuilder(cq.Layout(e.d.Arch()), nil)
	b.Append(p)
	cmds, err := b.Finish()
	if err != nil {
		return 0, err
	}
	return e.rec.AddControl(name, c, cmds), nil
}

// Kernels implements flow.Target. Kernels that don't all have room are brought again in every iteration.
func (e encoder) Kernels(n *node) {
	var images []*dispatch.Image
	calls := false
	n.Inside(func(n *node) {
		calls = calls || n.Kind == flow.Call // which bring kernels of their own
		if n.Kind == flow.None {
			if im := e.part.programs[n.Rec.program].image; !slices.Contains(images, im) {
				images = append(images, im)
			}
		}
	})
	if calls || !dispatch.FitKernels(e.state, images) {
		e.state = e.state.ResetWithoutKernels()
		return
	}
	for _, im := range images {
		if cmds := im.AppendKernels(nil, &e.state, e.q.q.Dispatcher()); len(cmds) > 0 {
			program := slices.IndexFunc(e.part.programs, func(x *Executable) bool { return x.image == im })
			e.rec.AddControl("kernels of "+im.Name(), flow.Control{Kind: flow.Kernels, Program: program}, cmds)
		}
	}
}

func (e encoder) call(n *node) error {
	if err := e.Reset(false); err != nil {
		return err
	}
	p := n.Rec.call
	c := p.q.replayConfig(p.image, p.ext)
	exec := cq.CallTrace{Base: c.Addr, LogPageSize: uint32(bits.TrailingZeros(uint(c.PageSize))), Pages: uint32(c.Pages)}
	if _, err := e.Command(n.Name, flow.Control{Kind: flow.Call, Callee: slices.Index(e.part.callees, p)}, exec, nil); err != nil {
		return err
	}
	e.state = e.d.disp.After(p.prep.After)
	return nil
}
