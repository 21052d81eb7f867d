package hwtest

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// half is half of the prefetcher's scratch memory, what one step of a relay moves.
const half = 64 << 10

func cqRelayCases() []testCase {
	var cs []testCase
	for _, n := range []int{16, 64, 4064, 4096, 8192, half - 64, half, half + 64, 2 * half, 3*half + 16, 700_000} {
		for _, from := range []string{"L1", "DRAM", "host memory"} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("RELAY_LINEAR %d bytes from %s", n, from),
				protects: "data of any length come from any memory to a dispatcher's write",
				fn:       func(t *fixture) { relayLinear(t, n, from, 0) },
			})
		}
	}
	for _, skew := range []int{16, 32, 48} {
		for _, n := range []int{16, half - 16, half, half + 48, 200_000} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("RELAY_LINEAR %d bytes at address +%d", n, skew),
				protects: "the relay's scratch memory is aligned with its source",
				fn:       func(t *fixture) { relayLinear(t, n, "DRAM", skew) },
			})
		}
	}
	for _, dram := range []bool{true, false} {
		kind := map[bool]string{true: "DRAM", false: "L1"}[dram]
		for _, g := range []struct{ page, pages, start, adjust int }{
			{64, 1, 0, 0}, {64, 200, 3, 0}, {64, 7, 1, 16}, {1024, 33, 5, 1008}, {2048, 64, 0, 0}, {4096, 16, 2, 4000},
			{4096 + 64, 20, 0, 0}, {half, 2, 1, 0}, {half + 64, 3, 0, 0}, {100 << 10, 2, 4, 32752}, {200 << 10, 1, 0, 0},
		} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("RELAY_PAGED %s %d pages of %d from %d less %d", kind, g.pages, g.page, g.start, g.adjust),
				protects: "pages are gathered from the banks from the start page on, without the last ones' adjustment",
				fn:       func(t *fixture) { relayPaged(t, dram, g.page, g.pages, g.start, g.adjust) },
			})
		}
	}
	for _, subs := range []int{1, 2, 7, 34, 35} {
		for _, log := range []int{10, 11, 12, 14} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("RELAY_PAGED_PACKED %d buffers of pages of %d", subs, 1<<log),
				protects: "several interleaved buffers are gathered one after the other",
				fn:       func(t *fixture) { relayPagedPacked(t, subs, log) },
			})
		}
	}
	for _, log := range []int{11, 14} {
		for _, n := range []int{1 << log, 5<<log + 64, half - 64, half, half + 64} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("RELAY_PAGED_PACKED one buffer of %d bytes in pages of %d", n, 1<<log),
				protects: "whole pages and a part of one are gathered, whether half of the scratch memory holds them or not",
				fn:       func(t *fixture) { relayOnePacked(t, n, log) },
			})
		}
	}
	for _, log := range []int{6, 7, 10, 11, 12, 13, 15} {
		for _, commands := range []int{1, 40, 1000} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("EXEC_BUF %d commands in pages of %d", commands, 1<<log),
				protects: "commands in DRAM run as those of the issue queue do, wherever the pages end",
				fn:       func(t *fixture) { execBuf(t, commands, log) },
			})
		}
	}
	return append(cs, []testCase{
		{name: "RELAY_LINEAR_H", protects: "on the chip with the PCIe link RELAY_LINEAR_H is RELAY_LINEAR", fn: relayLinearH},
		{name: "RELAY_LINEAR from the end of a DRAM bank", protects: "the relay's source address has more than 32 bits where the tile has", fn: relayHigh},
		{name: "ring buffer from its start", protects: "a cached binary is relayed any number of times, in any pieces", fn: ringbufferPieces},
		{name: "ring buffer offsets", protects: "the cache's offsets choose what a relay counts from and where the next binary goes", fn: ringbufferOffsets},
		{name: "ring buffer full", protects: "the cache holds a whole mebibyte", fn: ringbufferFull},
		{name: "ring buffer and relay", protects: "a relay after a load of the cache waits for the load", fn: ringbufferThenRelay},
		{name: "EXEC_BUF with payload over many pages", protects: "a payload in a trace continues on the next pages", fn: execBufPayload},
		{name: "EXEC_BUF with relays", protects: "relays work inside of a trace", fn: execBufRelays},
		{name: "EXEC_BUF again and again", protects: "a trace and the issue queue take turns hundreds of times", fn: execBufRepeated},
		{name: "EXEC_BUF padding", protects: "pages past the end are not run", fn: execBufPadding},
	}...)
}

