package reprise

import (
	"github.com/reprise-tt/reprise/dispatch/postmortem"
)

// flow describes the part, and what it calls, for hang reports.
func (p *part) flow() *postmortem.Trace {
	t := &postmortem.Trace{Name: p.name, Addr: uint32(p.ext.Addr), Image: p.prep.Image, Steps: p.image.Steps,
		Patched: len(p.params.patches.All()) > 0}
	for _, x := range p.programs { // none if the trace is loaded from a file
		t.Cores = append(t.Cores, x.image.Bounds())
	}
	for _, o := range p.called() {
		c := o.prep.Flow
		if c == nil {
			c = o.flow()
		}
		t.Calls = append(t.Calls, c)
	}
	return t
}
