package allocator

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// number is any number, and often one at which something changes.
var number = rapid.OneOf(rapid.Uint32Range(0, 3), rapid.Uint32(), rapid.SampledFrom([]uint32{0, 1<<31 - 1, 1 << 31, 1<<32 - 1}))

// drawLeaf returns a leaf of any content: equal sizes, the largest there are, full or empty. Ends differ, as those of holes do;
// leaves of different seeds have no end in common. Where there is no end, there is no size.
func drawLeaf(t *rapid.T, seed uint32) (l leaf) {
	for i := range leafWidth {
		if end := number.Draw(t, "end")&^0x1f + seed*leafWidth + uint32(i); end > 0x1f {
			l.end[i], l.size[i] = end, min(end, number.Draw(t, "size"))
		}
	}
	return l
}

// TestWideAgrees holds what is in assembly to what is in Go.
func TestWideAgrees(t *testing.T) {
	if !wide() {
		t.Skip("the processor has no AVX2")
	}
	t.Run("around", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			two := [2]leaf{drawLeaf(t, 0), drawLeaf(t, 1)}
			which := rapid.IntRange(0, 1)
			l, before := &two[which.Draw(t, "leaf")], &two[which.Draw(t, "before")]
			start, end := number.Draw(t, "start"), number.Draw(t, "end")
			if i := rapid.IntRange(0, leafWidth-1).Draw(t, "near"); rapid.Bool().Draw(t, "touch") {
				start, end = before.end[i], l.end[i]-l.size[i]
			}
			if got, want := aroundWide(l, before, start, end), l.around(before, start, end); got != want {
				t.Fatalf("around %#x %#x: %#x, want %#x", start, end, got, want)
			}
		})
	})
	t.Run("search and settle", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			levels := rapid.IntRange(0, 3).Draw(t, "levels")
			h := &holes{levels: levels, first: []uint32{0, 0, 16, 16 + 256}[levels]}
			n := uint32(1) << (groupBits * levels)
			h.leaves, h.max = make([]leaf, n), make([]uint32, max(16, h.first+n))
			for range rapid.IntRange(0, 20).Draw(t, "leaves") {
				e := h.first + rapid.Uint32Range(0, n-1).Draw(t, "element")
				l := h.leaf(e)
				*l = drawLeaf(t, 0)
				if rapid.IntRange(0, 9).Draw(t, "overflow") == 0 {
					*l = overflown(max(1, number.Draw(t, "group")))
				}
				if levels == 0 {
					h.max[0] = largest(&l.size)
					continue
				}
				m := slices.Clone(h.max)
				settleWide(&m[0], e, largest(&l.size))
				settle(h.max, e, largest(&l.size))
				if diff := cmp.Diff(h.max, m); diff != "" {
					t.Fatalf("settle %d (-want +got):\n%s", e, diff)
				}
			}
			size := max(1, number.Draw(t, "size"))
			if rapid.Bool().Draw(t, "just") {
				size = max(1, h.largest())
			}
			type found struct {
				e    uint32
				at   int
				rest uint32
			}
			run := func(f func(h *holes, size uint32) (uint32, int, uint32)) (out found) {
				if out.e, out.at, out.rest = f(h, size); out.at == missing {
					return found{at: missing}
				} else if out.at == escaped {
					out.rest = 0
				}
				return out
			}
			if got, want := run(lowestWide), run(lowestOf); got != want {
				t.Fatalf("lowest %#x: %+v, want %+v", size, got, want)
			}
			if got, want := run(highestWide), run(highestOf); got != want {
				t.Fatalf("highest %#x: %+v, want %+v", size, got, want)
			}
		})
	})
}