func relayLinear(t *fixture, n int, from string, skew int) {
	src, dst := t.grid().Start, t.grid().End
	data := pattern(uint32(n+skew), n)
	var noc uint32
	var addr uint64
	switch from {
	case "L1":
		t.poke(src, scratch, data)
		noc, addr = t.nocXY(src), scratch
	case "DRAM":
		bank := t.ch.DRAMBanks()[1]
		at := uint64(3<<20 + skew)
		t.pokeDRAM(1, at, data)
		noc, addr = t.p.Arch.NOCXY(bank.Endpoint[0]), bank.Offset+at
	default:
		h := t.pin(n + 4096)
		copy(h.Bytes()[128:], data)
		noc, addr = t.p.Arch.NOCXY(t.ch.PCIe(chip.NOC0)), h.NOCAddr()+128
	}
	want := t.guarded(dst, scratch, data)
	t.do(func(b *cq.Builder) {
		b.WriteLinearHeader(cq.WriteLinear{NOC: t.nocXY(dst), Addr: scratch, Length: uint64(n)})
		b.RelayLinear(cq.RelayLinear{NOC: noc, Addr: addr, Length: uint64(n)})
	})
	t.same("relayed", want, t.peek(dst, scratch-32, len(want)))
}

func relayLinearH(t *fixture) {
	src, dst := t.grid().Start, t.grid().End
	data := pattern(4, 10_000)
	t.poke(src, scratch, data)
	t.do(func(b *cq.Builder) {
		b.WriteLinearHeader(cq.WriteLinear{NOC: t.nocXY(dst), Addr: scratch, Length: uint64(len(data))})
		b.RelayLinearH(cq.RelayLinearH{NOC: t.nocXY(src), Addr: scratch, Length: uint32(len(data))})
	})
	t.same("relayed", data, t.peek(dst, scratch, len(data)))
}

func relayHigh(t *fixture) {
	bank := t.ch.DRAMBanks()[0]
	data := pattern(5, 1024)
	t.pokeDRAM(0, bank.Size-1024, data)
	got := make([]byte, len(data))
	t.ok(t.q.Receive(t.ctx, t.commands(func(b *cq.Builder) {
		b.WriteHostHeader(cq.WriteHost{Length: uint64(16 + len(data))})
		b.RelayLinear(cq.RelayLinear{NOC: t.p.Arch.NOCXY(bank.Endpoint[0]), Addr: bank.Offset + bank.Size - 1024, Length: uint64(len(data))})
	}), got))
	t.same("relayed", data, got)
}

// pokePages writes the pages of an interleaved buffer past the command queues.
func (t *fixture) pokePages(dram bool, base uint64, size, start int, data []byte) {
	t.Helper()
	w := t.grid().End.X + 1
	banks := t.disp.L1Banks()
	if dram {
		banks = len(t.ch.DRAMBanks())
	}
	for i := 0; i*size < len(data); i++ {
		bank, row := (start+i)%banks, (start+i)/banks
		p := data[i*size : min((i+1)*size, len(data))]
		if dram {
			t.pokeDRAM(bank, base+uint64(row*size), p)
		} else {
			t.poke(chip.Core{X: bank % w, Y: bank / w}, uint32(base)+uint32(row*size), p)
		}
	}
}

func relayPaged(t *fixture, dram bool, size, pages, start, adjust int) {
	base := uint64(scratch)
	if dram {
		base = 1 << 20
	}
	data := pattern(uint32(size*pages), size*pages)
	t.pokePages(dram, base, size, start, data)
	got := make([]byte, len(data)-adjust)
	t.ok(t.q.Receive(t.ctx, t.commands(func(b *cq.Builder) {
		b.WriteHostHeader(cq.WriteHost{Length: uint64(16 + len(got))})
		b.RelayPaged(cq.RelayPaged{StartPage: uint8(start), DRAM: dram, LengthAdjust: uint16(adjust), Base: uint32(base), PageSize: uint32(size),
			Pages: uint32(pages)})
	}), got))
	t.same("relayed", data[:len(got)], got)
}

