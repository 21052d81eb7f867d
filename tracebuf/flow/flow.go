// Package flow is the control flow of traces. It has the tree that a recorder builds ([Node]), its
// commands ([Encode]), and their one reader ([Read]), which file checks, listings, debuggers,
// timelines and hang reports use.
//
// The commands of a loop's body are the same in every iteration, so a body begins in a state that
// is the same each time: all programs are done, no completion is counted, and the workers have the
// kernels that they had when the loop began.
package flow

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Kind is what a step of control flow does.
type Kind uint8

const (
	// None is the kind of a step that runs a program, or is an edge.
	None Kind = iota
	// Reset waits for all programs, resets the workers' launch pointers and clears the completion
	// count, as a replay does before the trace.
	Reset
	// Kernels brings the kernels of a loop's body to the workers.
	Kernels
	// Loop begins a loop: Target is the step after it.
	Loop
	// End ends an iteration: Target is the first step of the body.
	End
	// Branch goes to the step Target unless a condition holds.
	Branch
	// Call runs another trace.
	Call
	// Args names words of memory as arguments of the program in the next step.
	Args
	// Divide gives the workers to branches that run at once, and the next Divide takes them back.
	Divide
)

var kindNames = [...]string{"none", "reset", "kernels", "loop", "end of loop", "branch", "call", "arguments", "divide"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("control(%d)", uint8(k))
}

// Control is what a step does to the control flow; zero for steps that run programs.
type Control struct {
	Kind    Kind
	Loop    int    // of a Loop, its End and its conditions
	Target  int    // step that a Loop, an End or a Branch goes to; the number of steps for the end
	Count   uint32 // of a Loop, as recorded
	Program int    // in Image.Programs
	Callee  int    // in the Callees
}

// Jumps reports whether the step may go on at Target.
func (c *Control) Jumps() bool { return c.Kind == Loop || c.Kind == End || c.Kind == Branch }

// ResetConfig is what the commands of a reset depend on.
type ResetConfig struct {
	Layout    cq.Layout
	DispatchX uint8 // virtual coordinates of the dispatch core
	DispatchY uint8
	Workers   uint32
	Stream    uint16 // that counts completions of sub-device 0
	Sub       uint8
	Packed    bool // commands may share relays and pages
}

// Begin appends commands that have every worker reset its launch pointer once so many completions
// are counted, wait for the workers and clear the count. With stall the prefetcher goes on only
// then, with all results in memory. It returns the offsets of the 32-bit counts of the go signal
// and the wait. Source: tt-metal trace/dispatch.cpp.
func (c *ResetConfig) Begin(b *cq.Builder, expected uint32, stall bool) (goCount, waitCount int) {
	stream := c.Stream + uint16(c.Sub)
	signal := cq.SendGoSignal{
		Go: cq.NewGoWord(c.Sub, c.DispatchX, c.DispatchY, cq.SignalReplayTrace), Multicast: c.Sub, WaitCount: expected,
		WaitStream: uint32(stream),
	}
	if c.Packed {
		b.BeginSequence()
		goCount = cq.AtForwarded + b.ForwardSubordinateGo(false, signal)
	} else {
		b.NotifySubordinate(cq.NotifySubordinate{Mask: 1 << c.Sub})
		goCount = b.SendGoSignal(cq.Subordinate, signal)
	}
	w := cq.Wait{Flags: cq.WaitStream | cq.ClearStream, Stream: stream, Count: expected + c.Workers}
	if stall {
		w.Flags |= cq.WaitBarrier | cq.NotifyFetch
	}
	waitCount = b.Wait(cq.Master, w)
	if c.Packed {
		b.EndSequence()
	}
	if stall {
		b.Stall()
	}
	return goCount + cq.AtGoWaitCount, waitCount + cq.AtWaitCount
}

// AppendReset appends the commands of a Reset.
func AppendReset(dst []byte, c ResetConfig, expected uint32, stall bool) ([]byte, error) {
	b := cq.NewBuilder(c.Layout, dst)
	c.Begin(&b, expected, stall)
	return b.Finish()
}

// AppendStall appends commands after which the prefetcher goes on only when expected completions
// are counted and all results are in memory.
func AppendStall(dst []byte, c ResetConfig, expected uint32) ([]byte, error) {
	b := cq.NewBuilder(c.Layout, dst)
	b.WaitStall(cq.Wait{Flags: cq.WaitStream, Stream: c.Stream, Count: expected})
	return b.Finish()
}

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

// Node is a recorded run of a program, a loop, a branch or a call. R is the recorder's own data.
type Node[R any] struct {
	Kind  Kind
	Name  string
	Loop  int       // number
	Count uint32    // iterations, or the most
	Cond  *Cond     // of a loop, or nil
	Cases []Case[R] // the last one may have no condition
	Body  []Node[R] // of a loop
	Rec   R
}

// Case is a body of a branch.
type Case[R any] struct {
	Cond *Cond // nil: otherwise
	Lane Lane  // of a Divide
	Body []Node[R]
}

