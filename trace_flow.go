package reprise

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// flow describes the part, and what it calls, for hang reports.
func (p *part) flow() *dispatch.TraceFlow {
	im, patched := p.image, len(p.params.patches.All()) > 0
	var cores []chip.Range // by program
	for _, x := range p.programs {
		cores = append(cores, x.image.Bounds())
	}
	f := &dispatch.TraceFlow{Name: p.name, Addr: uint32(p.ext.Addr), Image: p.prep.Image,
		Steps: func() []dispatch.TraceStep { return flowSteps(im, cores, patched) }}
	for _, o := range p.called() {
		c := o.prep.Flow
		if c == nil {
			c = o.flow()
		}
		f.Calls = append(f.Calls, c)
	}
	return f
}

// flowSteps are the steps of an image for hang reports. If it is patched, the numbers of iterations may have been changed.
func flowSteps(im *tracebuf.Image, cores []chip.Range, patched bool) []dispatch.TraceStep {
	out := make([]dispatch.TraceStep, len(im.Steps))
	for i := range im.Steps {
		s := &im.Steps[i]
		out[i] = dispatch.TraceStep{Name: s.Name, Offset: s.Offset, Loop: s.Control.Loop, Target: s.Control.Target, Call: s.Control.Callee}
		switch s.Control.Kind {
		case flow.None:
			if s.Program != tracebuf.NoProgram {
				out[i].Kind = dispatch.TraceRun
				if s.Program < len(cores) { // otherwise the trace is loaded from a file
					out[i].Cores = cores[s.Program]
				}
			}
		case flow.Loop:
			out[i].Kind, out[i].Enters = dispatch.TraceLoop, s.Control.Count > 0 && !patched
		case flow.End:
			out[i].Kind = dispatch.TraceLoopEnd
		case flow.Branch:
			out[i].Kind = dispatch.TraceBranch
		case flow.Call:
			out[i].Kind = dispatch.TraceCall
		}
	}
	return out
}
