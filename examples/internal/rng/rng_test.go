package rng

import (
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/internal/expect"
)

// The numbers are those of the algorithm's reference implementation (splitmix64.c by S. Vigna).
func TestSequenceIsSplitMix64(t *testing.T) {
	src := Source(1234567)
	got := []uint64{src.Uint64(), src.Uint64(), src.Uint64(), src.Uint64(), src.Uint64()}
	want := []uint64{
		6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
	}
	expect.NoDiff(t, got, want, "got")
}

func TestShufflePermutes(t *testing.T) {
	src := Source(1)
	s := make([]int, 100)
	for i := range s {
		s[i] = i
	}
	sorted := slices.Clone(s)
	src.Shuffle(s)
	if slices.Equal(s, sorted) {
		t.Error("nothing moved")
	}
	slices.Sort(s)
	expect.NoDiff(t, s, sorted, "s")
}
