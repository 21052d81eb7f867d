package commands

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

func packedCases() rig.Table {
	var cs rig.Table
	for _, subs := range []int{1, 2, 3, 4, 5, 40, 110, 161, 255, 500, 1020} {
		for _, size := range []int{4, 16, 20, 96} {
			cs.Add(fmt.Sprintf("WRITE_PACKED %d times %d bytes", subs, size), "every destination gets its own slot, however many there are and wherever the ring's pages end",
				func(t *rig.T) { WritePacked(t, subs, size, false) })
		}
		cs.Add(fmt.Sprintf("WRITE_PACKED no stride %d times", subs), "without stride all destinations get the same slot",
			func(t *rig.T) { WritePacked(t, subs, 64, true) })
	}
	for _, size := range []int{1364, 2048, page - 16, page} {
		cs.Add(fmt.Sprintf("WRITE_PACKED 20 times %d bytes", size), "slots may be as long as a page of the ring",
			func(t *rig.T) { WritePacked(t, 20, size, false) })
		cs.Add(fmt.Sprintf("WRITE_PACKED no stride %d bytes", size), "a shared slot may be as long as a page of the ring and lie across two",
			func(t *rig.T) { WritePacked(t, 70, size, true) })
	}
	for _, rects := range []int{1, 2, 3, 20, 80, 81, 510} {
		for _, same := range []bool{false, true} {
			stride := "own slots"
			if same {
				stride = "no stride"
			}
			cs.Add(fmt.Sprintf("WRITE_PACKED %d rectangles %s", rects, stride), "multicasts in a packed write reach their rectangles",
				func(t *rig.T) { WritePackedRects(t, rects, same) })
		}
	}
	for _, subs := range []int{1, 2, 5, 17, 34, 35} {
		for _, size := range []int{1, 16, 100, 5000} {
			cs.Add(fmt.Sprintf("WRITE_PACKED_LARGE %d times %d bytes", subs, size), "pieces go to their rectangles, linked or not",
				func(t *rig.T) { WriteLarge(t, subs, size) })
		}
	}
	cs.Add("WRITE_PACKED_LARGE of 65536 bytes", "the longest run, whose length field is all ones, is written whole",
		func(t *rig.T) { WriteLarge(t, 1, 65536) })
	cs.Add("WRITE_PACKED_LARGE linked", "runs up to an unlink share the first one's rectangle", WriteLargeLinked)
	cs.Add("WRITE_PACKED_LARGE one core", "a rectangle may be a single core", writeLargeSingle)
	return cs
}

// some returns n cores of the grid, all different as long as there are enough.
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

// WritePacked writes pieces of one size to single tiles.
func WritePacked(t *rig.T, subs, size int, same bool) {
	cores := some(t, subs)
	stride := cq.SlotStride(size)
	// With more destinations than cores the last slot for a core wins.
	w := cq.WritePacked{Type: cq.PackedRuntimeArgs, Size: uint16(size), Addr: rig.Scratch, NoStride: same}
	want := map[chip.Core][]byte{}
	for i, c := range cores {
		if want[c] == nil {
			t.Poke(c, rig.Scratch-32, rig.Pattern(0xDEAD, size+64))
		}
		w.Cores = append(w.Cores, t.NOCXY(c))
		if !same || i == 0 {
			w.Data = append(append(w.Data, rig.Pattern(uint32(i+1), size)...), make([]byte, stride-size)...)
		}
		slot := rig.Pattern(uint32(i+1), size)
		if same {
			slot = rig.Pattern(1, size)
		}
		want[c] = rig.Pattern(0xDEAD, size+64)
		copy(want[c][32:], slot)
	}
	t.Do(func(b *cq.Builder) { b.WritePacked(w) })
	for c, m := range want {
		t.InL1(fmt.Sprintf("core %v", c), c, rig.Scratch-32, m)
	}
}

