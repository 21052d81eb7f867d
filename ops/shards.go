package ops

import (
	"slices"

	"github.com/reprise-tt/reprise"
)

// together says whether tensors of one data type lie in L1 in the same way, with a full shard of each on every core, so
// that each core can compute its own shards where they are.
func together(out *Tensor, in ...*Tensor) bool {
	g := out.geo
	s := g.sharding
	if s == nil || g.spec.Memory.Kind != reprise.L1 || g.pageBytes%64 != 0 { // the distance of pages in any bank
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
	for _, t := range in {
		a, b := &t.geo.spec, &g.spec
		if !slices.Equal(a.Shape, b.Shape) || a.DType != b.DType || a.Layout != b.Layout || !a.Memory.Equal(b.Memory) {
			return false
		}
	}
	return true
}

// reaches says whether the queue has all cores of a tensor's shards.
func (c *call) reaches(t *Tensor) bool {
	workers := c.d.q.Workers()
	for _, r := range t.geo.sharding.Cores {
		if !workers.Contains(r.Start) || !workers.Contains(r.End) {
			return false
		}
	}
	return true
}

// inShards computes a result from tensors that lie as it does. The kernel's circular buffers lie in the tensors.
func (c *call) inShards(op uint32, out *Tensor, in ...*Tensor) error {
	lies := []*Tensor{out}
	var at []uint32 // the circular buffer of each operand
	for _, t := range in {
		i := slices.Index(lies, t)
		if i < 0 {
			i, lies = len(lies), append(lies, t)
		}
		at = append(at, uint32(i))
	}
	g := out.geo
	elements := g.sharding.Shard[0] * g.sharding.Shard[1] * g.pageBytes / g.spec.DType.Size()
	return c.run(job{
		kernel: inShards, args: []uint32{op, uint32(g.spec.DType), uint32(elements), at[0], at[len(at)-1]}, out: out, in: in, lies: lies,
	})
}
