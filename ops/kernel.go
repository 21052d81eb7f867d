package ops

import (
	"embed"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/kernels"
)

//go:embed kernels/prebuilt
var kernelFiles embed.FS

// The kernels, by their files' names.
const (
	elementwise = "elementwise"
	inShards    = "shards"
	behind      = "concat"
	product     = "matmul"
	searching   = "argmax"
)

// What elementwise and inShards compute; the numbers are the kernels'.
const (
	opCopy = iota
	opRelu
	opAdd
	opMultiply
)

func loadKernel(a reprise.Arch, name string) (*kernels.Image, error) {
	file, err := kernelFiles.ReadFile(fmt.Sprintf("kernels/prebuilt/%v/%s.elf", a, name))
	if err != nil {
		return nil, fmt.Errorf("kernel %s for %v: %w", name, a, kernels.ErrNotFound)
	}
	return kernels.Load(file)
}

// How kernels/tensor.h sees a tensor.
const (
	flagL1 = 1 << iota
	flagTile
	flagSharded
)

// headerWords is what a tensor takes of a kernel's common arguments, but for the banks of its shards; tensorBytes is what
// a kernel keeps of it.
const headerWords, tensorBytes = 16, 72

// words is what describe appends.
func (g *geometry) words() int {
	if s := g.sharding; s != nil {
		return headerWords + ceil(ceil(s.Tensor[0], s.Shard[0])*ceil(g.wide, s.Shard[1]), 4)
	}
	return headerWords
}

// describe appends what a kernel has to know of a tensor to its common arguments.
func describe(args []uint32, t *Tensor) ([]uint32, error) {
	g, b := t.geo, t.buf
	flags := uint32(0)
	if g.spec.Memory.Kind == reprise.L1 {
		flags |= flagL1
	}
	if g.spec.Layout == Tile {
		flags |= flagTile
	}
	var banks []uint32
	shard := [3]uint32{} // height and width in pages, and shards beside each other
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

// shardBanks lists the banks of a tensor's shards, four to a word.
func shardBanks(g *geometry, b *reprise.Buffer) ([]uint32, error) {
	s := g.sharding
	var words []uint32
	n := 0
	for row := 0; row < s.Tensor[0]; row += s.Shard[0] {
		for column := 0; column < g.wide; column += s.Shard[1] {
			p, ok := b.Page(row*g.wide + column)
			if !ok || p.Addr != b.Addr() || p.Bank > 0xFF {
				return nil, fmt.Errorf("%w: the shard at page row %d is at %+v, not at the beginning of a bank up to 255", ErrMemory, row, p)
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
