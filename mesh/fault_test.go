package mesh_test

import (
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func (b *bench) held(c *mesh.Chip) (release func()) {
	b.Helper()
	word, err := c.Device.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64, Name: "word"})
	b.must(err)
	b.must(b.mesh.Queue(0).On(c).Write(b.ctx, word, 0, make([]byte, 64)))
	im, err := kernels.Prebuilt(c.Device.Arch(), kernels.Spin)
	b.must(err)
	x, err := c.Device.Load(b.ctx, &reprise.Program{Name: "hold", Buffers: []*reprise.Buffer{word}, Kernels: []reprise.Kernel{{
		Name: "wait", Image: im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)},
		Args: func(chip.Core) []uint32 { return []uint32{word.Addr(), 1} },
	}}})
	b.must(err)
	b.must(b.mesh.Queue(0).On(c).Run(b.ctx, x))
	return func() {
		b.Helper()
		b.must(b.mesh.Queue(1).On(c).Write(b.ctx, word, 0, append([]byte{1}, make([]byte, 63)...)))
	}
}

func TestOneChipRecovers(t *testing.T) {
	b := open(t, sim.QuietBox(), mesh.Shape{2, 2})
	in, out := b.pages("in", 4), b.pages("out", 4)
	trace := b.capture("t", b.load("add", b.adder("add", in, out, always(2))))
	b.must(trace.Replay(b.ctx))
	b.must(b.queue.Wait(b.ctx))
	b.must(b.mesh.Chip(1, 1).Device.Recover(b.ctx))
	b.must(b.mesh.InStep(allocator.DRAM))
	b.must(b.queue.Write(b.ctx, in, words(in.Size(), 9)))
	b.must(trace.Replay(b.ctx))
	for _, c := range b.mesh.Chips() {
		b.holds(c, out, 11)
	}
}
