package tracebuf

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Joined ranges rise, don't touch each other, and hold the bytes that the ranges held; what is
// subtracted is in none of them, and nothing else is missing.
func TestByteRanges(t *testing.T) {
	const size = 40
	bits := func(rs []ByteRange) (set [size]bool) {
		for _, r := range rs {
			for i := r.Start; i < r.End; i++ {
				set[i] = true
			}
		}
		return set
	}
	ranges := func(t *rapid.T, name string) []ByteRange {
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ByteRange {
			start := rapid.IntRange(0, size-1).Draw(t, "start")
			return ByteRange{start, rapid.IntRange(start+1, size).Draw(t, "end")}
		}), 0, 6).Draw(t, name)
	}
	disjoint := func(t *rapid.T, rs []ByteRange) {
		for i, r := range rs {
			if r.Start >= r.End || i > 0 && r.Start <= rs[i-1].End {
				t.Fatalf("ranges are %v", rs)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := ranges(t, "a"), ranges(t, "b")
		wantA, wantB := bits(a), bits(b)
		ja, jb := JoinRanges(slices.Clone(a)), JoinRanges(slices.Clone(b))
		disjoint(t, ja)
		if bits(ja) != wantA {
			t.Fatalf("%v joined is %v", a, ja)
		}
		left := SubtractRanges(ja, jb)
		disjoint(t, left)
		for i, in := range bits(left) {
			if in != (wantA[i] && !wantB[i]) {
				t.Fatalf("%v without %v is %v", ja, jb, left)
			}
		}
	})
}
