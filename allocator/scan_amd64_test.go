package allocator

import (
	"testing"

	"pgregory.net/rapid"
)

// TestWideAgrees holds what is in assembly to what is in Go, on leaves and pyramids of any content: equal numbers, the
// largest there are, leaves that are full or empty.
func TestWideAgrees(t *testing.T) {
	if !wide() {
		t.Skip("the processor has no AVX2")
	}
	number := rapid.OneOf(rapid.Uint32Range(0, 3), rapid.Uint32(), rapid.SampledFrom([]uint32{0, 1<<31 - 1, 1 << 31, 1<<32 - 1}))
	rapid.Check(t, func(t *rapid.T) {
		var l leaf
		for i := range leafWidth {
			// Ends differ, as those of holes do; where there is none, there is no size.
			if end := number.Draw(t, "end")&^0xf + uint32(i); end > 15 {
				l.end[i], l.size[i] = end, min(end, number.Draw(t, "size"))
			}
		}
		start, end, size := number.Draw(t, "start"), number.Draw(t, "end"), max(1, number.Draw(t, "asked"))
		if i := rapid.IntRange(0, leafWidth-1).Draw(t, "near"); rapid.Bool().Draw(t, "touch") {
			start, end, size = l.end[i], l.end[i]-l.size[i], max(1, l.size[i])
		}
		if got, want := aroundWide(&l, start, end), l.around(start, end); got != want {
			t.Fatalf("around %#x %#x: %#x, want %#x", start, end, got, want)
		}
		if largest(&l.size) >= size {
			i, rest := lowestWide(&l, size)
			if j, want := l.lowest(size); i != j || rest != want {
				t.Fatalf("lowest %#x: %d %#x, want %d %#x", size, i, rest, j, want)
			}
			i, rest = highestWide(&l, size)
			if j, want := l.highest(size); i != j || rest != want {
				t.Fatalf("highest %#x: %d %#x, want %d %#x", size, i, rest, j, want)
			}
		}

		levels := rapid.IntRange(1, 3).Draw(t, "levels")
		m := make([]uint32, []int{16, 16 + 256, 16 + 256 + 4096}[levels-1])
		base := uint32(len(m)) - 1<<(groupBits*levels)
		for range rapid.IntRange(0, 40).Draw(t, "elements") {
			e := base + rapid.Uint32Range(0, 1<<(groupBits*levels)-1).Draw(t, "element")
			n := append([]uint32(nil), m...)
			s := number.Draw(t, "largest")
			settleWide(&m[0], e, s)
			settle(n, e, s)
			for i := range n {
				if m[i] != n[i] {
					t.Fatalf("settle %d to %#x: element %d is %#x, want %#x", e, s, i, m[i], n[i])
				}
			}
		}
		if got, want := descendWide(&m[0], levels, size), descend(m, levels, size); got != want {
			t.Fatalf("descend to %#x: %d, want %d", size, got, want)
		}
		if got, want := descendTopWide(&m[0], levels, size), descendTop(m, levels, size); got != want {
			t.Fatalf("descend from the top to %#x: %d, want %d", size, got, want)
		}
	})
}
