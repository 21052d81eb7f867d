package reprise

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
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
		out = append(out, cq.ReadArg{OffsetIndex: dispatch.ArgOffset, NOC: a.noc, Addr: a.addr, Targets: some})
	}
	return out
}

// snapshot keeps a run as the program is now: with its present arguments, and with places for those that the device reads. inline
// has all arguments among the run's commands.
func (r *Recorder) snapshot(run *recorded, x *Executable, inline bool) error {
	st, encode := r.d.disp.ReplayState(), x.image.AppendRun
	if inline {
		encode = x.image.AppendInlineRun
	}
	run.commands, run.variant = encode(nil, &st, r.q.q.Dispatcher(), 0)
	if len(run.reads) == 0 {
		return nil
	}
	if !run.variant.Inline() {
		return r.snapshot(run, x, true)
	}
	return x.image.ReadArgs(run.commands, run.variant)
}
