package tracebuf

import (
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// controlMark is added to the kind of a step of control flow where other steps without a program have that of their edge.
const controlMark = 16

// number is what a file has of a step of control flow beside its commands.
func (c *Control) number() uint32 {
	switch c.Kind {
	case ControlKernels:
		return uint32(c.Program)
	case ControlCall:
		return uint32(c.Callee)
	}
	return 0
}

// withoutProgram takes what a step does that runs no program.
func (r *reader) withoutProgram(s *Step) {
	kind, queue, number := r.u8(), r.u8(), uint32(r.number(4))
	s.Program = NoProgram
	if kind < controlMark || r.version < controlVersion {
		s.Edge = Edge{Kind: EdgeKind(kind), Queue: int(queue), Number: number}
		return
	}
	s.Control.Kind = ControlKind(kind - controlMark)
	switch s.Control.Kind {
	case ControlKernels:
		s.Control.Program = int(number)
	case ControlCall:
		s.Control.Callee = int(number)
	}
	if queue != 0 || number != s.Control.number() || s.Control.Kind == ControlNone {
		r.fail("step %q has kind %d, queue %d and number %d", s.Name, kind, queue, number)
	}
}

// readControl completes the steps of control flow by what is in their commands, which the walker compares again.
func (im *Image) readControl() {
	var open []int // loops
	for i := range im.Steps {
		s := &im.Steps[i]
		switch s.Control.Kind {
		case ControlLoop, ControlEnd, ControlBranch:
		default:
			continue
		}
		if end := s.Offset + s.Size; s.Offset < 0 || s.Size < 0 || end > len(im.Bytes) {
			return
		}
		c, _, err := cq.Decode(im.Layout, im.Bytes[s.Offset:s.Offset+s.Size])
		if err != nil {
			continue
		}
		s.Control = im.controlOf(s.Control, c, open)
		open = openLoops(open, c)
	}
}

// openLoops returns the numbers of the loops that are open after a command, innermost last.
func openLoops(open []int, c cq.PrefetchCommand) []int {
	switch c := c.(type) {
	case cq.LoopBegin:
		return append(open, int(c.Loop))
	case cq.LoopEnd:
		return open[:max(0, len(open)-1)]
	}
	return open
}

// controlOf returns what a command does to the control flow inside of open loops. For other commands it is was.
func (im *Image) controlOf(was Control, c cq.PrefetchCommand, open []int) Control {
	switch c := c.(type) {
	case cq.LoopBegin:
		return Control{Kind: ControlLoop, Loop: int(c.Loop), Count: c.Count, Target: im.stepAt(c.Exit)}
	case cq.LoopEnd:
		return Control{Kind: ControlEnd, Loop: int(c.Loop), Target: im.stepAt(c.Body)}
	case cq.Branch:
		to := Control{Kind: ControlBranch, Target: im.stepAt(c.Else)}
		if n := len(open); n > 0 && c.Leave {
			to.Loop = open[n-1]
		}
		return to
	}
	return was
}

// stepAt returns the step that begins at an offset, the number of steps for their end, and -1 if none begins there.
func (im *Image) stepAt(at uint32) int {
	i, found := slices.BinarySearchFunc(im.Steps, int(at), func(s Step, at int) int { return s.Offset - at })
	if n := len(im.Steps); !found && (n == 0 || im.Steps[n-1].Offset+im.Steps[n-1].Size != int(at)) {
		return -1
	}
	return i
}

func (im *Image) encodeConds() []byte {
	b := le.AppendUint32(nil, uint32(len(im.Conds)))
	for _, c := range im.Conds {
		b = le.AppendUint64(le.AppendUint32(le.AppendUint32(b, uint32(c.At)), uint32(c.Buffer)), uint64(c.Offset))
	}
	return b
}

func (im *Image) conds(r *reader) {
	n := r.count(16)
	im.Conds = slices.Grow(im.Conds, n)
	for range n {
		im.Conds = append(im.Conds, Cond{At: r.u32(), Buffer: r.u32(), Offset: r.size()})
	}
}
