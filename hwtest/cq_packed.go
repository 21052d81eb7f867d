package hwtest

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

func cqPackedCases() []testCase {
	var cs []testCase
	for _, subs := range []int{1, 2, 3, 4, 5, 40, 110, 161, 255, 500, 1020} {
		for _, size := range []int{4, 16, 20, 96} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("WRITE_PACKED %d times %d bytes", subs, size),
				protects: "every destination gets its own slot, however many there are and wherever the ring's pages end",
				fn:       func(t *fixture) { writePacked(t, subs, size, false) },
			})
		}
		cs = append(cs, testCase{
			name:     fmt.Sprintf("WRITE_PACKED no stride %d times", subs),
			protects: "without stride all destinations get the same slot",
			fn:       func(t *fixture) { writePacked(t, subs, 64, true) },
		})
	}
	for _, size := range []int{1364, 2048, page - 16, page} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("WRITE_PACKED 20 times %d bytes", size),
			protects: "slots may be as long as a page of the ring",
			fn:       func(t *fixture) { writePacked(t, 20, size, false) },
		}, testCase{
			name:     fmt.Sprintf("WRITE_PACKED no stride %d bytes", size),
			protects: "a shared slot may be as long as a page of the ring and lie across two",
			fn:       func(t *fixture) { writePacked(t, 70, size, true) },
		})
	}
	for _, rects := range []int{1, 2, 3, 20, 80, 81, 510} {
		for _, same := range []bool{false, true} {
			stride := "own slots"
			if same {
				stride = "no stride"
			}
			cs = append(cs, testCase{
				name:     fmt.Sprintf("WRITE_PACKED %d rectangles %s", rects, stride),
				protects: "multicasts in a packed write reach their rectangles",
				fn:       func(t *fixture) { writePackedRects(t, rects, same) },
			})
		}
	}
	for _, subs := range []int{1, 2, 5, 17, 34, 35} {
		for _, size := range []int{1, 16, 100, 5000} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("WRITE_PACKED_LARGE %d times %d bytes", subs, size),
				protects: "pieces go to their rectangles, linked or not",
				fn:       func(t *fixture) { writeLarge(t, subs, size) },
			})
		}
	}
	return append(cs, []testCase{
		{name: "WRITE_PACKED_LARGE of 65536 bytes", protects: "the longest run, whose length field is all ones, is written whole", fn: func(t *fixture) { writeLarge(t, 1, 65536) }},
		{name: "WRITE_PACKED_LARGE linked", protects: "runs up to an unlink share the first one's rectangle", fn: writeLargeLinked},
		{name: "WRITE_PACKED_LARGE one core", protects: "a rectangle may be a single core", fn: writeLargeSingle},
	}...)
}

