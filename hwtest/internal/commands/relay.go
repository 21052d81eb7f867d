package commands

import (
	"fmt"
	"math/bits"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/rig"
)

// Half is half of the prefetcher's scratch memory, one step of a relay.
const Half = 64 << 10

func relayCases() (cs rig.Table) {
	rig.Pairs(&cs, "RELAY_LINEAR %d bytes from %s", "data of any length come from any memory to a dispatcher's write",
		func(t *rig.T, n int, from string) { RelayLinear(t, n, from, 0) },
		[]int{16, 64, 4064, 4096, 8192, Half - 64, Half, Half + 64, 2 * Half, 3*Half + 16, 700_000}, []string{"L1", "DRAM", "host memory"})
	rig.Pairs(&cs, "RELAY_LINEAR %[2]d bytes at address +%[1]d", "the relay's scratch memory is aligned with its source",
		func(t *rig.T, skew, n int) { RelayLinear(t, n, "DRAM", skew) },
		[]int{16, 32, 48}, []int{16, Half - 16, Half, Half + 48, 200_000})
	rig.Pairs(&cs, "RELAY_PAGED %s %d pages of %d from %d less %d", "pages are gathered from the start page on, less the adjustment",
		func(t *rig.T, kind string, n [4]int) { RelayPaged(t, kind == "DRAM", n[1], n[0], n[2], n[3]) }, []string{"DRAM", "L1"}, [][4]int{
			{1, 64, 0, 0}, {200, 64, 3, 0}, {7, 64, 1, 16}, {33, 1024, 5, 1008}, {64, 2048, 0, 0}, {16, 4096, 2, 4000},
			{20, 4096 + 64, 0, 0}, {2, Half, 1, 0}, {3, Half + 64, 0, 0}, {2, 100 << 10, 4, 32752}, {1, 200 << 10, 0, 0},
		})
	rig.Pairs(&cs, "RELAY_PAGED_PACKED %d buffers of pages of %d", "several interleaved buffers are gathered one after the other",
		RelayPagedPacked, []int{1, 2, 7, 34, 35}, []int{1 << 10, 1 << 11, 1 << 12, 1 << 14})
	for _, log := range []int{11, 14} {
		rig.Each(&cs, fmt.Sprintf("RELAY_PAGED_PACKED one buffer of %%d bytes in pages of %d", 1<<log), "whole pages and a part of one are gathered, of any total length",
			func(t *rig.T, n int) { relayOnePacked(t, n, log) }, 1<<log, 5<<log+64, Half-64, Half, Half+64)
	}
	rig.Pairs(&cs, "EXEC_BUF %[2]d commands in pages of %[1]d", "commands in DRAM run as those of the issue queue do",
		func(t *rig.T, page, commands int) { ExecBuf(t, commands, bits.TrailingZeros(uint(page))) },
		[]int{1 << 6, 1 << 7, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 15}, []int{1, 40, 1000})
	cs.Add("RELAY_LINEAR_H", "on the chip with the PCIe link RELAY_LINEAR_H is RELAY_LINEAR", func(t *rig.T) {
		src, dst := t.Grid().Start, t.Grid().End
		data := rig.Pattern(4, 10_000)
		t.Poke(src, rig.Scratch, data)
		relayedTo(t, dst, data, func(b *cq.Builder) {
			b.RelayLinearH(cq.RelayLinearH{NOC: t.NOCXY(src), Addr: rig.Scratch, Length: uint32(len(data))})
		})
	})
	cs.Add("RELAY_LINEAR from the end of a DRAM bank", "the relay's source address has more than 32 bits where the tile has", func(t *rig.T) {
		bank := t.Chip.DRAMBanks()[0]
		data := rig.Pattern(5, 1024)
		t.PokeDRAM(0, bank.Size-1024, data)
		relayed(t, data, func(b *cq.Builder) {
			b.Append(cq.RelayLinear{NOC: t.Params.Arch.NOCXY(bank.Endpoint[0]), Addr: bank.Offset + bank.Size - 1024,
				Length: uint64(len(data))})
		})
	})
	cs.Add("ring buffer from its start", "a cached binary is relayed any number of times, in any pieces", ringbufferPieces)
	cs.Add("ring buffer offsets", "the cache's offsets apply to relays and to the next binary", RingbufferOffsets)
	cs.Add("ring buffer full", "the cache holds a whole mebibyte", ringbufferFull)
	cs.Add("ring buffer and relay", "a relay after a load of the cache waits for the load", RingbufferThenRelay)
	cs.Add("EXEC_BUF with payload over many pages", "a payload in a trace continues on the next pages", ExecBufPayload)
	cs.Add("EXEC_BUF with relays", "relays work inside of a trace", ExecBufRelays)
	cs.Add("EXEC_BUF padding", "pages past the end are not run", ExecBufPadding)
	return cs
}

