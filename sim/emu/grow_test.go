package emu

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
)

// L1 that is allocated only as far as it was used behaves as if it were whole.
func TestMemoryThatGrows(t *testing.T) {
	for _, arch := range arches {
		whole, part := bare(t, arch), bare(t, arch)
		size := whole.tile.size
		rapid.Check(t, func(t *rapid.T) {
			clear(whole.tile.l1)
			part.tile.l1 = nil
			part.tile.memory(0)
			both := []*core{whole, part}
			for range 10 {
				edge := rapid.SampledFrom([]uint32{firstL1, 2 * firstL1, size / 2, size}).Draw(t, "edge")
				addr := edge - 8 + rapid.Uint32Range(0, 15).Draw(t, "offset")
				width := rapid.SampledFrom([]uint32{1, 2, 4}).Draw(t, "width")
				if addr = addr &^ (width - 1); addr >= size {
					continue // registers begin after it
				}
				v := rapid.Uint32().Draw(t, "value")
				f3 := map[uint32]uint32{1: 0, 2: 1, 4: 2}[width]
				kind := rapid.SampledFrom([]string{"load", "store", "atomic", "code", "host"}).Draw(t, "kind")
				for _, c := range both {
					c.X[5], c.X[6] = addr, v
					switch {
					case kind == "load":
						c.exec(t, itype(0x03, f3, 7, 5, 0))
					case kind == "store":
						c.exec(t, stype(f3, 5, 6, 0))
					case kind == "atomic" && arch == chip.Blackhole && width == 4:
						c.exec(t, rtype(0x2F, 2, 0, 7, 5, 6))
					case kind == "code" && width == 4:
						code := []uint32{itype(0x13, 0, 7, 7, 1)} // addi x7, x7, 1
						if !c.tile.chip.writeL1(origin{}, c.tile, addr, 4, code) {
							t.Fatal(c.tile.chip.fault)
						}
						c.pc, c.state = addr, runnable
						if c.run(1) != stopSlice {
							t.Fatalf("stopped at %#x: %v", c.pc, c.tile.chip.fault)
						}
					case kind == "host" && width == 4:
						got := make([]uint32, 1)
						if !c.tile.chip.readL1(origin{}, c.tile, addr, 4, got) ||
							!c.tile.chip.writeL1(origin{}, c.tile, addr, 4, []uint32{got[0] + v}) {
							t.Fatal(c.tile.chip.fault)
						}
					}
				}
				if diff := cmp.Diff(whole.X[:32], part.X[:32]); diff != "" {
					t.Fatalf("%v %s of %d bytes at %#x: %s", arch, kind, width, addr, diff)
				}
			}
			if int(size) < 4*len(part.tile.l1) {
				t.Fatalf("%v: L1 has grown to %d bytes, it has %d", arch, 4*len(part.tile.l1), size)
			}
			for i, w := range part.tile.l1 {
				if want := whole.tile.l1[i]; w != want {
					t.Fatalf("%v L1 at %#x: %#x, want %#x", arch, 4*i, w, want)
				}
			}
		})
	}
}

func TestWaitForMemoryThatGrows(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v, word := r.worker(0, 0), uint32(5*firstL1)
		tl := r.c.tileAt(r.raw(v))
		r.run(v, onB().li(a0, word).label("wait").lw(a1, a0, 0).beq(a1, x0, "wait").li(a2, 0x2000).sw(a1, a2, 0).halt())
		r.eventually("the core waits", func() bool { return tl.core(chip.BRISC).state == parked })
		r.st(v, uint64(word), 77)
		r.eventually("it goes on", func() bool { return r.ld(v, 0x2000) == 77 })
		r.healthy()
	}
}

func TestUnusedMemoryIsNotTaken(t *testing.T) {
	for _, arch := range arches {
		r := syncRig(t, arch)
		v := r.worker(0, 0)
		tl := r.c.tileAt(r.raw(v))
		for _, tt := range []struct{ end, want int }{
			{0, 0}, {4, firstL1}, {firstL1, firstL1}, {firstL1 + 4, 2 * firstL1}, {5 * firstL1, 8 * firstL1}, {int(tl.size), int(tl.size)},
		} {
			if tt.end > 0 {
				r.st(v, uint64(tt.end-4), 1)
			}
			equal(t, 4*len(tl.l1), tt.want, "%v: bytes of L1 after a write that ends at %#x", arch, tt.end)
		}
	}
}
