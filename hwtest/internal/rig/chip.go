package rig

import (
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
)

// Virtual is the coordinate by which software names a core.
func (t *T) Virtual(c chip.Core) chip.XY {
	t.Helper()
	xy, err := t.Chip.Virtual(c)
	t.OK(err)
	return xy
}

// Poke writes a core's L1 past the command queues.
func (t *T) Poke(c chip.Core, addr uint32, p []byte) {
	t.Helper()
	t.OK(t.KMD.Write(t.Virtual(c), uint64(addr), p))
}

// Peek reads a core's L1 past the command queues.
func (t *T) Peek(c chip.Core, addr uint32, n int) []byte {
	t.Helper()
	p := make([]byte, n)
	t.OK(t.KMD.Read(t.Virtual(c), uint64(addr), p))
	return p
}

// PokeDRAM writes a DRAM bank past the command queues.
func (t *T) PokeDRAM(bank int, addr uint64, p []byte) {
	t.Helper()
	b := t.Chip.DRAMBanks()[bank]
	t.OK(t.KMD.Write(b.HostEndpoint, b.Offset+addr, p))
}

// PeekDRAM reads a DRAM bank past the command queues.
func (t *T) PeekDRAM(bank int, addr uint64, n int) []byte {
	t.Helper()
	b := t.Chip.DRAMBanks()[bank]
	p := make([]byte, n)
	t.OK(t.KMD.Read(b.HostEndpoint, b.Offset+addr, p))
	return p
}

// InL1 compares what is in a core's L1.
func (t *T) InL1(what string, c chip.Core, addr uint32, want []byte) {
	t.Helper()
	t.Same(what, want, t.Peek(c, addr, len(want)))
}

// InDRAM compares what is in a DRAM bank.
func (t *T) InDRAM(what string, bank int, addr uint64, want []byte) {
	t.Helper()
	t.Same(what, want, t.PeekDRAM(bank, addr, len(want)))
}

// NOCXY names a tile as commands do.
func (t *T) NOCXY(c chip.Core) uint32 {
	t.Helper()
	return t.Params.Arch.NOCXY(t.Virtual(c))
}

// NOCRect names a rectangle of tiles as commands do.
func (t *T) NOCRect(r chip.Range) (noc uint32, cores int) {
	t.Helper()
	rects := t.Chip.Rects(r)
	if len(rects) != 1 {
		t.Fatalf("%v is %d rectangles", r, len(rects))
	}
	start, end := rects[0].Corners(chip.NOC0)
	return t.Params.Arch.NOCMulticast(start, end), rects[0].Cores
}

// Corners are the four corners of the grid of workers, the farthest apart that there are.
func (t *T) Corners() []chip.Core {
	g := t.Grid()
	return []chip.Core{g.Start, {X: g.End.X, Y: g.Start.Y}, {X: g.Start.X, Y: g.End.Y}, g.End}
}

// CircularBuffers is how many circular buffers a core has for kernels of this runtime.
func (t *T) CircularBuffers() int { return abi.Own(t.Params.Arch).Launch.CircularBuffers }

// Grid is the workers that programs and commands may use.
func (t *T) Grid() chip.Range {
	switch {
	case t.Dispatch != nil:
		return t.Dispatch.Grid()
	case t.Dev != nil:
		return t.Dev.Grid()
	}
	return t.Chip.All()
}

// Scratch is an address in the workers' L1 that nothing else uses.
const Scratch = 0x40000

// Rectangle names parts of a grid.
func Rectangle(g chip.Range, name string) chip.Range {
	x, y := g.End.X, g.End.Y
	at := func(x0, y0, x1, y1 int) chip.Range {
		return chip.Range{Start: chip.Core{X: x0, Y: y0}, End: chip.Core{X: x1, Y: y1}}
	}
	switch name {
	case "single":
		return at(1, 1, 1, 1)
	case "row":
		return at(0, 0, x, 0)
	case "column":
		return at(0, 0, 0, y)
	case "corner":
		return at(x-1, y-1, x, y)
	case "inner":
		return at(1, 1, x-1, y-1)
	case "last row":
		return at(0, y, x, y)
	case "last column":
		return at(x, 0, x, y)
	}
	return g
}
