// Package commands has the cases of the prefetcher's and the dispatchers' commands and rings.
package commands

import (
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/rig"
)

// Cases are the cases of commands of the prefetcher and the dispatcher at the edges of their
// arguments.
func Cases() (cs rig.Table) {
	// Around the NoC's word, the chips' packet limits, the ring's pages and blocks.
	rig.Each(&cs, "WRITE_LINEAR of %d bytes to one core", "an inline write of any length arrives whole and changes nothing around it", writeLinear,
		1, 2, 4, 16, 31, 64, 100, page-33, page-32, page-31, page, page+1, 8191, 8192, 8193, 16384, 16385, 65536, 126<<10)
	rig.Each(&cs, "WRITE_LINEAR of %d bytes to a rectangle", "a multicast reaches every core of its rectangle and none outside",
		writeLinearRect, 4, 64, page-32, page+16, 16384, 40000)
	rig.Pairs(&cs, "WRITE_PAGED %s %d pages of %d from %d", "pages go round the banks from the start page on, whatever their size",
		func(t *rig.T, kind string, n [3]int) { writePaged(t, kind == "DRAM", n[1], n[0], n[2]) }, []string{"DRAM", "L1"}, [][3]int{
			{1, 64, 0}, {1, 64, 5}, {100, 64, 3}, {17, 1024, 6}, {3, page, 0}, {9, page - 64, 1}, {5, page + 64, 0}, {60, 2048, 2}, {1, 65536, 4}, {3, 40960, 7},
		})
	cs.Add("WRITE_LINEAR to the end of L1", "the last byte of L1 can be written and the first", func(t *rig.T) {
		c := t.Grid().End
		data := rig.Pattern(5, 64)
		t.Do(func(b *cq.Builder) {
			t.WriteTile(b, c, int(t.Params.L1Size)-64, data)
			t.WriteTile(b, c, int(t.L1.Unreserved), data)
		})
		t.InL1(c, t.Params.L1Size-64, data, "last bytes of L1")
		t.InL1(c, t.L1.Unreserved, data, "first free bytes of L1")
	})
	cs.Add("WRITE_LINEAR to DRAM above 4 GiB", "a write's address has more than 32 bits where the tile has", func(t *rig.T) {
		bank := t.Chip.DRAMBanks()[0]
		at := bank.Size - 4096
		data := rig.Pattern(6, 256)
		t.Do(func(b *cq.Builder) {
			b.WriteLinear(cq.WriteLinear{NOC: t.Params.Arch.NOCXY(bank.Endpoint[0]), Addr: bank.Offset + at, Data: data})
		})
		t.InDRAM(0, at, data, "near the end of bank 0")
	})
	cs.Add("WRITE_LINEAR_H", "on the chip with the PCIe link WRITE_LINEAR_H is WRITE_LINEAR", func(t *rig.T) {
		c := t.Grid().Start
		data := rig.Pattern(7, 1000)
		t.Do(func(b *cq.Builder) {
			b.WriteLinear(cq.WriteLinear{H: true, NOC: t.NOCXY(c), Addr: rig.Scratch, Data: data})
		})
		t.InL1(c, rig.Scratch, data, "written")
	})
	cs.Add("SET_WRITE_OFFSET 0 to 4", "commands add the write offset that they name", writeOffsets)
	cs.Add("SET_WRITE_OFFSET wraps", "an offset is added modulo the address space", writeOffsetPacked)
	cs.Add("WRITE_LINEAR_H_HOST of every size class", "records of any length reach the host whole", func(t *rig.T) {
		for _, n := range []int{4, 16, 100, page - 16, page - 15, page, 2*page - 16, 16384, 16385, 65536, 120 << 10} {
			data := rig.Pattern(n, n)
			received(t, data, "record of %d bytes", n)
		}
	})
	cs.Add("WRITE_LINEAR_H_HOST and events interleaved", "records and events come in the order of their commands", func(t *rig.T) {
		for i := range 40 {
			data := rig.Pattern(i, 100*i+4)
			received(t, data, "record %d", i)
			t.Finish()
		}
	})
	cs.Add("many small writes", "thousands of commands in one batch keep their order", manySmall)
	return slices.Concat(cs, packedCases(), relayCases(), syncCases(), ownCases())
}

