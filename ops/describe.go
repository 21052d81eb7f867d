package ops

import (
	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
)

// Flags of a tensor in kernels/tensor.h.
const (
	flagL1 = 1 << iota
	flagTile
	flagSharded
	flagTransposed // in kernels/transposed.h: of a product
)

// headerWords is the length of a tensor's description without the banks of shards;
// tensorStructBytes is the size of struct Tensor in kernels/tensor.h.
const headerWords, tensorStructBytes = 16, 72

func (g *geometry) argWords() int {
	if s := g.sharding; s != nil {
		return headerWords + ceil(ceil(s.Tensor[0], s.Shard[0])*ceil(g.wide, s.Shard[1]), 4)
	}
	return headerWords
}

// describe appends the description of a tensor to a kernel's common arguments.
func describe(args []uint32, t *Tensor, transposed bool) ([]uint32, error) {
	g, b := t.geometry, t.buf
	flags := flag(g.spec.Memory.Kind == allocator.L1)*flagL1 | flag(g.spec.Layout == Tile)*flagTile | flag(transposed)*flagTransposed
	var banks []uint32
	shard := [3]uint32{} // height and width in pages, and number of shards side by side
	if s := g.sharding; s != nil {
		flags |= flagSharded
		var err error
		if banks, err = shardBanks(g, b); err != nil {
			return nil, err
		}
		shard = [3]uint32{uint32(s.Shard[0]), uint32(s.Shard[1]), uint32(ceil(g.wide, s.Shard[1]))}
	}
	args = append(args, b.Addr(), uint32(g.pageBytes), b.PageStride(), flags,
		uint32(g.dims[0]), uint32(g.dims[1]), uint32(g.dims[2]), uint32(g.dims[3]),
		uint32(g.pageWidth), uint32(g.wide), uint32(g.high), shard[0], shard[1], shard[2], uint32(g.spec.DType), uint32(len(banks)))
	return append(args, banks...), nil
}

func shardBanks(g *geometry, b *reprise.Buffer) ([]uint32, error) {
	s := g.sharding
	var words []uint32
	n := 0
	for row := 0; row < s.Tensor[0]; row += s.Shard[0] {
		for column := 0; column < g.wide; column += s.Shard[1] {
			p, ok := b.Page(row*g.wide + column)
			if !ok || p.Addr != b.Addr() || p.Bank > 0xFF {
				return nil, memoryError("the shard at page row %d is at %+v, not at the start of a bank from 0 to 255", row, p)
			}
			if n%4 == 0 {
				words = append(words, 0)
			}
			words[n/4] |= uint32(p.Bank) << (n % 4 * 8)
			n++
		}
	}
	return words, nil
}
