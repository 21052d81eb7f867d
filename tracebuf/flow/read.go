package flow

import (
	"fmt"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Decode returns the effect of a command on the control flow; c for other commands. open are the
// numbers of the open loops. stepAt returns the step at an offset.
func (c Control) Decode(p cq.PrefetchCommand, open []int, stepAt func(off uint32) int) Control {
	switch p := p.(type) {
	case cq.LoopBegin:
		return Control{Kind: Loop, Loop: int(p.Loop), Count: p.Count, Target: stepAt(p.Exit)}
	case cq.LoopEnd:
		return Control{Kind: End, Loop: int(p.Loop), Target: stepAt(p.Body)}
	case cq.Branch:
		to := Control{Kind: Branch, Target: stepAt(p.Else)}
		if n := len(open); n > 0 && p.Leave {
			to.Loop = open[n-1]
		}
		return to
	}
	return c
}

// OpenLoops returns the numbers of the loops that are open after a command, innermost last.
func OpenLoops(open []int, p cq.PrefetchCommand) []int {
	switch p := p.(type) {
	case cq.LoopBegin:
		return append(open, int(p.Loop))
	case cq.LoopEnd:
		return open[:max(0, len(open)-1)]
	}
	return open
}

// Place is a step's place in the control flow.
type Place struct {
	Branch cq.Branch // zero if it can't be decoded
	Depth  int
	Loops  int // loops around it
	Loop   int // step that begins the innermost loop; -1 without one
	// End is the step after the loop, the branch with all its bodies, or the call that begins here;
	// 0 for other steps, such as jumps, further cases of a branch and conditions of loops.
	End int
}

// NestError: the loop of a step has no beginning or no end.
type NestError struct {
	Step int
	What string
}

func (e *NestError) Error() string { return e.What }

// Next returns the steps that may follow step i. skipped says that a loop may have no iterations
// although its Count isn't 0.
func (c *Control) Next(i int, p *Place, skipped bool) []int {
	switch {
	case c.Kind == Branch && p.Branch.Compare == cq.Never:
		return []int{c.Target}
	case c.Kind == Loop && (c.Count == 0 || skipped), c.Kind == End, c.Kind == Branch:
		return []int{i + 1, c.Target}
	}
	return []int{i + 1}
}

// Read finds the loops and branches of n steps. step returns a step's Control and its commands. The
// last place is the end of the trace. With a [*NestError] the places are those of what nests.
//
// Without commands every Branch counts as the condition of a body up to its Target. Then only the
// loops of the places, and whether a Depth is 0, are right.
func Read(l cq.Layout, n int, step func(i int) (*Control, []byte)) (places []Place, err error) {
	places = make([]Place, n+1)
	controls := make([]*Control, n)
	within := func(from, to int) {
		for i := max(0, from); i < min(to, n); i++ {
			places[i].Depth++
		}
	}
	for i := range n {
		c, commands := step(i)
		if controls[i] = c; c.Kind == Branch {
			p, _, _ := cq.Decode(l, commands)
			places[i].Branch, _ = p.(cq.Branch)
		}
	}
	var open []int
	for i := range n + 1 {
		p := &places[i]
		p.Loops, p.Loop = len(open), -1
		if len(open) > 0 {
			p.Loop = open[len(open)-1]
		}
		if i == n {
			break
		}
		switch c := controls[i]; c.Kind {
		case Loop:
			open = append(open, i)
			within(i+1, c.Target-1)
		case End:
			if len(open) == 0 {
				err = &NestError{i, fmt.Sprintf("step %d ends a loop, and none is open", i)}
				continue
			}
			places[p.Loop].End = i + 1
			open = open[:len(open)-1]
		case Branch:
			switch b := &p.Branch; {
			case b.Leave:
			case b.Compare == cq.Never:
				if p.Depth--; !places[i+1].Branch.Same {
					within(i+1, c.Target)
				}
			default:
				within(i+1, c.Target)
				if !b.Same {
					p.End = branchEnd(controls, i)
				}
			}
		case Call:
			p.End = i + 1
		}
		p.Depth = max(0, p.Depth)
	}
	if len(open) > 0 && err == nil {
		last := open[len(open)-1]
		err = &NestError{last, fmt.Sprintf("the loop that step %d begins has no end", last)}
	}
	return places, err
}

// branchEnd: a branch's own branches jump to its end, and those in loops don't leave these.
func branchEnd(controls []*Control, step int) int {
	end := controls[step].Target
	for i := step; i < min(end, len(controls)); i++ {
		if k := controls[i].Kind; k == Branch || k == Loop {
			end = max(end, controls[i].Target)
		}
	}
	return end
}
