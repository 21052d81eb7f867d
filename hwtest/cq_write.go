package hwtest

import (
	"encoding/binary"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// page is a page of the dispatcher's ring.
const page = 4096

func cqWriteCases() []testCase {
	var cs []testCase
	// Around the NoC's word, the packet limits of both chips, the ring's pages and blocks.
	for _, n := range []int{1, 2, 4, 16, 31, 64, 100, page - 33, page - 32, page - 31, page, page + 1, 8191, 8192, 8193, 16384, 16385, 65536,
		126 << 10} {
		cs = append(cs,
			testCase{
				name:     fmt.Sprintf("WRITE_LINEAR of %d bytes to one core", n),
				protects: "an inline write of any length arrives whole and changes nothing around it",
				fn:       func(t *fixture) { writeLinear(t, n) },
			})
	}
	for _, n := range []int{4, 64, page - 32, page + 16, 16384, 40000} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("WRITE_LINEAR of %d bytes to a rectangle", n),
			protects: "a multicast of any length reaches every core of its rectangle and none outside",
			fn:       func(t *fixture) { writeLinearRect(t, n) },
		})
	}
	for _, dram := range []bool{true, false} {
		kind := "L1"
		if dram {
			kind = "DRAM"
		}
		for _, g := range []struct{ page, pages, start int }{
			{64, 1, 0}, {64, 1, 5}, {64, 100, 3}, {1024, 17, 6}, {page, 3, 0}, {page - 64, 9, 1}, {page + 64, 5, 0}, {2048, 60, 2}, {65536, 1, 4}, {40960, 3, 7},
		} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("WRITE_PAGED %s %d pages of %d from %d", kind, g.pages, g.page, g.start),
				protects: "pages go round the banks from the start page on, whatever their size",
				fn:       func(t *fixture) { writePaged(t, dram, g.page, g.pages, g.start) },
			})
		}
	}
	return append(cs, []testCase{
		{name: "WRITE_LINEAR to the end of L1", protects: "the last byte of L1 can be written and the first", fn: writeLinearEnds},
		{name: "WRITE_LINEAR to DRAM above 4 GiB", protects: "a write's address has more than 32 bits where the tile has", fn: writeLinearHigh},
		{name: "WRITE_LINEAR_H", protects: "on the chip with the PCIe link WRITE_LINEAR_H is WRITE_LINEAR", fn: writeLinearH},
		{name: "WRITE_LINEAR to every worker", protects: "every worker can be written by its coordinate", fn: writeLinearEvery},
		{name: "SET_WRITE_OFFSET 0 to 4", protects: "each write offset is added by exactly the commands that name it, and stays until set anew", fn: writeOffsets},
		{name: "SET_WRITE_OFFSET wraps", protects: "an offset is added modulo the address space, so it may stand for a negative one", fn: writeOffsetPacked},
		{name: "WRITE_LINEAR_H_HOST of every size class", protects: "records of any length reach the host whole", fn: writeHost},
		{name: "WRITE_LINEAR_H_HOST and events interleaved", protects: "records and events come in the order of their commands", fn: writeHostEvents},
		{name: "many small writes", protects: "thousands of commands in one batch keep their order", fn: manySmall},
		{name: "back to back batches", protects: "batches follow each other without gaps or losses", fn: backToBack},
	}...)
}

// guarded fills memory around and under where a write of n bytes will go, and returns what must be there afterwards.
func (t *fixture) guarded(c chip.Core, addr uint32, data []byte) (want []byte) {
	t.Helper()
	want = pattern(0xDEAD, len(data)+64)
	t.poke(c, addr-32, want)
	copy(want[32:], data)
	return want
}

func writeLinear(t *fixture, n int) {
	for i, c := range []chip.Core{{X: 0, Y: 0}, t.grid().End} {
		data := pattern(uint32(n+i), n)
		want := t.guarded(c, scratch, data)
		t.do(func(b *cq.Builder) { b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: scratch, Data: data}) })
		t.same(fmt.Sprintf("core %v", c), want, t.peek(c, scratch-32, n+64))
	}
}