// some returns n cores of the grid, all different as long as there are enough.
func (t *fixture) some(n int) []chip.Core {
	g := t.grid()
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

func writePacked(t *fixture, subs, size int, same bool) {
	cores := t.some(subs)
	stride := cq.SlotStride(size)
	// With more destinations than cores the last slot for a core wins.
	w := cq.WritePacked{Type: cq.PackedRuntimeArgs, Size: uint16(size), Addr: scratch, NoStride: same}
	want := map[chip.Core][]byte{}
	for i, c := range cores {
		if want[c] == nil {
			t.poke(c, scratch-32, pattern(0xDEAD, size+64))
		}
		w.Cores = append(w.Cores, t.nocXY(c))
		if !same || i == 0 {
			w.Data = append(append(w.Data, pattern(uint32(i+1), size)...), make([]byte, stride-size)...)
		}
		slot := pattern(uint32(i+1), size)
		if same {
			slot = pattern(1, size)
		}
		want[c] = pattern(0xDEAD, size+64)
		copy(want[c][32:], slot)
	}
	t.do(func(b *cq.Builder) { b.WritePacked(w) })
	for c, m := range want {
		t.same(fmt.Sprintf("core %v", c), m, t.peek(c, scratch-32, len(m)))
	}
}

func writePackedRects(t *fixture, rects int, same bool) {
	g := t.grid()
	const size = 48
	w := cq.WritePacked{Type: cq.PackedLaunch, Size: size, Addr: scratch, NoStride: same}
	want := map[chip.Core][]byte{}
	for c := range g.Cores() {
		want[c] = pattern(0xDEAD, size)
		t.poke(c, scratch, want[c])
	}
	for i := range rects {
		// Rectangles of changing shape; a later one overwrites an earlier one.
		r := chip.Range{Start: chip.Core{X: i % (g.End.X + 1), Y: i / 3 % (g.End.Y + 1)}}
		r.End = chip.Core{X: min(g.End.X, r.Start.X+i%4), Y: min(g.End.Y, r.Start.Y+i%3)}
		noc, cores := t.nocRect(r)
		w.Rects = append(w.Rects, cq.Rect{NOC: noc, Dests: uint32(cores)})
		slot := pattern(1, size)
		if !same {
			slot = pattern(uint32(i+1), size)
		}
		if !same || i == 0 {
			w.Data = append(w.Data, slot...)
		}
		for c := range r.Cores() {
			want[c] = slot
		}
	}
	t.do(func(b *cq.Builder) { b.WritePacked(w) })
	for c, m := range want {
		t.same(fmt.Sprintf("core %v", c), m, t.peek(c, scratch, size))
	}
}

// writeLarge writes each run to a place of its own in all cores of a rectangle; every third run begins a new rectangle.
func writeLarge(t *fixture, subs, size int) {
	if n := subs * (size + 16); n > 120<<10 {
		subs = 120 << 10 / (size + 16)
	}
	g := t.grid()
	rects := []string{"all", "row", "inner", "column", "corner", "single"}
	place := (size + 63) &^ 63
	w := cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16}
	watched := append(t.corners(), chip.Core{X: 1, Y: 1})
	want := map[chip.Core][]byte{}
	for _, c := range watched {
		want[c] = pattern(0xDEAD, subs*place)
		t.poke(c, scratch, want[c])
	}
	var r chip.Range
	for i := range subs {
		if i%3 == 0 {
			r = rectangle(g, rects[i/3%len(rects)])
		}
		noc, cores := t.nocRect(r)
		data := pattern(uint32(i+1), size)
		w.Subs = append(w.Subs, cq.LargeSub{NOC: noc, Addr: uint32(scratch + i*place), Length: uint32(size), Dests: uint8(cores),
			Unlink: i%3 == 2 || i == subs-1})
		w.Data = append(append(w.Data, data...), make([]byte, (size+15)&^15-size)...)
		for _, c := range watched {
			if r.Contains(c) {
				copy(want[c][i*place:], data)
			}
		}
	}
	t.do(func(b *cq.Builder) { b.WritePackedLarge(w) })
	for c, m := range want {
		t.same(fmt.Sprintf("core %v", c), m, t.peek(c, scratch, len(m)))
	}
}

func writeLargeLinked(t *fixture) {
	first, cores := t.nocRect(rectangle(t.grid(), "row"))
	other, _ := t.nocRect(rectangle(t.grid(), "last row"))
	a, b := pattern(1, 32), pattern(2, 32)
	inRow, outside := chip.Core{X: 1}, chip.Core{X: 1, Y: t.grid().End.Y}
	for _, c := range []chip.Core{inRow, outside} {
		t.poke(c, scratch, make([]byte, 64))
	}
	t.do(func(w *cq.Builder) {
		w.WritePackedLarge(cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16, Data: append(append([]byte(nil), a...), b...),
			Subs: []cq.LargeSub{
				{NOC: first, Addr: scratch, Length: 32, Dests: uint8(cores)},
				{NOC: other, Addr: scratch + 32, Length: 32, Dests: uint8(cores), Unlink: true},
			}})
	})
	t.same("a core of the first rectangle", append(a, b...), t.peek(inRow, scratch, 64))
	t.same("a core outside of it", make([]byte, 64), t.peek(outside, scratch, 64))
}

func writeLargeSingle(t *fixture) {
	for i, c := range t.corners() {
		noc, cores := t.nocRect(c.Range())
		data := pattern(uint32(i), 1000)
		t.do(func(b *cq.Builder) {
			b.WritePackedLarge(cq.WritePackedLarge{Type: cq.LargeConfig, Alignment: 16,
				Data: append(data[:len(data):len(data)], make([]byte, 8)...), Subs: []cq.LargeSub{
					{NOC: noc, Addr: scratch, Length: 1000, Dests: uint8(cores), Unlink: true},
				}})
		})
		t.same(fmt.Sprintf("core %v", c), data, t.peek(c, scratch, len(data)))
	}
}