func RelayLinear(t *rig.T, n int, from string, skew int) {
	src, dst := t.Grid().Start, t.Grid().End
	data := rig.Pattern(n+skew, n)
	var noc uint32
	var addr uint64
	switch from {
	case "L1":
		t.Poke(src, rig.Scratch, data)
		noc, addr = t.NOCXY(src), rig.Scratch
	case "DRAM":
		bank := t.Chip.DRAMBanks()[1]
		at := uint64(3<<20 + skew)
		t.PokeDRAM(1, at, data)
		noc, addr = t.Params.Arch.NOCXY(bank.Endpoint[0]), bank.Offset+at
	default:
		h := t.Pin(n + 4096)
		copy(h.Bytes()[128:], data)
		noc, addr = t.Params.Arch.NOCXY(t.Chip.PCIe(chip.NOC0)), h.NOCAddr()+128
	}
	relayedTo(t, dst, data, func(b *cq.Builder) { b.Append(cq.RelayLinear{NOC: noc, Addr: addr, Length: uint64(n)}) })
}

// relayedTo checks that a relay brings data to a core's scratch memory, and nothing else.
func relayedTo(t *rig.T, dst chip.Core, data []byte, relay func(*cq.Builder)) {
	arrives(t, dst, data, "relayed", func(b *cq.Builder) {
		t.WriteTileHeader(b, dst, rig.Scratch, len(data))
		relay(b)
	})
}

func RelayPaged(t *rig.T, dram bool, size, pages, start, adjust int) {
	base := uint64(rig.Scratch)
	if dram {
		base = 1 << 20
	}
	data := rig.Pattern(size*pages, size*pages)
	t.PokePages(dram, base, size, start, data)
	relayed(t, data[:len(data)-adjust], func(b *cq.Builder) {
		b.RelayPaged(cq.RelayPaged{StartPage: uint8(start), DRAM: dram, LengthAdjust: uint16(adjust), Base: uint32(base), PageSize: uint32(size),
			Pages: uint32(pages)})
	})
}

func relayed(t *rig.T, want []byte, relay func(*cq.Builder)) {
	got := make([]byte, len(want))
	t.OK(t.CQ.Receive(t.Ctx, t.Commands(func(b *cq.Builder) {
		b.WriteHostHeader(cq.WriteHost{Length: uint64(16 + len(got))})
		relay(b)
	}), got))
	t.Same(want, got, "relayed")
}

// relayOnePacked gathers a buffer that begins at a later page than the first bank's.
func relayOnePacked(t *rig.T, n, log int) {
	const base = 2 << 20
	start := len(t.Chip.DRAMBanks()) - 2
	data := rig.Pattern(n, n+64)
	t.PokePages(true, base, 1<<log, start, data)
	relayedTo(t, t.Grid().End, data[:n], func(b *cq.Builder) {
		b.RelayPagedPacked(cq.RelayPagedPacked{Subs: []cq.PagedSub{{StartPage: uint16(start), LogPageSize: uint16(log), Base: base,
			Length: uint32(n)}}})
	})
}

func RelayPagedPacked(t *rig.T, subs, page int) {
	log := bits.TrailingZeros(uint(page))
	align := t.Layout().DRAMAlign()
	var r cq.RelayPagedPacked
	var want []byte
	banks := len(t.Chip.DRAMBanks())
	for i := range subs {
		n := page*(i%3) + align*(1+i%5)
		base := uint64(2<<20 + i*(1<<16))
		data := rig.Pattern(i+subs, n)
		t.PokePages(true, base, page, i%banks, data)
		r.Subs = append(r.Subs, cq.PagedSub{StartPage: uint16(i % banks), LogPageSize: uint16(log), Base: uint32(base), Length: uint32(n)})
		want = append(want, data...)
	}
	relayedTo(t, t.Grid().Start, want, func(b *cq.Builder) { b.RelayPagedPacked(r) })
}

