package flow

import (
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

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
