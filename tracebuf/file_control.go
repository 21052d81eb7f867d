package tracebuf

import (
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// controlMark is added to the kind of a step of control flow, in the field where edges have theirs.
const controlMark = 16

// controlNumber is the number that a file has for a step of control flow beside its commands.
func controlNumber(c *flow.Control) uint32 {
	switch c.Kind {
	case flow.Kernels:
		return uint32(c.Program)
	case flow.Call:
		return uint32(c.Callee)
	}
	return 0
}

func (r *reader) withoutProgram(s *Step) {
	kind, queue, number := r.u8(), r.u8(), uint32(r.number(4))
	s.Program = NoProgram
	if kind < controlMark || r.version < controlVersion {
		s.Edge = Edge{Kind: EdgeKind(kind), Queue: int(queue), Number: number}
		return
	}
	s.Control.Kind = flow.Kind(kind - controlMark)
	switch s.Control.Kind {
	case flow.Kernels:
		s.Control.Program = int(number)
	case flow.Call:
		s.Control.Callee = int(number)
	}
	if queue != 0 || number != controlNumber(&s.Control) || s.Control.Kind == flow.None {
		r.fail("step %q has kind %d, queue %d and number %d", s.Name, kind, queue, number)
	}
}

// readControl completes the steps of control flow from their commands, which the walker checks.
func (im *Image) readControl() {
	var open []int // loops
	for i := range im.Steps {
		s := &im.Steps[i]
		switch s.Control.Kind {
		case flow.Loop, flow.End, flow.Branch:
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
		s.Control = s.Control.Decode(c, open, im.stepAt)
		open = flow.OpenLoops(open, c)
	}
}

// stepAt returns the step at an offset, the number of steps for their end, and -1 for other
// offsets.
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