// relayOnePacked gathers a buffer that begins at a later page than the first bank's, with something after it that isn't asked for.
func relayOnePacked(t *fixture, n, log int) {
	const base = 2 << 20
	start := len(t.ch.DRAMBanks()) - 2
	data := pattern(uint32(n), n+64)
	t.pokePages(true, base, 1<<log, start, data)
	dst := t.grid().End
	want := t.guarded(dst, scratch, data[:n])
	t.do(func(b *cq.Builder) {
		b.WriteLinearHeader(cq.WriteLinear{NOC: t.nocXY(dst), Addr: scratch, Length: uint64(n)})
		b.RelayPagedPacked(cq.RelayPagedPacked{Subs: []cq.PagedSub{{StartPage: uint16(start), LogPageSize: uint16(log), Base: base,
			Length: uint32(n)}}})
	})
	t.same("relayed", want, t.peek(dst, scratch-32, len(want)))
}

func relayPagedPacked(t *fixture, subs, log int) {
	align := t.layout().DRAMAlign()
	var r cq.RelayPagedPacked
	var want []byte
	banks := len(t.ch.DRAMBanks())
	for i := range subs {
		n := (1<<log)*(i%3) + align*(1+i%5) // less than a page, a page and a bit, two pages and a bit
		base := uint64(2<<20 + i*(1<<16))
		data := pattern(uint32(i+subs), n)
		t.pokePages(true, base, 1<<log, i%banks, data)
		r.Subs = append(r.Subs, cq.PagedSub{StartPage: uint16(i % banks), LogPageSize: uint16(log), Base: uint32(base), Length: uint32(n)})
		want = append(want, data...)
	}
	dst := t.grid().Start
	t.do(func(b *cq.Builder) {
		b.WriteLinearHeader(cq.WriteLinear{NOC: t.nocXY(dst), Addr: scratch, Length: uint64(len(want))})
		b.RelayPagedPacked(r)
	})
	t.same("relayed", want, t.peek(dst, scratch, len(want)))
}

func ringbufferPieces(t *fixture) {
	const log, n = 11, 40_000
	align := t.layout().DRAMAlign()
	n0 := n / align * align
	data := pattern(11, n0)
	t.pokePages(true, 4<<20, 1<<log, 2, data)
	dst := t.grid().End
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
		t.do(func(b *cq.Builder) {
			if k == 1 {
				b.PagedToRingbuffer(cq.PagedToRingbuffer{Reset: true, LogPageSize: log, StartPage: 2, Advance: uint32(n0), Base: 4 << 20,
					Length: uint32(n0)})
			}
			b.WriteLinearHeader(cq.WriteLinear{NOC: t.nocXY(dst), Addr: scratch, Length: uint64(len(want))})
			b.RelayRingbuffer(cq.RelayRingbuffer{Subs: subs[:k]})
		})
		t.same(fmt.Sprintf("%d pieces", k), want, t.peek(dst, scratch, len(want)))
	}
}

func ringbufferOffsets(t *fixture) {
	const log, n = 12, 8192
	var all [4][]byte
	for i := range all {
		all[i] = pattern(uint32(20+i), n)
		t.pokePages(true, uint64(5<<20+i<<16), 1<<log, i, all[i])
	}
	dst := t.grid().Start
	load := func(b *cq.Builder, i int, reset bool) {
		b.PagedToRingbuffer(cq.PagedToRingbuffer{Reset: reset, LogPageSize: log, StartPage: uint8(i), Advance: n, Base: uint32(5<<20 + i<<16),
			Length: n})
	}
	use := func(b *cq.Builder, i int) {
		b.WriteLinearHeader(cq.WriteLinear{NOC: t.nocXY(dst), Addr: uint64(scratch + i*n), Length: n})
		b.RelayRingbuffer(cq.RelayRingbuffer{Subs: []cq.RingSub{{Length: n}}})
	}
	t.do(func(b *cq.Builder) {
		for i := range all {
			load(b, i, i == 0)
		}
		for _, i := range []int{3, 0, 2, 1} {
			b.SetRingbufferOffset(cq.SetRingbufferOffset{Offset: uint32(i * n)})
			use(b, i)
		}
		// The second place again, with what was the first binary; the others must be as before.
		b.SetRingbufferOffset(cq.SetRingbufferOffset{Offset: n, Write: true})
		load(b, 0, false)
		use(b, 4)
		b.SetRingbufferOffset(cq.SetRingbufferOffset{Offset: 2 * n})
		use(b, 5)
	})
	for i, k := range []int{0, 1, 2, 3, 0, 2} {
		t.same(fmt.Sprintf("relay %d", i), all[k], t.peek(dst, uint32(scratch+i*n), n))
	}
}