const page = 4096

// guard is how many bytes of an area lie before rig.Scratch, and as many after the size.
const guard = 32

// area has what cores have in their scratch memory and around it.
type area struct {
	t    *rig.T
	want map[chip.Core][]byte
}

// newArea fills the memory of some cores.
func newArea(t *rig.T, size int, cores ...chip.Core) area {
	a := area{t, map[chip.Core][]byte{}}
	for _, c := range cores {
		if a.want[c] == nil {
			a.want[c] = rig.Pattern(0xDEAD, size+2*guard)
			t.Poke(c, rig.Scratch-guard, a.want[c])
		}
	}
	return a
}

// put is a write of data to the cores of a range.
func (a area) put(r chip.Range, at int, data []byte) {
	for c, want := range a.want {
		if r.Contains(c) {
			copy(want[guard+at:], data)
		}
	}
}

func (a area) check(what string, args ...any) {
	for c, want := range a.want {
		a.t.InL1(c, rig.Scratch-guard, want, what, args...)
	}
}

// arrives checks that commands leave data in a core's scratch memory, and nothing around it.
func arrives(t *rig.T, c chip.Core, data []byte, what string, commands func(*cq.Builder)) {
	a := newArea(t, len(data), c)
	a.put(c.Range(), 0, data)
	t.Do(commands)
	a.check("%s", what)
}

func writeLinear(t *rig.T, n int) {
	for i, c := range []chip.Core{{X: 0, Y: 0}, t.Grid().End} {
		data := rig.Pattern(n+i, n)
		arrives(t, c, data, "written", func(b *cq.Builder) { t.WriteTile(b, c, rig.Scratch, data) })
	}
}

func writeLinearRect(t *rig.T, n int) {
	for i, name := range []string{"single", "row", "column", "corner", "inner", "all"} {
		r := rig.Rectangle(t.Grid(), name)
		data := rig.Pattern(n+i, n)
		noc, cores := t.NOCRect(r)
		a := newArea(t, n, append(t.Corners(), chip.Core{X: 1, Y: 1}, chip.Core{X: 2, Y: 0}, chip.Core{X: 0, Y: 2})...)
		a.put(r, 0, data)
		t.Do(func(b *cq.Builder) {
			b.WriteLinear(cq.WriteLinear{McastDests: uint8(cores), NOC: noc, Addr: rig.Scratch, Data: data})
		})
		a.check("%s", name)
	}
}

func writePaged(t *rig.T, dram bool, size, pages, start int) {
	banks, base := t.Dispatch.L1Banks(), uint64(rig.Scratch)
	if dram {
		banks, base = len(t.Chip.DRAMBanks()), 1<<20
	}
	data := rig.Pattern(size+pages, size*pages)
	t.Do(func(b *cq.Builder) {
		for left, at := pages, 0; left > 0; {
			n := min(left, max(1, (100<<10)/size))
			p := start + at
			b.WritePaged(cq.WritePaged{
				DRAM: dram, StartPage: uint16(p % banks), Base: uint32(base) + uint32(p/banks*size), PageSize: uint32(size), Pages: uint32(n),
				Data: data[at*size : (at+n)*size],
			})
			if left -= n; left > 0 { // one fetch entry holds 128 KiB
				cmds, err := b.Finish()
				t.OK(err)
				t.OK(t.CQ.Send(t.Ctx, cmds, false))
				b.Reset(nil)
			}
			at += n
		}
	})
	t.InPages(dram, base, size, start, data)
}

func writeOffsets(t *rig.T) {
	c := t.Grid().Start
	t.Poke(c, rig.Scratch, make([]byte, 0x1000))
	want := make([]byte, 0x1000)
	t.Do(func(b *cq.Builder) {
		b.SetWriteOffset(cq.SetWriteOffset{Count: 4, Offsets: [4]uint32{0, 0x100, 0x200, 0x300}})
		for round := range 5 {
			for i := range 4 {
				data := rig.Pattern(10*round+i, 16)
				at := uint32(round * 0x20)
				b.WriteLinear(cq.WriteLinear{OffsetIndex: uint8(i), NOC: t.NOCXY(c), Addr: uint64(rig.Scratch + at), Data: data})
				off := []uint32{0, 0x100, 0x200, 0x300}[i]
				if round > 0 && i < round-1 {
					off += 0x400
				}
				copy(want[at+off:], data)
			}
			b.SetWriteOffset(cq.SetWriteOffset{Count: uint8(round), Offsets: [4]uint32{0x400, 0x500, 0x600, 0x700}})
		}
		b.SetWriteOffset(cq.SetWriteOffset{Count: 4})
	})
	t.InL1(c, rig.Scratch, want, "five rounds")
}