func writeLinearRect(t *fixture, n int) {
	for i, name := range []string{"single", "row", "column", "corner", "inner", "all"} {
		r := rectangle(t.grid(), name)
		data := pattern(uint32(n+i), n)
		noc, cores := t.nocRect(r)
		sample := append(t.corners(), chip.Core{X: 1, Y: 1}, chip.Core{X: 2, Y: 0}, chip.Core{X: 0, Y: 2})
		want := map[chip.Core][]byte{}
		for _, c := range sample {
			if want[c] = t.guarded(c, scratch, data); !r.Contains(c) {
				want[c] = pattern(0xDEAD, n+64)
			}
		}
		t.do(func(b *cq.Builder) {
			b.WriteLinear(cq.WriteLinear{McastDests: uint8(cores), NOC: noc, Addr: scratch, Data: data})
		})
		for c, w := range want {
			t.same(fmt.Sprintf("%s: core %v", name, c), w, t.peek(c, scratch-32, n+64))
		}
	}
}

func writePaged(t *fixture, dram bool, size, pages, start int) {
	banks, base := t.disp.L1Banks(), uint64(scratch)
	if dram {
		banks, base = len(t.ch.DRAMBanks()), 1<<20
	}
	data := pattern(uint32(size+pages), size*pages)
	t.do(func(b *cq.Builder) {
		for left, at := pages, 0; left > 0; {
			n := min(left, max(1, (100<<10)/size))
			p := start + at
			b.WritePaged(cq.WritePaged{
				DRAM: dram, StartPage: uint16(p % banks), Base: uint32(base) + uint32(p/banks*size), PageSize: uint32(size), Pages: uint32(n),
				Data: data[at*size : (at+n)*size],
			})
			if left -= n; left > 0 { // one fetch entry holds 128 KiB
				cmds, err := b.Finish()
				t.ok(err)
				t.ok(t.q.Send(t.ctx, cmds, false))
				b.Reset(nil)
			}
			at += n
		}
	})
	g := t.grid()
	for i := range pages {
		bank, row := (start+i)%banks, (start+i)/banks
		addr := base + uint64(row*size)
		var got []byte
		if dram {
			got = t.peekDRAM(bank, addr, size)
		} else {
			w := g.End.X + 1
			got = t.peek(chip.Core{X: bank % w, Y: bank / w}, uint32(addr), size)
		}
		t.same(fmt.Sprintf("page %d", i), data[i*size:(i+1)*size], got)
	}
}

func writeLinearEnds(t *fixture) {
	c := t.grid().End
	data := pattern(5, 64)
	t.do(func(b *cq.Builder) {
		b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: uint64(t.p.L1Size) - 64, Data: data})
		b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: uint64(t.l1.Unreserved), Data: data})
	})
	t.same("last bytes of L1", data, t.peek(c, t.p.L1Size-64, 64))
	t.same("first free bytes of L1", data, t.peek(c, t.l1.Unreserved, 64))
}

func writeLinearHigh(t *fixture) {
	bank := t.ch.DRAMBanks()[0]
	at := bank.Size - 4096
	data := pattern(6, 256)
	t.do(func(b *cq.Builder) {
		b.WriteLinear(cq.WriteLinear{NOC: t.p.Arch.NOCXY(bank.Endpoint[0]), Addr: bank.Offset + at, Data: data})
	})
	t.same("near the end of bank 0", data, t.peekDRAM(0, at, 256))
}

func writeLinearH(t *fixture) {
	c := t.grid().Start
	data := pattern(7, 1000)
	t.do(func(b *cq.Builder) {
		b.WriteLinear(cq.WriteLinear{H: true, NOC: t.nocXY(c), Addr: scratch, Data: data})
	})
	t.same("written", data, t.peek(c, scratch, len(data)))
}

func writeLinearEvery(t *fixture) {
	t.do(func(b *cq.Builder) {
		for c := range t.grid().Cores() {
			b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: scratch, Data: pattern(uint32(c.X+100*c.Y), 32)})
		}
	})
	for c := range t.grid().Cores() {
		t.same(fmt.Sprintf("core %v", c), pattern(uint32(c.X+100*c.Y), 32), t.peek(c, scratch, 32))
	}
}

