package flow_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

type steps struct {
	t        *rapid.T
	controls []flow.Control
	at       []int // where each step begins
	cmds     []byte
	counted  int
	depths   []int // of loops and branches around each run
	runs     []int // steps that are runs
}

type node = flow.Node[int] // its depth

func (s *steps) add(c flow.Control, encode func(b *cq.Builder)) int {
	b := cq.NewBuilder(cq.Blackhole, s.cmds)
	encode(&b)
	s.at, s.controls = append(s.at, len(s.cmds)), append(s.controls, c)
	var err error
	if s.cmds, err = b.Finish(); err != nil {
		s.t.Fatal(err)
	}
	return len(s.controls) - 1
}

func (s *steps) Leaf(n *node) error {
	s.counted++
	s.depths = append(s.depths, n.Rec)
	s.runs = append(s.runs, s.add(flow.Control{}, func(b *cq.Builder) { b.Wait(cq.Master, cq.Wait{Flags: cq.WaitBarrier}) }))
	return nil
}

func (s *steps) Reset(bool) error {
	s.counted = 0
	s.add(flow.Control{Kind: flow.Reset}, func(b *cq.Builder) { b.Wait(cq.Master, cq.Wait{Flags: cq.WaitBarrier}) })
	return nil
}

func (s *steps) Stall() error { return nil }

func (s *steps) Kernels(*node) {}

func (s *steps) SetLane(uint8, uint32) {}

func (s *steps) Divide(string, []flow.Lane, bool) error { return s.Reset(false) }

func (s *steps) Begun(*node) error { return nil }

func (s *steps) Command(_ string, c flow.Control, p cq.PrefetchCommand, _ *flow.Cond) (int, error) {
	return s.add(c, func(b *cq.Builder) { b.Append(p) }), nil
}

func (s *steps) Next() int { return len(s.controls) }

func (s *steps) SetTarget(step, target int) {
	to := len(s.cmds)
	if target < len(s.at) {
		to = s.at[target]
	}
	s.controls[step].Target = target
	cq.Put32(s.cmds, s.at[step]+4, uint32(to))
}

func (s *steps) State() int { return s.counted }

func (s *steps) SetState(n int) { s.counted = n }

func (s *steps) Join(n int) {
	expect.Equal(s.t, n, s.counted, "programs that are counted where bodies meet")
}

func tree(t *rapid.T, depth int, loops *int) []node {
	var out []node
	for range rapid.IntRange(0, 3).Draw(t, "nodes") {
		kind := flow.None
		if depth < 4 {
			kind = rapid.SampledFrom([]flow.Kind{flow.None, flow.Loop, flow.Branch}).Draw(t, "kind")
		}
		n := node{Kind: kind, Name: kind.String(), Rec: depth}
		cond := func() *flow.Cond {
			return &flow.Cond{NOC: 1, Addr: 0x40, Is: cq.Equal, Value: 7}
		}
		switch kind {
		case flow.Loop:
			n.Loop, n.Count = *loops, 2
			*loops++
			if rapid.Bool().Draw(t, "while") {
				n.Cond = cond()
			}
			n.Body = tree(t, depth+1, loops)
		case flow.Branch:
			for range rapid.IntRange(1, 3).Draw(t, "cases") {
				n.Cases = append(n.Cases, flow.Case[int]{Cond: cond(), Body: tree(t, depth+1, loops)})
			}
			if rapid.Bool().Draw(t, "otherwise") {
				n.Cases = append(n.Cases, flow.Case[int]{Body: tree(t, depth+1, loops)})
			}
		}
		out = append(out, n)
	}
	return out
}

func TestEncodedIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, loops := &steps{t: t}, 0
		for _, n := range tree(t, 0, &loops) {
			expect.Must(t, flow.Encode(s, &n))
		}
		ends := append(s.at, len(s.cmds))
		commands := func(i int) (*flow.Control, []byte) { return &s.controls[i], s.cmds[ends[i]:ends[i+1]] }
		places := expect.Value(flow.Read(cq.Blackhole, len(s.controls), commands))(t)
		for i, step := range s.runs {
			expect.Equal(t, places[step].Depth, s.depths[i], "run %d", i)
		}
		stepAt := func(off uint32) int {
			for i, at := range ends {
				if at == int(off) {
					return i
				}
			}
			return -1
		}
		var open []int
		for i := range s.controls {
			c, b := commands(i)
			if !c.Jumps() {
				continue
			}
			p, _, err := cq.Decode(cq.Blackhole, b)
			expect.Must(t, err)
			expect.NoDiff(t, flow.Control{}.Decode(p, open, stepAt), *c, "step %d", i)
			open = flow.OpenLoops(open, p)
			if c.Kind == flow.Loop && places[i].End != c.Target {
				t.Errorf("the loop of step %d ends at step %d, it exits to %d", i, places[i].End, c.Target)
			}
		}
	})
}

func TestReadRefuses(t *testing.T) {
	for what, kinds := range map[string][]flow.Kind{
		"step 1 ends a loop, and none is open":   {flow.None, flow.End},
		"the loop that step 1 begins has no end": {flow.None, flow.Loop, flow.None},
		"step 3 ends a loop, and none is open":   {flow.Loop, flow.None, flow.End, flow.End},
		"the loop that step 0 begins has no end": {flow.Loop, flow.Loop, flow.End},
	} {
		_, err := flow.Read(cq.Blackhole, len(kinds), func(i int) (*flow.Control, []byte) { return &flow.Control{Kind: kinds[i]}, nil })
		expect.Equal(t, fmt.Sprint(err), what, "%v: %v", kinds, err)
	}
}