func ringbufferPieces(t *rig.T) {
	const log, n = 11, 40_000
	align := t.Layout().DRAMAlign()
	n0 := n / align * align
	data := rig.Pattern(11, n0)
	t.PokePages(true, 4<<20, 1<<log, 2, data)
	dst := t.Grid().End
	subs := []cq.RingSub{{Start: 0, Length: 16}, {Start: 16, Length: 4096}, {Start: uint32(n0) - 64, Length: 64},
		{Start: 0, Length: uint32(n0)}}
	for len(subs) < cq.MaxRingSubs {
		subs = append(subs, cq.RingSub{Start: uint32(16 * len(subs)), Length: uint32(16 * len(subs))})
	}
	for _, k := range []int{1, 2, 4, 51, 52} {
		var want []byte
		for _, s := range subs[:k] {
			want = append(want, data[s.Start:s.Start+s.Length]...)
		}
		arrives(t, dst, want, "pieces", func(b *cq.Builder) {
			if k == 1 {
				b.Append(cq.PagedToRingbuffer{Reset: true, LogPageSize: log, StartPage: 2, Advance: uint32(n0), Base: 4 << 20,
					Length: uint32(n0)})
			}
			t.WriteTileHeader(b, dst, rig.Scratch, len(want))
			b.Append(cq.RelayRingbuffer{Subs: subs[:k]})
		})
	}
}

// RingbufferOffsets relays pieces of the prefetcher's cache from several offsets.
func RingbufferOffsets(t *rig.T) {
	const log, n = 12, 8192
	var all [4][]byte
	for i := range all {
		all[i] = rig.Pattern(20+i, n)
		t.PokePages(true, uint64(5<<20+i<<16), 1<<log, i, all[i])
	}
	dst := t.Grid().Start
	load := func(b *cq.Builder, i int, reset bool) {
		b.Append(cq.PagedToRingbuffer{Reset: reset, LogPageSize: log, StartPage: uint8(i), Advance: n, Base: uint32(5<<20 + i<<16),
			Length: n})
	}
	use := func(b *cq.Builder, i int) {
		t.WriteTileHeader(b, dst, rig.Scratch+i*n, n)
		b.Append(cq.RelayRingbuffer{Subs: []cq.RingSub{{Length: n}}})
	}
	t.Do(func(b *cq.Builder) {
		for i := range all {
			load(b, i, i == 0)
		}
		for _, i := range []int{3, 0, 2, 1} {
			b.Append(cq.SetRingbufferOffset{Offset: uint32(i * n)})
			use(b, i)
		}
		// The second place again; the others keep their binaries.
		b.Append(cq.SetRingbufferOffset{Offset: n, Write: true})
		load(b, 0, false)
		use(b, 4)
		b.Append(cq.SetRingbufferOffset{Offset: 2 * n})
		use(b, 5)
	})
	for i, k := range []int{0, 1, 2, 3, 0, 2} {
		t.InL1(dst, uint32(rig.Scratch+i*n), all[k], "relay %d", i)
	}
}

func ringbufferFull(t *rig.T) {
	const log, n = 12, 1 << 20
	data := rig.Pattern(30, n)
	t.PokePages(true, 6<<20, 1<<log, 0, data)
	dst := t.Grid().Start
	for _, at := range []uint32{0, 500_000 &^ 63, n - 65536} {
		arrives(t, dst, data[at:at+65536], "64 KiB of the cache", func(b *cq.Builder) {
			if at == 0 {
				b.Append(cq.PagedToRingbuffer{Reset: true, LogPageSize: log, Advance: n, Base: 6 << 20, Length: n})
			}
			t.WriteTileHeader(b, dst, rig.Scratch, 65536)
			b.Append(cq.RelayRingbuffer{Subs: []cq.RingSub{{Start: at, Length: 65536}}})
		})
	}
}