func writeOffsets(t *fixture) {
	c := t.grid().Start
	t.poke(c, scratch, make([]byte, 0x1000))
	want := make([]byte, 0x1000)
	t.do(func(b *cq.Builder) {
		b.SetWriteOffset(cq.SetWriteOffset{Count: 4, Offsets: [4]uint32{0, 0x100, 0x200, 0x300}})
		for round := range 5 {
			for i := range 4 {
				data := pattern(uint32(10*round+i), 16)
				at := uint32(round * 0x20)
				b.WriteLinear(cq.WriteLinear{OffsetIndex: uint8(i), NOC: t.nocXY(c), Addr: uint64(scratch + at), Data: data})
				off := []uint32{0, 0x100, 0x200, 0x300}[i]
				if round > 0 && i < round-1 { // those that a round before has set anew
					off += 0x400
				}
				copy(want[at+off:], data)
			}
			b.SetWriteOffset(cq.SetWriteOffset{Count: uint8(round), Offsets: [4]uint32{0x400, 0x500, 0x600, 0x700}})
		}
		b.SetWriteOffset(cq.SetWriteOffset{Count: 4})
	})
	t.same("five rounds", want, t.peek(c, scratch, len(want)))
}

func writeOffsetPacked(t *fixture) {
	c := t.grid().Start
	data := pattern(8, 16)
	t.do(func(b *cq.Builder) {
		b.SetWriteOffset(cq.SetWriteOffset{Count: 2, Offsets: [4]uint32{0, 0xFFFFF000}})
		b.WritePacked(cq.WritePacked{Type: cq.PackedRuntimeArgs, OffsetIndex: 1, Size: 16, Addr: scratch + 0x1000, Cores: []uint32{t.nocXY(c)},
			Data: data})
		b.SetWriteOffset(cq.SetWriteOffset{Count: 4})
	})
	t.same("0x1000 below the address", data, t.peek(c, scratch, 16))
}

func writeHost(t *fixture) {
	for _, n := range []int{4, 16, 100, page - 16, page - 15, page, 2*page - 16, 16384, 16385, 65536, 120 << 10} {
		data := pattern(uint32(n), n)
		got := make([]byte, n)
		t.ok(t.q.Receive(t.ctx, t.commands(func(b *cq.Builder) { b.WriteHost(cq.WriteHost{Data: data}) }), got))
		t.same(fmt.Sprintf("record of %d bytes", n), data, got)
	}
}

func writeHostEvents(t *fixture) {
	for i := range 40 {
		data := pattern(uint32(i), 100*i+4)
		got := make([]byte, len(data))
		t.ok(t.q.Receive(t.ctx, t.commands(func(b *cq.Builder) { b.WriteHost(cq.WriteHost{Data: data}) }), got))
		t.same(fmt.Sprintf("record %d", i), data, got)
		t.finish()
	}
}

func manySmall(t *fixture) {
	c := t.grid().Start
	n := t.size(1500, 600)
	t.poke(c, scratch, make([]byte, 64))
	t.do(func(b *cq.Builder) {
		for i := range n {
			b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: scratch, Data: binary.LittleEndian.AppendUint32(nil, uint32(i))})
		}
	})
	if got := binary.LittleEndian.Uint32(t.peek(c, scratch, 4)); got != uint32(n-1) {
		t.Errorf("the last of %d writes to one word has left %d", n, got)
	}
}

func backToBack(t *fixture) {
	c := t.grid().End
	n := t.size(1000, 200)
	for i := range n {
		t.send(func(b *cq.Builder) {
			b.WriteLinear(cq.WriteLinear{NOC: t.nocXY(c), Addr: uint64(scratch + 16*i), Data: pattern(uint32(i), 16)})
		})
	}
	t.finish()
	for i := range n {
		t.same(fmt.Sprintf("batch %d", i), pattern(uint32(i), 16), t.peek(c, uint32(scratch+16*i), 16))
	}
}
