package tracebuf

import (
	"fmt"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// nestSteps finds how deep the steps of an image lie in loops and branches.
func (c *Contents) nestSteps(im *Image) {
	depth := make([]int, len(im.Steps)+1)
	within := func(from, to int) {
		for i := from; i < min(to, len(im.Steps)); i++ {
			depth[i]++
		}
	}
	branch := func(i int) (cq.Branch, bool) {
		if i >= len(im.Steps) || im.Steps[i].Control.Kind != ControlBranch {
			return cq.Branch{}, false
		}
		s := &im.Steps[i]
		p, _, _ := cq.Decode(im.Layout, im.Bytes[s.Offset:s.Offset+s.Size])
		b, ok := p.(cq.Branch)
		return b, ok
	}
	for i := range im.Steps {
		switch s := &im.Steps[i].Control; s.Kind {
		case ControlLoop:
			within(i+1, s.Target-1) // its end is as deep as its begin
		case ControlBranch:
			b, _ := branch(i)
			next, ok := branch(i + 1)
			switch {
			case b.Leave:
			case b.Compare != cq.Never:
				within(i+1, s.Target)
			default:
				if depth[i]--; !ok || !next.Same { // otherwise, it is followed by another case
					within(i+1, s.Target)
				}
			}
		}
	}
	for i := range c.Steps {
		c.Steps[i].Control, c.Steps[i].Depth = im.Steps[i].Control, max(0, depth[i])
	}
	for i := range im.Steps {
		if s := &im.Steps[i]; s.Control.Kind == ControlCall {
			at := s.Offset + cq.AtCallBase
			c.Relocated = append(c.Relocated, ByteRange{at, at + 4})
		}
	}
	for _, w := range im.Conds {
		at := w.At + cq.AtBranchNOC // where a READ_ARG has them too
		c.Relocated = append(c.Relocated, ByteRange{at, at + 8})
	}
}

// inspectCallees reads what a part calls.
func (c *Contents) inspectCallees(im *Image) error {
	for i := range im.Callees {
		o, err := Inspect(&im.Callees[i].Image)
		if err != nil {
			return err
		}
		o.Name = im.Callees[i].Name
		c.Callees = append(c.Callees, o)
	}
	return nil
}

// title is what is printed above the commands of a step.
func (s *StepContents) title(number int) string {
	what := "program"
	switch {
	case s.Control.Kind == ControlLoop:
		return fmt.Sprintf("loop %d %s, at most %d iterations: %d B", number, Printable(s.Name), s.Control.Count, s.Size)
	case s.Control.Kind != ControlNone:
		what = s.Control.Kind.String()
	case s.Edge != EdgeNone:
		what = "edge"
	}
	return fmt.Sprintf("%s %d %s: %d B", what, number, Printable(s.Name), s.Size)
}