// Cond compares a word in memory, or the number of an iteration, with a value.
type Cond struct {
	Level     int    // 1 for the innermost; 0 for a word
	NOC, Addr uint32 // of the word
	Is        cq.Compare
	Value     uint32
	Word      int
}

// reads reports whether the condition reads a word, which programs may have to write first.
func (c *Cond) reads() bool { return c != nil && c.Level == 0 }

func (c *Cond) branch() cq.Branch {
	return cq.Branch{Compare: c.Is, Level: uint8(c.Level), NOC: c.NOC, Addr: c.Addr, Value: c.Value}
}

// Inside calls f for all nodes inside of a node.
func (n *Node[R]) Inside(f func(*Node[R])) {
	visit := func(nodes []Node[R]) {
		for i := range nodes {
			f(&nodes[i])
			nodes[i].Inside(f)
		}
	}
	visit(n.Body)
	for i := range n.Cases {
		visit(n.Cases[i].Body)
	}
}

// Target receives the steps of encoded nodes. S is the state of its queue after them.
type Target[R, S any] interface {
	Leaf(n *Node[R]) error
	// Reset waits for all programs, and with stall so does the prefetcher.
	Reset(stall bool) error
	// Stall has the prefetcher wait until all programs are done and their results are in memory.
	Stall() error
	Kernels(n *Node[R])
	// Begun is called after the first step of a loop.
	Begun(n *Node[R]) error
	// Divide appends the step at the beginning of branches, or with join at their end.
	Divide(name string, lanes []Lane, join bool) error
	// SetLane has the next leaf run on a branch's workers.
	SetLane(sub uint8, workers uint32)
	// Command appends a step of one command and returns its number. reads is the condition whose
	// word the command reads, or nil.
	Command(name string, c Control, p cq.PrefetchCommand, reads *Cond) (int, error)
	Next() int
	SetTarget(step, target int)

	State() S
	SetState(S)
	// Join keeps what the present state and another one have in common.
	Join(S)
}

// Encode appends the steps of a node.
func Encode[R, S any](to Target[R, S], n *Node[R]) error {
	switch n.Kind {
	case Loop:
		return encodeLoop(to, n)
	case Branch:
		return encodeBranch(to, n)
	case Divide:
		return encodeParallel(to, n)
	}
	return to.Leaf(n)
}

func encodeBody[R, S any](to Target[R, S], nodes []Node[R]) error {
	for i := range nodes {
		if err := Encode(to, &nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

func encodeLoop[R, S any](to Target[R, S], n *Node[R]) error {
	stall := n.Cond.reads()
	if err := to.Reset(stall); err != nil {
		return err
	}
	to.Kernels(n)
	head := to.State()
	begin, err := to.Command(n.Name, Control{Kind: Loop, Loop: n.Loop, Count: n.Count},
		cq.LoopBegin{Loop: uint16(n.Loop), Count: n.Count}, nil)
	if err == nil {
		err = to.Begun(n)
	}
	if err != nil {
		return err
	}
	leaves := []int{begin}
	if n.Cond != nil {
		c := n.Cond.branch()
		c.Leave, c.Limited = true, true
		branch, err := to.Command("condition of "+n.Name, Control{Kind: Branch, Loop: n.Loop}, c, n.Cond)
		if err != nil {
			return err
		}
		leaves = append(leaves, branch)
	}
	if err := encodeBody(to, n.Body); err != nil {
		return err
	}
	if err := to.Reset(stall); err != nil {
		return err
	}
	end, err := to.Command("end of "+n.Name, Control{Kind: End, Loop: n.Loop},
		cq.LoopEnd{Loop: uint16(n.Loop), Limited: n.Cond != nil}, nil)
	if err != nil {
		return err
	}
	to.SetTarget(end, begin+1)
	for _, step := range leaves {
		to.SetTarget(step, to.Next())
	}
	to.SetState(head)
	return nil
}

func encodeBranch[R, S any](to Target[R, S], n *Node[R]) error {
	cases := n.Cases
	if len(cases) > 0 && cases[0].Cond.reads() {
		if err := to.Stall(); err != nil {
			return err
		}
	}
	if k := len(cases); k == 0 || cases[k-1].Cond != nil {
		cases = append(slices.Clip(cases), Case[R]{})
	}
	before := to.State()
	var jumps []int // to the end
	var after []S
	for i, c := range cases {
		to.SetState(before)
		branch := -1
		if c.Cond != nil {
			b := c.Cond.branch()
			b.Same = i > 0
			var err error
			if branch, err = to.Command(n.Name, Control{Kind: Branch}, b, c.Cond); err != nil {
				return err
			}
		}
		if err := encodeBody(to, c.Body); err != nil {
			return err
		}
		if err := to.Reset(false); err != nil {
			return err
		}
		if branch < 0 {
			continue // the last one
		}
		after = append(after, to.State())
		jump, err := to.Command("end of a branch", Control{Kind: Branch}, cq.Branch{Compare: cq.Never}, nil)
		if err != nil {
			return err
		}
		jumps = append(jumps, jump)
		to.SetTarget(branch, to.Next())
	}
	for i, jump := range jumps {
		to.SetTarget(jump, to.Next())
		to.Join(after[i])
	}
	return nil
}
