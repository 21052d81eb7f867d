package tracebuf

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/expect"
)

func TestBorrowedMemory(t *testing.T) {
	add := func(r *Recording, n int) {
		r.Reserve(n)
		r.Add("x", 0, func(dst []byte) ([]byte, uint8) { return append(dst, bytes.Repeat([]byte{byte(n)}, n)...), 0 })
	}
	mem := make([]byte, 8<<10)
	for _, n := range []int{64, 4096, 6000 &^ 63, 16 << 10} {
		own := NewRecording(cq.Blackhole)
		add(own, n)
		want, err := own.Finish(8)
		must(t, err)
		r := NewRecording(cq.Blackhole)
		r.Borrow(mem)
		add(r, n)
		got, err := r.Finish(8)
		must(t, err)
		into := NewRecording(cq.Blackhole)
		into.Borrow(mem)
		add(into, n)
		var im Image
		var given []byte
		same, err := into.FinishInto(&im, 8, func(n int) []byte {
			given = bytes.Repeat([]byte{0xEE}, n)
			return given
		})
		must(t, err)
		if copied := len(given) > 0; same != &im || !bytes.Equal(im.Bytes, want.Bytes) || copied != (n < 8<<10) || copied &&
			&im.Bytes[0] != &given[0] {
			t.Errorf("%d B: the image isn't where it was to be made", n)
		}
		back := r.Return()
		if len(back) != len(mem) || &back[0] != &mem[0] {
			t.Errorf("%d B: other memory came back", n)
		}
		for i := range back {
			back[i] = 0xAA
		}
		if !bytes.Equal(got.Bytes, want.Bytes) || got.Size != want.Size || got.PageSize != want.PageSize {
			t.Errorf("%d B: the trace isn't what one in memory of its own is", n)
		}
	}
	if NewRecording(cq.Blackhole).Return() != nil {
		t.Error("a recording that has borrowed nothing gave something back")
	}
}

func TestFollow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alone, leader, follower := NewRecording(cq.Blackhole), NewRecording(cq.Blackhole), NewRecording(cq.Blackhole)
		follower.Follow(leader)
		encode := func(value byte) Encoder {
			return func(dst []byte) ([]byte, uint8) { return append(dst, bytes.Repeat([]byte{value}, 64)...), value }
		}
		equal := true
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			v := rapid.Byte().Draw(t, "value")
			leader.Add("p", 0, encode(v))
			if rapid.IntRange(0, 9).Draw(t, "differs") == 0 {
				v, equal = v+1, false
			}
			follower.Add("p", 0, encode(v))
			alone.Add("p", 0, encode(v))
			for _, r := range [][]*Recording{{leader}, {follower, alone}} { // change the last step
				if rapid.IntRange(0, 9).Draw(t, "changes") == 0 {
					equal = false
					w := rapid.Byte().Draw(t, "change")
					for _, r := range r {
						r.Own()
						r.Replace(encode(w))
					}
				}
			}
			if follower.Len() != alone.Len() {
				t.Fatalf("%d steps, want %d", follower.Len(), alone.Len())
			}
		}
		first, err := leader.Finish(8)
		must(t, err)
		got, err := follower.Finish(8)
		must(t, err)
		want, err := alone.Finish(8)
		must(t, err)
		expect.NoDiff(t, got, want, "the image differs")
		expect.Equal(t, (got == first), equal, "the image is the leader's: %v, the commands are equal", got == first)
	})
}

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
				expect.Value(ps.Add(name, Arg, value, i, part))(t)
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
				if r.Start < end || r.Start >= r.End || r.Start%align != 0 || r.End%align != 0 ||
					r.Start/im.PageSize != (r.End-1)/im.PageSize {
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

var must = expect.Must
