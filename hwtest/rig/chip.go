package rig

import (
	"fmt"
	"runtime"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/kmd"
)

// Virtual is the coordinate by which software names a core.
func (t *T) Virtual(c chip.Core) chip.XY {
	xy, err := t.Chip.Virtual(c)
	t.OK(err)
	return xy
}

// Poke writes a core's L1, not through the queues; so do Peek, PokeDRAM and PeekDRAM.
func (t *T) Poke(c chip.Core, addr uint32, p []byte) {
	t.OK(t.KMD.Write(t.Virtual(c), uint64(addr), p))
}

// Peek reads a core's L1 past the command queues.
func (t *T) Peek(c chip.Core, addr uint32, n int) []byte {
	p := make([]byte, n)
	t.OK(t.KMD.Read(t.Virtual(c), uint64(addr), p))
	return p
}

// Load32 reads a register or a word of a tile.
func (t *T) Load32(xy chip.XY, addr uint64) uint32 {
	v, err := t.KMD.Read32(xy, addr)
	t.OK(err)
	return v
}

// Store32 writes a register or a word of a tile.
func (t *T) Store32(xy chip.XY, addr uint64, v uint32) {
	t.OK(t.KMD.Write32(xy, addr, v))
}

// PokeDRAM writes a DRAM bank past the command queues.
func (t *T) PokeDRAM(bank int, addr uint64, p []byte) {
	b := t.Chip.DRAMBanks()[bank]
	t.OK(t.KMD.Write(b.HostEndpoint, b.Offset+addr, p))
}

// PeekDRAM reads a DRAM bank past the command queues.
func (t *T) PeekDRAM(bank int, addr uint64, n int) []byte {
	b := t.Chip.DRAMBanks()[bank]
	p := make([]byte, n)
	t.OK(t.KMD.Read(b.HostEndpoint, b.Offset+addr, p))
	return p
}

// InL1 compares what is in a core's L1.
func (t *T) InL1(c chip.Core, addr uint32, want []byte, what string, args ...any) {
	t.Same(want, t.Peek(c, addr, len(want)), "%s, core %v", fmt.Sprintf(what, args...), c)
}

// InDRAM compares what is in a DRAM bank.
func (t *T) InDRAM(bank int, addr uint64, want []byte, what string, args ...any) {
	t.Same(want, t.PeekDRAM(bank, addr, len(want)), what, args...)
}

// NOCXY names a tile as commands do.
func (t *T) NOCXY(c chip.Core) uint32 {
	return t.Params.Arch.NOCXY(t.Virtual(c))
}

