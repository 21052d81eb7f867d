package tracebuf

import (
	"fmt"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

func (c *Contents) nestSteps(im *Image) {
	places, _ := im.Flow()
	for i := range c.Steps {
		c.Steps[i].Control, c.Steps[i].Depth = im.Steps[i].Control, places[i].Depth
	}
	for i := range im.Steps {
		if s := &im.Steps[i]; s.Control.Kind == flow.Call {
			at := s.Offset + cq.AtCallBase
			c.Relocated = append(c.Relocated, ByteRange{at, at + 4})
		}
	}
	for _, w := range im.Conds {
		at := w.At + cq.AtBranchNOC
		c.Relocated = append(c.Relocated, ByteRange{at, at + 8})
	}
}

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

func (s *StepContents) title(number int) string {
	what := "program"
	switch {
	case s.Control.Kind == flow.Loop:
		return fmt.Sprintf("loop %d %s, at most %d iterations: %d B", number, Printable(s.Name), s.Control.Count, s.Size)
	case s.Control.Kind != flow.None:
		what = s.Control.Kind.String()
	case s.Edge != EdgeNone:
		what = "edge"
	}
	return fmt.Sprintf("%s %d %s: %d B", what, number, Printable(s.Name), s.Size)
}
