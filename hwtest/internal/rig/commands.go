package rig

import (
	"runtime"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/kmd"
)

// Layout is the wire format of the chip's commands.
func (t *T) Layout() cq.Layout { return cq.Layout(t.Params.Arch) }

// Commands builds commands and checks them against the limits of the device's firmware, unless raw
// is wanted.
func (t *T) Commands(add func(*cq.Builder)) []byte {
	t.Helper()
	b := cq.NewBuilder(t.Layout(), nil)
	add(&b)
	cmds, err := b.Finish()
	t.OK(err)
	return cmds
}

// Send sends commands.
func (t *T) Send(add func(*cq.Builder)) {
	t.Helper()
	t.OK(t.CQ.Send(t.Ctx, t.Commands(add), false))
}

// Finish waits for everything that was sent.
func (t *T) Finish() {
	t.Helper()
	t.OK(t.CQ.Wait(t.Ctx))
}

// Do sends commands and waits for them.
func (t *T) Do(add func(*cq.Builder)) {
	t.Helper()
	t.Send(add)
	t.Finish()
}

// WriteTile appends a command that writes to a tile.
func (t *T) WriteTile(b *cq.Builder, c chip.Core, addr uint64, data []byte) {
	t.Helper()
	b.WriteLinear(cq.WriteLinear{NOC: t.NOCXY(c), Addr: addr, Data: data})
}

// WriteTileHeader is WriteTile for n bytes that the next command relays.
func (t *T) WriteTileHeader(b *cq.Builder, c chip.Core, addr uint64, n int) {
	t.Helper()
	b.WriteLinearHeader(cq.WriteLinear{NOC: t.NOCXY(c), Addr: addr, Length: uint64(n)})
}

// PokePages writes the pages of an interleaved buffer past the command queues.
func (t *T) PokePages(dram bool, base uint64, size, start int, data []byte) {
	t.Helper()
	w := t.Grid().End.X + 1
	banks := t.Dispatch.L1Banks()
	if dram {
		banks = len(t.Chip.DRAMBanks())
	}
	for i := 0; i*size < len(data); i++ {
		bank, row := (start+i)%banks, (start+i)/banks
		p := data[i*size : min((i+1)*size, len(data))]
		if dram {
			t.PokeDRAM(bank, base+uint64(row*size), p)
		} else {
			t.Poke(chip.Core{X: bank % w, Y: bank / w}, uint32(base)+uint32(row*size), p)
		}
	}
}

// CommandTrace lays commands out in DRAM and returns what runs them.
func (t *T) CommandTrace(base uint64, log int, padding int, add func(*cq.Builder)) cq.ExecBuf {
	t.Helper()
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

// Waypoint waits until a processor of a core shows a waypoint, so that what follows finds it
// waiting.
func (t *T) Waypoint(c chip.Core, p chip.Processor, name string) {
	t.Helper()
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

// Free is an address in the dispatch core's L1 that its kernels don't use.
const Free = 0xC0000

// Answered tells the queue that the workers, whose launch pointers were reset, have answered n
// times.
func (t *T) Answered(n int) {
	t.Helper()
	t.CQ.SetState(t.Dispatch.After(dispatch.Detached{Expected: t.CQ.State().Expected + cq.Count(n)}))
}

// Pin gives the case memory of the host that the device reaches.
func (t *T) Pin(n int) *kmd.HostMemory {
	t.Helper()
	if t.KMD.Uplink() != nil {
		t.Skip("the chip reaches no memory of the host")
	}
	h, err := t.KMD.PinHostMemory(n)
	t.OK(err)
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// PrefetchEntries is the length of the prefetch queue.
const PrefetchEntries = 1534