func ringbufferFull(t *fixture) {
	const log, n = 12, 1 << 20
	data := pattern(30, n)
	t.pokePages(true, 6<<20, 1<<log, 0, data)
	dst := t.grid().Start
	for _, at := range []uint32{0, 500_000 &^ 63, n - 65536} {
		t.do(func(b *cq.Builder) {
			if at == 0 {
				b.PagedToRingbuffer(cq.PagedToRingbuffer{Reset: true, LogPageSize: log, Advance: n, Base: 6 << 20, Length: n})
			}
			b.WriteLinearHeader(cq.WriteLinear{NOC: t.nocXY(dst), Addr: scratch, Length: 65536})
			b.RelayRingbuffer(cq.RelayRingbuffer{Subs: []cq.RingSub{{Start: at, Length: 65536}}})
		})
		t.same(fmt.Sprintf("64 KiB at %#x of the cache", at), data[at:at+65536], t.peek(dst, scratch, 65536))
	}
}

func ringbufferThenRelay(t *fixture) {
	data := pattern(40, half)
	t.pokePages(true, 8<<20, 4096, 0, data)
	src, dst := t.grid().Start, t.grid().End
	t.poke(src, scratch, pattern(41, 4096))
	for range 10 {
		t.send(func(b *cq.Builder) {
			// The cache lies where the scratch memory is, so this relay overwrites its beginning.
			b.PagedToRingbuffer(cq.PagedToRingbuffer{Reset: true, LogPageSize: 12, Advance: half, Base: 8 << 20, Length: half})
			b.WriteLinearHeader(cq.WriteLinear{NOC: t.nocXY(dst), Addr: scratch, Length: 4096})
			b.RelayLinear(cq.RelayLinear{NOC: t.nocXY(src), Addr: scratch, Length: 4096})
		})
	}
	t.finish()
	t.same("relayed", pattern(41, 4096), t.peek(dst, scratch, 4096))
}

// trace lays commands out in DRAM and returns what runs them.
func (t *fixture) trace(base uint64, log int, padding int, add func(*cq.Builder)) cq.ExecBuf {
	t.Helper()
	cmds := t.commands(func(b *cq.Builder) {
		add(b)
		b.ExecBufEnd()
	})
	size := 1 << log
	pages := (len(cmds)+size-1)/size + padding
	all := pattern(99, pages*size)
	copy(all, cmds)
	t.pokePages(true, base, size, 0, all)
	return cq.ExecBuf{Base: uint32(base), LogPageSize: uint32(log), Pages: uint32(pages)}
}

// exec runs a trace and returns when it was submitted.
func (t *fixture) exec(x cq.ExecBuf) {
	t.Helper()
	t.ok(t.q.Send(t.ctx, t.commands(func(b *cq.Builder) { b.ExecBuf(x) }), true))
}

func execBuf(t *fixture, commands, log int) {
	dst := t.grid().End
	t.poke(dst, scratch, make([]byte, 16*commands+64))
	x := t.trace(9<<20, log, 0, func(b *cq.Builder) {
		for i := range commands {
			b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(dst), Addr: uint64(scratch + 16*i), Data: pattern(uint32(i), 16)})
		}
	})
	t.exec(x)
	t.finish()
	for i := range commands {
		t.same(fmt.Sprintf("command %d", i), pattern(uint32(i), 16), t.peek(dst, uint32(scratch+16*i), 16))
	}
}