func writeOffsetPacked(t *rig.T) {
	c := t.Grid().Start
	data := rig.Pattern(8, 16)
	t.Do(func(b *cq.Builder) {
		b.SetWriteOffset(cq.SetWriteOffset{Count: 2, Offsets: [4]uint32{0, 0xFFFFF000}})
		b.WritePacked(cq.WritePacked{Type: cq.PackedRuntimeArgs, OffsetIndex: 1, Size: 16, Addr: rig.Scratch + 0x1000, Cores: []uint32{t.NOCXY(c)},
			Data: data})
		b.SetWriteOffset(cq.SetWriteOffset{Count: 4})
	})
	t.InL1(c, rig.Scratch, data, "0x1000 below the address")
}

func received(t *rig.T, data []byte, what string, args ...any) {
	got := make([]byte, len(data))
	t.OK(t.CQ.Receive(t.Ctx, t.Commands(func(b *cq.Builder) { b.WriteHost(cq.WriteHost{Data: data}) }), got))
	t.Same(data, got, what, args...)
}

func manySmall(t *rig.T) {
	c := t.Grid().Start
	n := t.Size(1500, 600)
	t.Poke(c, rig.Scratch, make([]byte, 64))
	t.Do(func(b *cq.Builder) {
		for i := range n {
			t.WriteTile(b, c, rig.Scratch, rig.AppendWord(nil, uint32(i)))
		}
	})
	rig.Equal(t, rig.Word(t.Peek(c, rig.Scratch, 4)), uint32(n-1), "the last of many writes to one word")
}

func packedCases() (cs rig.Table) {
	own := func(t *rig.T, subs, size int) { WritePacked(t, subs, size, false) }
	for _, subs := range []int{1, 2, 3, 4, 5, 40, 110, 161, 255, 500, 1020} {
		rig.Pairs(&cs, "WRITE_PACKED %d times %d bytes", "every destination gets its own slot, wherever the ring's pages end", own,
			[]int{subs}, []int{4, 16, 20, 96})
		rig.Each(&cs, "WRITE_PACKED no stride %d times", "without stride all destinations get the same slot",
			func(t *rig.T, subs int) { WritePacked(t, subs, 64, true) }, subs)
	}
	for _, size := range []int{1364, 2048, page - 16, page} {
		rig.Pairs(&cs, "WRITE_PACKED %d times %d bytes", "slots may be as long as a page of the ring", own, []int{20}, []int{size})
		rig.Each(&cs, "WRITE_PACKED no stride %d bytes", "a shared slot may be as long as a page of the ring and lie across two",
			func(t *rig.T, size int) { WritePacked(t, 70, size, true) }, size)
	}
	rig.Pairs(&cs, "WRITE_PACKED %d rectangles %s", "multicasts in a packed write reach their rectangles",
		func(t *rig.T, rects int, stride string) { WritePackedRects(t, rects, stride == "no stride") },
		[]int{1, 2, 3, 20, 80, 81, 510}, []string{"own slots", "no stride"})
	rig.Pairs(&cs, "WRITE_PACKED_LARGE %d times %d bytes", "pieces go to their rectangles, linked or not", WriteLarge,
		[]int{1, 2, 5, 17, 34, 35}, []int{1, 16, 100, 5000})
	cs.Add("WRITE_PACKED_LARGE of 65536 bytes", "the longest run, whose length field is all ones, is written whole",
		func(t *rig.T) { WriteLarge(t, 1, 65536) })
	cs.Add("WRITE_PACKED_LARGE linked", "runs up to an unlink share the first one's rectangle", WriteLargeLinked)
	return cs
}

// some returns n cores of the grid, different as long as there are enough.
func some(t *rig.T, n int) []chip.Core {
	g := t.Grid()
	var out []chip.Core
	for len(out) < n {
		for c := range g.Cores() {
			if out = append(out, c); len(out) == n {
				break
			}
		}
	}
	return out
}

