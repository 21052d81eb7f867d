package reprise

import (
	"slices"

	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// newLoaded returns a part that has no memory yet, of a queue. callees are those that its file numbers.
func newLoaded(q *Queue, name string, im *tracebuf.Image, callees []*part) *part {
	p := &part{q: q, name: name, image: im, loaded: &fileContents{}}
	places, _ := im.Flow() // it was checked
	for i := range im.Steps {
		deep := places[i].Loops
		switch c := &im.Steps[i].Control; c.Kind {
		case flow.Loop:
			p.loops = max(p.loops, deep+1)
		case flow.Call:
			o := callees[c.Callee]
			p.loops, p.depth = max(p.loops, deep+o.loops), max(p.depth, o.depth+1)
			if !slices.Contains(p.callees, o) {
				p.callees, p.kept = append(p.callees, o), append(p.kept, o)
				o.callers++
			}
		}
	}
	return p
}

// relocate changes the commands for where kernels, callees and the words of conditions lie now.
func (l *loading) relocate() error {
	for i, t := range l.parts {
		callees := l.calleesOf(i)
		for k, o := range callees {
			if err := o.allocate(); err != nil {
				return err
			}
			t.image.Callees[k].Addr = o.ext.Addr
		}
	}
	if err := l.f.Relocate(l.here); err != nil {
		return err
	}
	for i, t := range l.parts {
		callees := l.calleesOf(i)
		for _, o := range append(slices.Clone(callees), t) {
			for k := range o.image.Steps {
				if c := &o.image.Steps[k].Control; c.Kind == flow.Call { // of the file's callees, then of its own
					c.Callee = slices.Index(o.callees, callees[c.Callee])
				}
			}
			for k, c := range o.image.Conds {
				b := l.made[c.Buffer]
				noc, addr, err := b.word(c.Offset)
				if err != nil {
					return err
				}
				o.image.SetCond(k, noc, addr)
				o.conds = append(o.conds, condWord{at: c.At, buf: b, off: c.Offset})
			}
		}
		t.image.Callees = nil
	}
	return nil
}

// calleesOf returns the parts that one of l.parts calls, as its file numbers them.
func (l *loading) calleesOf(i int) []*part {
	end := slices.Index(l.every, l.parts[i])
	return l.every[end-len(l.parts[i].image.Callees) : end]
}