func execBufPayload(t *fixture) {
	dst := t.grid().Start
	for _, log := range []int{7, 10, 12} {
		for _, n := range []int{1, 1000, 16384, 70_000, 200_000} {
			data := pattern(uint32(n+log), n)
			want := t.guarded(dst, scratch, data)
			t.exec(t.trace(9<<20, log, 0, func(b *cq.Builder) {
				b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(dst), Addr: scratch, Data: data})
			}))
			t.finish()
			t.same(fmt.Sprintf("%d bytes in pages of %d", n, 1<<log), want, t.peek(dst, scratch-32, len(want)))
		}
	}
}

func execBufRelays(t *fixture) {
	src, dst := t.grid().Start, t.grid().End
	data := pattern(50, 150_000)
	t.poke(src, scratch, data)
	var subs []cq.PagedSub
	var want []byte
	for i := range 35 {
		p := pattern(uint32(60+i), 2048)
		t.pokePages(true, uint64(12<<20+i<<12), 2048, 0, p)
		subs = append(subs, cq.PagedSub{LogPageSize: 11, Base: uint32(12<<20 + i<<12), Length: 2048})
		want = append(want, p...)
	}
	x := t.trace(10<<20, 10, 0, func(b *cq.Builder) {
		for i := range 3 {
			b.WriteLinearHeader(cq.WriteLinear{NOC: t.nocXY(dst), Addr: scratch, Length: uint64(len(data))})
			b.RelayLinear(cq.RelayLinear{NOC: t.nocXY(src), Addr: scratch, Length: uint64(len(data))})
			b.WriteLinearHeader(cq.WriteLinear{NOC: t.nocXY(dst), Addr: uint64(0x80000 + i*0x12000), Length: uint64(len(want))})
			b.RelayPagedPacked(cq.RelayPagedPacked{Subs: subs})
			b.WaitStall(cq.Wait{})
		}
	})
	t.exec(x)
	t.finish()
	t.same("linear", data, t.peek(dst, scratch, len(data)))
	for i := range 3 {
		t.same("packed", want, t.peek(dst, uint32(0x80000+i*0x12000), len(want)))
	}
}

func execBufRepeated(t *fixture) {
	dst := t.grid().Start
	x := t.trace(11<<20, 12, 0, func(b *cq.Builder) {
		b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(dst), Addr: scratch, Data: pattern(70, 64)})
		b.WriteLinear(cq.WriteLinear{OffsetIndex: 1, NOC: t.nocXY(dst), Addr: scratch + 64, Data: pattern(71, 64)})
	})
	n := t.size(300, 60)
	for i := range n {
		t.send(func(b *cq.Builder) {
			b.SetWriteOffset(cq.SetWriteOffset{Count: 2, Offsets: [4]uint32{0, uint32(64 * i)}})
			b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(dst), Addr: scratch, Data: pattern(72, 64)})
		})
		t.exec(x)
	}
	t.do(func(b *cq.Builder) { b.SetWriteOffset(cq.SetWriteOffset{Count: 4}) })
	t.same("first write", pattern(70, 64), t.peek(dst, scratch, 64))
	for i := range n {
		t.same(fmt.Sprintf("replay %d", i), pattern(71, 64), t.peek(dst, uint32(scratch+64+64*i), 64))
	}
}

// Padding is read ahead like anything else in a trace. It may still be coming when the trace ends, and must not land on the
// commands after it, which are read to the same memory.
func execBufPadding(t *fixture) {
	dst := t.grid().Start
	for _, padding := range []int{1, 5, 100} {
		x := t.trace(11<<20, 10, padding, func(b *cq.Builder) {
			b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(dst), Addr: scratch, Data: pattern(uint32(padding), 64)})
		})
		after := pattern(uint32(padding+1), 40_000)
		t.exec(x)
		t.send(func(b *cq.Builder) {
			for i := 0; i < len(after); i += 10_000 {
				b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(dst), Addr: uint64(scratch + 64 + i), Data: after[i:][:10_000]})
			}
		})
		t.finish()
		t.same("written", pattern(uint32(padding), 64), t.peek(dst, scratch, 64))
		t.same("written after the trace", after, t.peek(dst, scratch+64, len(after)))
	}
}