// NOCRect names a rectangle of tiles as commands do.
func (t *T) NOCRect(r chip.Range) (noc uint32, cores int) {
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

// Layout is the wire format of the chip's commands.
func (t *T) Layout() cq.Layout { return cq.Layout(t.Params.Arch) }

// Commands builds commands, and checks them against the firmware's limits.
func (t *T) Commands(add func(*cq.Builder)) []byte {
	b := cq.NewBuilder(t.Layout(), nil)
	add(&b)
	cmds, err := b.Finish()
	t.OK(err)
	return cmds
}

// Send sends commands.
func (t *T) Send(add func(*cq.Builder)) {
	t.OK(t.CQ.Send(t.Ctx, t.Commands(add), false))
}

// Finish waits for everything that was sent.
func (t *T) Finish() {
	t.OK(t.CQ.Wait(t.Ctx))
}

// Do sends commands and waits for them.
func (t *T) Do(add func(*cq.Builder)) {
	t.Send(add)
	t.Finish()
}

// WriteTile appends a command that writes to a tile.
func (t *T) WriteTile(b *cq.Builder, c chip.Core, addr int, data []byte) {
	b.WriteLinear(cq.WriteLinear{NOC: t.NOCXY(c), Addr: uint64(addr), Data: data})
}

// WriteTileHeader is WriteTile for n bytes that the next command relays.
func (t *T) WriteTileHeader(b *cq.Builder, c chip.Core, addr, n int) {
	b.WriteLinearHeader(cq.WriteLinear{NOC: t.NOCXY(c), Addr: uint64(addr), Length: uint64(n)})
}

// PokePages writes an interleaved buffer's pages, not through the queues.
func (t *T) PokePages(dram bool, base uint64, size, start int, data []byte) {
	t.eachPage(dram, base, size, start, data, t.Poke, t.PokeDRAM)
}

// InPages compares an interleaved buffer's pages, not through the queues.
func (t *T) InPages(dram bool, base uint64, size, start int, want []byte) {
	t.eachPage(dram, base, size, start, want,
		func(c chip.Core, addr uint32, p []byte) { t.InL1(c, addr, p, "page at %#x", addr) },
		func(bank int, addr uint64, p []byte) {
			t.InDRAM(bank, addr, p, "page at %#x of bank %d", addr, bank)
		})
}

func (t *T) eachPage(dram bool, base uint64, size, start int, data []byte, l1 func(chip.Core, uint32, []byte),
	bank func(int, uint64, []byte),
) {
	w, banks := t.Grid().End.X+1, t.Dispatch.L1Banks()
	if dram {
		banks = len(t.Chip.DRAMBanks())
	}
	for i := 0; i*size < len(data); i++ {
		n, row := (start+i)%banks, (start+i)/banks
		p := data[i*size : min((i+1)*size, len(data))]
		if dram {
			bank(n, base+uint64(row*size), p)
		} else {
			l1(chip.Core{X: n % w, Y: n / w}, uint32(base)+uint32(row*size), p)
		}
	}
}

// CommandTrace lays commands out in DRAM and returns what runs them.
func (t *T) CommandTrace(base uint64, log int, padding int, add func(*cq.Builder)) cq.ExecBuf {
	cmds := t.Commands(func(b *cq.Builder) {
		add(b)
		b.ExecBufEnd()
	})
	size := 1 << log
	pages := (len(cmds)+size-1)/size + padding
	all := Pattern(99, pages*size)
	copy(all, cmds)
	t.PokePages(true, base, size, 0, all)
	return cq.ExecBuf{Base: uint32(base), LogPageSize: uint32(log), Pages: uint32(pages)}
}

// DispatchCore is where the queue's dispatchers run.
func (t *T) DispatchCore() chip.Core {
	_, c := t.CQ.Cores()
	return c
}

// Waypoint waits until a processor shows a waypoint.
func (t *T) Waypoint(c chip.Core, p chip.Processor, name string) {
	for {
		b := t.Peek(c, t.L1.CoreState+uint32(p)*t.L1.CoreStateSize, 4)
		if string(b) == name {
			return
		}
		if err := t.KMD.Fault(); err != nil {
			t.OK(err)
		}
		if t.Ctx.Err() != nil {
			t.Fatalf("%v of core %v is at %q, not at %q", p, c, b, name)
		}
		runtime.Gosched()
	}
}

// Block makes the dispatcher wait until release is called.
func (t *T) Block() (release func()) {
	d := t.DispatchCore()
	t.Poke(d, Free, make([]byte, 4))
	t.Send(func(b *cq.Builder) { b.Wait(cq.Master, cq.Wait{Flags: cq.WaitMemory, Addr: Free, Count: 1}) })
	t.Waypoint(d, chip.BRISC, "WMEM")
	return func() { t.Poke(d, Free, []byte{1, 0, 0, 0}) }
}

// Free is an address in the dispatch core's L1 that its kernels don't use.
const Free = 0xC0000

// Answered tells the queue that workers with reset launch pointers have answered n times.
func (t *T) Answered(n int) {
	t.CQ.SetState(t.Dispatch.After(dispatch.Detached{Expected: t.CQ.State().Expected + cq.Count(n)}))
}

// Pin gives the case memory of the host that the device reaches.
func (t *T) Pin(n int) *kmd.HostMemory {
	if t.KMD.Uplink() != nil {
		t.Skip("the chip reaches no memory of the host")
	}
	h, err := t.KMD.PinHostMemory(n)
	t.OK(err)
	t.Ends(h.Close)
	return h
}

// PrefetchEntries is the length of the prefetch queue.
const PrefetchEntries = 1534
