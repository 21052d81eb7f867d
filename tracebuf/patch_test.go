package tracebuf

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPatchesWriteWhatChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const align = 64
		im := &Image{PageSize: 1024, Bytes: make([]byte, 4096)}
		var ps Patches[int]
		var words []int
		for w := range len(im.Bytes) / 4 {
			words = append(words, 4*w)
		}
		words = rapid.Permutation(words).Draw(t, "words")
		names := []string{"a", "b", "c", "d"}
		for i, name := range names {
			n := rapid.IntRange(1, 20).Draw(t, "words of "+name)
			at := words[:n]
			words = words[n:]
			value, err := SameWords(im.Bytes, at)
			must(t, err)
			for _, part := range [][]int{at[:n/2+1], at[n/2:]} { // named twice, with a word in both
				if _, err := ps.Add(name, Arg, value, i, part); err != nil {
					t.Fatal(err)
				}
			}
		}
		ps.Place(im, align)
		device := bytes.Clone(im.Bytes)
		for range rapid.IntRange(1, 8).Draw(t, "replays") {
			for range rapid.IntRange(0, 6).Draw(t, "sets") {
				p, err := ps.Find(rapid.SampledFrom(names).Draw(t, "name"), Arg)
				must(t, err)
				before, v := p.Value, rapid.Uint32Range(0, 3).Draw(t, "value")
				if ps.Set(im.Bytes, p, v) != (v != before) {
					t.Fatalf("%s from %d to %d", p.Name, before, v)
				}
			}
			end := 0
			for _, r := range ps.Changed() {
				if r.Start < end || r.Start >= r.End || r.Start%align != 0 || r.End%align != 0 || r.Start/im.PageSize != (r.End-1)/im.PageSize {
					t.Fatalf("piece %+v after %#x", r, end)
				}
				end = r.End
				copy(device[r.Start:r.End], im.Bytes[r.Start:r.End])
			}
			ps.Written()
			if !bytes.Equal(device, im.Bytes) {
				t.Fatal("the copy differs from the commands")
			}
			if n := len(ps.Changed()); n != 0 {
				t.Fatalf("%d pieces have changed since they were written", n)
			}
		}
	})
}

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

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
