package mesh_test

import (
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

// A link that goes down in the middle of a collective and stays down makes it hang on both chips.
// Both can be recovered, and with new Links collectives work again.
func TestCollectiveHangsAndRecovers(t *testing.T) {
	if testing.Short() {
		t.Skip("several chips, too slow under the race detector; other tests take the same paths")
	}
	machine := sim.P300()
	b := open(t, machine, mesh.Shape{1, 2}, mesh.WithDevice(reprise.WithHangTimeout(time.Second), reprise.WithQueues(2)))
	g := newGroup(b, 400, 256)
	sum, err := g.links.AllReduce(b.ctx, g.buf, mesh.SumInt32)
	b.must(err)
	g.fill(1, mesh.SumInt32)
	// The second chip starts the collective when the links are down, so that it can't end before.
	release := b.held(b.mesh.Chip(0, 1))
	b.must(b.queue.Run(b.ctx, sum))
	b.must(errors.Join(machine.SetLink(0, 2, false), machine.SetLink(0, 3, false)))
	release()
	err = b.queue.Wait(b.ctx)
	var e *mesh.Error
	var hang *dispatch.HangError
	if !errors.As(err, &e) || len(e.Chips) != 2 || !errors.As(err, &hang) {
		t.Fatalf("with the link down: %v", err)
	}
	b.must(errors.Join(machine.SetLink(0, 2, true), machine.SetLink(0, 3, true)))
	for _, c := range b.mesh.Chips() {
		b.must(c.Device.Recover(b.ctx))
	}
	again := newGroup(b, 3, 64)
	again.fill(2, mesh.SumInt32)
	sum, err = again.links.AllReduce(b.ctx, again.buf, mesh.SumInt32)
	b.must(err)
	b.must(b.queue.Run(b.ctx, sum))
	again.check("after recovery", func(_, k, o int) (uint32, bool) { return again.reduced(mesh.SumInt32, k, o, false), true })
}

// held blocks a chip's queue 0 until release is called, which uses queue 1.
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

// A chip that was recovered by itself works in the mesh: the trace is at its address and replays.
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

// A chip that starts a collective late only delays the others.
func TestOneChipIsSlower(t *testing.T) {
	b := open(t, sim.QuietBox(), mesh.Shape{2, 2})
	g := newGroup(b, 4, 64)
	g.fill(3, mesh.SumInt32)
	in, out := b.pages("in", 64), b.pages("out", 64)
	slow := b.load("slow", b.adder("slow", in, out, always(1)))
	sum, err := g.links.AllReduce(b.ctx, g.buf, mesh.SumInt32)
	b.must(err)
	late := b.mesh.Chip(0, 1)
	for range 30 {
		b.must(b.queue.On(late).Run(b.ctx, slow.On(late)))
	}
	b.must(b.queue.Run(b.ctx, sum))
	g.check("with one chip late", func(_, k, o int) (uint32, bool) { return g.reduced(mesh.SumInt32, k, o, false), true })
}
