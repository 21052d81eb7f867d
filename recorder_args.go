package reprise

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/tracebuf"
)

// argRead is a word that becomes arguments of a run.
type argRead struct {
	buf     *Buffer
	offset  int
	word    condWord
	noc     uint32
	addr    uint32
	targets []cq.ArgTarget
}

// readsLocked returns what the device reads for arguments of a run, each word once, and makes the part hold the buffers.
func (r *Recorder) readsLocked(x *Executable, args []Arg) ([]argRead, error) {
	if len(args) == 0 {
		return nil, nil
	}
	if err := cmp.Or(r.q.q.DeviceArgs(), r.flowAllowed()); err != nil {
		return nil, err
	}
	var out []argRead
	for i := range args {
		a := &args[i]
		if a.From == nil {
			return nil, fmt.Errorf("argument %d of kernel %q: From names no buffer to read it from", a.Index, a.Kernel)
		}
		at := slices.IndexFunc(out, func(o argRead) bool { return o.buf == a.From && o.offset == a.Offset })
		if at < 0 {
			noc, addr, word, err := r.wordLocked(a.From, a.Offset)
			if err != nil {
				return nil, err
			}
			at, out = len(out), append(out, argRead{buf: a.From, offset: a.Offset, word: word, noc: noc, addr: addr})
		}
		var err error
		if to := &out[at].targets; a.Common {
			*to, err = x.image.CommonArgTargets(*to, a.Kernel, a.Index)
		} else {
			*to, err = x.image.UniqueArgTargets(*to, a.Kernel, a.Index, a.on)
		}
		if err != nil {
			return nil, err
		}
	}
	n, bytes := 0, 0
	for _, a := range out {
		for _, c := range a.commands() {
			n, bytes = n+1, bytes+c.Size()
		}
	}
	if n > cq.MaxReadArgs || bytes > cq.MaxReadArgBytes {
		return nil, fmt.Errorf("the device would read %d words for arguments, with %d B of commands: at most %d with %d B are possible", n,
			bytes, cq.MaxReadArgs, cq.MaxReadArgBytes)
	}
	return out, nil
}

// commands are as many as the targets need.
func (a *argRead) commands() []cq.ReadArg {
	var out []cq.ReadArg
	for some := range slices.Chunk(a.targets, cq.MaxArgTargets) {
		out = append(out, cq.ReadArg{OffsetIndex: program.ArgOffset, NOC: a.noc, Addr: a.addr, Targets: some})
	}
	return out
}

// encodeRunWithReads encodes a run with the program's present arguments, and with places for those that the device reads.
func (r *Recorder) encodeRunWithReads(x *Executable) ([]byte, dispatch.Variant, error) {
	st := r.d.disp.ReplayState()
	run, v := x.image.AppendRun(nil, &st, r.q.q.Dispatcher(), 0)
	if !v.Inline() {
		st = r.d.disp.ReplayState()
		run, v = x.image.AppendInlineRun(nil, &st, r.q.q.Dispatcher(), 0)
	}
	return run, v, x.image.ReadArgs(run, v)
}

// recordRunWithReadsLocked records a run of the program i outside of control flow, and what the device reads for its arguments.
func (r *Recorder) recordRunWithReadsLocked(x *Executable, i int, reads []argRead) error {
	r.rec.Own()
	r.flow.used = true
	run, v, err := r.encodeRunWithReads(x)
	if err == nil {
		err = r.encodeReads(reads)
	}
	if err == nil {
		err = r.encodeAgain(x.Name(), i, run, v, x)
	}
	return err
}

// encodeReads appends the commands for arguments of the run that is encoded next.
func (r *Recorder) encodeReads(reads []argRead) error {
	for i := range reads {
		a := &reads[i]
		b := cq.NewBuilder(cq.Layout(r.d.Arch()), nil)
		for _, c := range a.commands() {
			a.word.at = len(r.rec.Bytes()) + b.ReadArg(c)
			r.part.conds = append(r.part.conds, a.word)
		}
		cmds, err := b.Finish()
		if err != nil {
			return err
		}
		r.rec.AddControl(fmt.Sprintf("argument from %s[%d]", a.buf.name, a.offset), tracebuf.Control{Kind: tracebuf.ControlArgs}, cmds)
	}
	return nil
}