// RingbufferThenRelay fills the cache and relays past it.
func RingbufferThenRelay(t *rig.T) {
	data := rig.Pattern(40, Half)
	t.PokePages(true, 8<<20, 4096, 0, data)
	src, dst := t.Grid().Start, t.Grid().End
	t.Poke(src, rig.Scratch, rig.Pattern(41, 4096))
	for range 10 {
		t.Send(func(b *cq.Builder) {
			// The cache shares the scratch memory, so this relay overwrites its beginning.
			b.Append(cq.PagedToRingbuffer{Reset: true, LogPageSize: 12, Advance: Half, Base: 8 << 20, Length: Half})
			t.WriteTileHeader(b, dst, rig.Scratch, 4096)
			b.Append(cq.RelayLinear{NOC: t.NOCXY(src), Addr: rig.Scratch, Length: 4096})
		})
	}
	t.Finish()
	t.InL1(dst, rig.Scratch, rig.Pattern(41, 4096), "relayed")
}

func exec(t *rig.T, x cq.ExecBuf) {
	t.OK(t.CQ.Send(t.Ctx, t.Commands(func(b *cq.Builder) { b.ExecBuf(x) }), true))
}

func ExecBuf(t *rig.T, commands, log int) {
	dst := t.Grid().End
	t.Poke(dst, rig.Scratch, make([]byte, 16*commands+64))
	x := t.CommandTrace(9<<20, log, 0, func(b *cq.Builder) {
		for i := range commands {
			t.WriteTile(b, dst, rig.Scratch+16*i, rig.Pattern(i, 16))
		}
	})
	exec(t, x)
	t.Finish()
	for i := range commands {
		t.InL1(dst, uint32(rig.Scratch+16*i), rig.Pattern(i, 16), "command %d", i)
	}
}

func ExecBufPayload(t *rig.T) {
	dst := t.Grid().Start
	for _, log := range []int{7, 10, 12} {
		for _, n := range []int{1, 1000, 16384, 70_000, 200_000} {
			data := rig.Pattern(n+log, n)
			a := newArea(t, n, dst)
			a.put(dst.Range(), 0, data)
			exec(t, t.CommandTrace(9<<20, log, 0, func(b *cq.Builder) {
				t.WriteTile(b, dst, rig.Scratch, data)
			}))
			t.Finish()
			a.check("%d bytes in pages of %d", n, 1<<log)
		}
	}
}

func ExecBufRelays(t *rig.T) {
	src, dst := t.Grid().Start, t.Grid().End
	data := rig.Pattern(50, 150_000)
	t.Poke(src, rig.Scratch, data)
	var subs []cq.PagedSub
	var want []byte
	for i := range 35 {
		p := rig.Pattern(60+i, 2048)
		t.PokePages(true, uint64(12<<20+i<<12), 2048, 0, p)
		subs = append(subs, cq.PagedSub{LogPageSize: 11, Base: uint32(12<<20 + i<<12), Length: 2048})
		want = append(want, p...)
	}
	x := t.CommandTrace(10<<20, 10, 0, func(b *cq.Builder) {
		for i := range 3 {
			t.WriteTileHeader(b, dst, rig.Scratch, len(data))
			b.Append(cq.RelayLinear{NOC: t.NOCXY(src), Addr: rig.Scratch, Length: uint64(len(data))})
			t.WriteTileHeader(b, dst, 0x80000+i*0x12000, len(want))
			b.RelayPagedPacked(cq.RelayPagedPacked{Subs: subs})
			b.WaitStall(cq.Wait{})
		}
	})
	exec(t, x)
	t.Finish()
	t.InL1(dst, rig.Scratch, data, "linear")
	for i := range 3 {
		t.InL1(dst, uint32(0x80000+i*0x12000), want, "packed")
	}
}

// ExecBufPadding checks that padding read ahead doesn't land on the commands after a trace.
func ExecBufPadding(t *rig.T) {
	dst := t.Grid().Start
	for _, padding := range []int{1, 5, 100} {
		x := t.CommandTrace(11<<20, 10, padding, func(b *cq.Builder) {
			t.WriteTile(b, dst, rig.Scratch, rig.Pattern(padding, 64))
		})
		after := rig.Pattern(padding+1, 40_000)
		exec(t, x)
		t.Send(func(b *cq.Builder) {
			for i := 0; i < len(after); i += 10_000 {
				t.WriteTile(b, dst, rig.Scratch+64+i, after[i:][:10_000])
			}
		})
		t.Finish()
		t.InL1(dst, rig.Scratch, rig.Pattern(padding, 64), "written")
		t.InL1(dst, rig.Scratch+64, after, "written after the trace")
	}
}