// slotOf is what destination i of a packed write gets, or all if they get the same.
func slotOf(i, size int, same bool) []byte {
	if same {
		i = 0
	}
	return rig.Pattern(i+1, size)
}

func WritePacked(t *rig.T, subs, size int, same bool) {
	cores := some(t, subs)
	stride := cq.SlotStride(size)
	// With more destinations than cores the last slot for a core wins.
	w := cq.WritePacked{Type: cq.PackedRuntimeArgs, Size: uint16(size), Addr: rig.Scratch, NoStride: same}
	a := newArea(t, size, cores...)
	for i, c := range cores {
		w.Cores = append(w.Cores, t.NOCXY(c))
		slot := slotOf(i, size, same)
		if !same || i == 0 {
			w.Data = append(append(w.Data, slot...), make([]byte, stride-size)...)
		}
		a.put(c.Range(), 0, slot)
	}
	t.Do(func(b *cq.Builder) { b.WritePacked(w) })
	a.check("written")
}

func WritePackedRects(t *rig.T, rects int, same bool) {
	g := t.Grid()
	const size = 48
	w := cq.WritePacked{Type: cq.PackedLaunch, Size: size, Addr: rig.Scratch, NoStride: same}
	a := newArea(t, size, slices.Collect(g.Cores())...)
	for i := range rects {
		r := chip.Range{Start: chip.Core{X: i % (g.End.X + 1), Y: i / 3 % (g.End.Y + 1)}}
		r.End = chip.Core{X: min(g.End.X, r.Start.X+i%4), Y: min(g.End.Y, r.Start.Y+i%3)}
		noc, cores := t.NOCRect(r)
		w.Rects = append(w.Rects, cq.Rect{NOC: noc, Dests: uint32(cores)})
		slot := slotOf(i, size, same)
		if !same || i == 0 {
			w.Data = append(w.Data, slot...)
		}
		a.put(r, 0, slot)
	}
	t.Do(func(b *cq.Builder) { b.WritePacked(w) })
	a.check("written")
}

// WriteLarge writes runs in all cores of rectangles; every third begins a new rectangle.
func WriteLarge(t *rig.T, subs, size int) {
	if n := subs * (size + 16); n > 120<<10 {
		subs = 120 << 10 / (size + 16)
	}
	g := t.Grid()
	rects := []string{"all", "row", "inner", "column", "corner", "single"}
	place := (size + 63) &^ 63
	w := cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16}
	a := newArea(t, subs*place, append(t.Corners(), chip.Core{X: 1, Y: 1})...)
	var r chip.Range
	for i := range subs {
		if i%3 == 0 {
			r = rig.Rectangle(g, rects[i/3%len(rects)])
		}
		noc, cores := t.NOCRect(r)
		data := rig.Pattern(i+1, size)
		w.Subs = append(w.Subs, cq.LargeSub{NOC: noc, Addr: uint32(rig.Scratch + i*place), Length: uint32(size), Dests: uint8(cores),
			Unlink: i%3 == 2 || i == subs-1})
		w.Data = append(append(w.Data, data...), make([]byte, (size+15)&^15-size)...)
		a.put(r, i*place, data)
	}
	t.Do(func(b *cq.Builder) { b.WritePackedLarge(w) })
	a.check("written")
}

func WriteLargeLinked(t *rig.T) {
	first, cores := t.NOCRect(rig.Rectangle(t.Grid(), "row"))
	other, _ := t.NOCRect(rig.Rectangle(t.Grid(), "last row"))
	data := rig.Pattern(1, 64)
	inRow, outside := chip.Core{X: 1}, chip.Core{X: 1, Y: t.Grid().End.Y}
	a := newArea(t, 64, inRow, outside)
	a.put(inRow.Range(), 0, data)
	t.Do(func(w *cq.Builder) {
		w.WritePackedLarge(cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16, Data: data,
			Subs: []cq.LargeSub{
				{NOC: first, Addr: rig.Scratch, Length: 32, Dests: uint8(cores)},
				{NOC: other, Addr: rig.Scratch + 32, Length: 32, Dests: uint8(cores), Unlink: true},
			}})
	})
	a.check("written to the first rectangle")
}