// WritePackedRects writes pieces of one size to rectangles.
func WritePackedRects(t *rig.T, rects int, same bool) {
	g := t.Grid()
	const size = 48
	w := cq.WritePacked{Type: cq.PackedLaunch, Size: size, Addr: rig.Scratch, NoStride: same}
	want := map[chip.Core][]byte{}
	for c := range g.Cores() {
		want[c] = rig.Pattern(0xDEAD, size)
		t.Poke(c, rig.Scratch, want[c])
	}
	for i := range rects {
		// Rectangles of changing shape; a later one overwrites an earlier one.
		r := chip.Range{Start: chip.Core{X: i % (g.End.X + 1), Y: i / 3 % (g.End.Y + 1)}}
		r.End = chip.Core{X: min(g.End.X, r.Start.X+i%4), Y: min(g.End.Y, r.Start.Y+i%3)}
		noc, cores := t.NOCRect(r)
		w.Rects = append(w.Rects, cq.Rect{NOC: noc, Dests: uint32(cores)})
		slot := rig.Pattern(1, size)
		if !same {
			slot = rig.Pattern(uint32(i+1), size)
		}
		if !same || i == 0 {
			w.Data = append(w.Data, slot...)
		}
		for c := range r.Cores() {
			want[c] = slot
		}
	}
	t.Do(func(b *cq.Builder) { b.WritePacked(w) })
	for c, m := range want {
		t.InL1(fmt.Sprintf("core %v", c), c, rig.Scratch, m)
	}
}

// WriteLarge writes each run to a place of its own in all cores of a rectangle; every third run
// begins a new rectangle.
func WriteLarge(t *rig.T, subs, size int) {
	if n := subs * (size + 16); n > 120<<10 {
		subs = 120 << 10 / (size + 16)
	}
	g := t.Grid()
	rects := []string{"all", "row", "inner", "column", "corner", "single"}
	place := (size + 63) &^ 63
	w := cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16}
	watched := append(t.Corners(), chip.Core{X: 1, Y: 1})
	want := map[chip.Core][]byte{}
	for _, c := range watched {
		want[c] = rig.Pattern(0xDEAD, subs*place)
		t.Poke(c, rig.Scratch, want[c])
	}
	var r chip.Range
	for i := range subs {
		if i%3 == 0 {
			r = rig.Rectangle(g, rects[i/3%len(rects)])
		}
		noc, cores := t.NOCRect(r)
		data := rig.Pattern(uint32(i+1), size)
		w.Subs = append(w.Subs, cq.LargeSub{NOC: noc, Addr: uint32(rig.Scratch + i*place), Length: uint32(size), Dests: uint8(cores),
			Unlink: i%3 == 2 || i == subs-1})
		w.Data = append(append(w.Data, data...), make([]byte, (size+15)&^15-size)...)
		for _, c := range watched {
			if r.Contains(c) {
				copy(want[c][i*place:], data)
			}
		}
	}
	t.Do(func(b *cq.Builder) { b.WritePackedLarge(w) })
	for c, m := range want {
		t.InL1(fmt.Sprintf("core %v", c), c, rig.Scratch, m)
	}
}

// WriteLargeLinked writes pieces whose multicasts are linked.
func WriteLargeLinked(t *rig.T) {
	first, cores := t.NOCRect(rig.Rectangle(t.Grid(), "row"))
	other, _ := t.NOCRect(rig.Rectangle(t.Grid(), "last row"))
	a, b := rig.Pattern(1, 32), rig.Pattern(2, 32)
	inRow, outside := chip.Core{X: 1}, chip.Core{X: 1, Y: t.Grid().End.Y}
	for _, c := range []chip.Core{inRow, outside} {
		t.Poke(c, rig.Scratch, make([]byte, 64))
	}
	t.Do(func(w *cq.Builder) {
		w.WritePackedLarge(cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16, Data: append(append([]byte(nil), a...), b...),
			Subs: []cq.LargeSub{
				{NOC: first, Addr: rig.Scratch, Length: 32, Dests: uint8(cores)},
				{NOC: other, Addr: rig.Scratch + 32, Length: 32, Dests: uint8(cores), Unlink: true},
			}})
	})
	t.InL1("a core of the first rectangle", inRow, rig.Scratch, append(a, b...))
	t.InL1("a core outside of it", outside, rig.Scratch, make([]byte, 64))
}

func writeLargeSingle(t *rig.T) {
	for i, c := range t.Corners() {
		noc, cores := t.NOCRect(c.Range())
		data := rig.Pattern(uint32(i), 1000)
		t.Do(func(b *cq.Builder) {
			b.WritePackedLarge(cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16,
				Data: append(data[:len(data):len(data)], make([]byte, 8)...), Subs: []cq.LargeSub{
					{NOC: noc, Addr: rig.Scratch, Length: 1000, Dests: uint8(cores), Unlink: true},
				}})
		})
		t.InL1(fmt.Sprintf("core %v", c), c, rig.Scratch, data)
	}
}
