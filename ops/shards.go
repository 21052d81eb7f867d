package ops

import (
	"slices"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/ops/catalog"
)

// sameShards reports whether tensors of one data type have the same full shards in L1, so that each
// core can compute its shards in place.
func sameShards(out *Tensor, in ...*Tensor) bool {
	g := out.geometry
	s := g.sharding
	if s == nil || g.spec.Memory.Kind != allocator.L1 || g.pageBytes%64 != 0 { // pages in a bank are aligned to 64
		return false
	}
	cores := 0
	for _, r := range s.Cores {
		cores += r.Size()
	}
	full := s.Tensor[0]%s.Shard[0] == 0 && s.Tensor[1]%s.Shard[1] == 0
	if !full || s.Tensor[0]/s.Shard[0]*(s.Tensor[1]/s.Shard[1]) != cores {
		return false
	}
	return !slices.ContainsFunc(in, func(t *Tensor) bool { return t.kind != g.kind })
}

func (c *call) hasShards(t *Tensor) bool {
	workers := c.q.Workers()
	outside := func(r chip.Range) bool { return !workers.Contains(r.Start) || !workers.Contains(r.End) }
	return !slices.ContainsFunc(t.sharding.Cores, outside)
}

func (c *call) runInShards(op uint32, out *Tensor, in ...*Tensor) error {
	tensors := []*Tensor{out}
	var at []uint32 // the circular buffer of each operand
	for _, t := range in {
		i := slices.IndexFunc(tensors, t.overlaps)
		if i < 0 {
			i, tensors = len(tensors), append(tensors, t)
		}
		at = append(at, uint32(i))
	}
	g := out.geometry
	if onEngines(out, in...) {
		j := job{program: catalog.BinaryInShards, args: words(len(tensors) - 1), out: out, in: in, sharded: tensors}
		if op == opRelu {
			j.program, j.function = catalog.UnaryInShards, "relu"
		} else {
			j.engineArgs = []uint32{op, at[len(at)-1]}
		}
		return c.run(j)
	}
	elements := g.sharding.Shard[0] * g.sharding.Shard[1] * g.pageBytes / g.spec.DType.Size()
	return c.run(job{
		program: catalog.Shards, args: []uint32{op, uint32(g.spec.DType), uint32(elements), at[0], at[len(at)-1]}, out: out, in: in,
		sharded: tensors,
	})
}
