package tracebuf_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Any steps of a trace are a trace that a recorder could have made, with the same programs; all steps are the same trace.
func TestSliceIsATrace(t *testing.T) {
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		f := testFile(t, arch)
		l1 := &arch.Params().L1
		c := tracebuf.SliceConfig{Workers: 8, Launch: l1.Launch, LaunchSize: l1.LaunchSize, Slots: 8, Banks: f.Target.Banks}
		whole := inspect(t, f)
		rapid.Check(t, func(t *rapid.T) {
			from := rapid.IntRange(0, testSteps-1).Draw(t, "from")
			to := rapid.IntRange(from+1, testSteps).Draw(t, "to")
			im, err := f.Image.Slice(from, to, c)
			if err != nil {
				t.Fatal(err)
			}
			part := *f
			part.Image = *im
			if err := part.Validate(); err != nil {
				t.Fatal(err)
			}
			got, err := tracebuf.Inspect(im)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Steps) != to-from {
				t.Fatalf("%d steps of %d to %d", len(got.Steps), from, to)
			}
			for i, s := range got.Steps {
				if w := whole.Steps[from+i]; s.Name != w.Name || s.Size != w.Size || s.Count != w.Count {
					t.Fatalf("step %d is %+v, was %+v", i, s, w)
				}
			}
			words := 0
			for _, p := range im.Params {
				words += len(p.At)
			}
			odd := to/2 - from/2
			if words != odd {
				t.Fatalf("%d words of patch points in %d to %d, want %d", words, from, to, odd)
			}
		})
		all, err := f.Image.Slice(0, testSteps, c)
		if err != nil {
			t.Fatal(err)
		}
		if string(all.Bytes) != string(f.Image.Bytes) || len(all.Relocs) != len(f.Image.Relocs) {
			t.Error("all steps are another trace")
		}
		for _, r := range [][2]int{{0, 0}, {-1, 2}, {3, 2}, {0, testSteps + 1}} {
			if _, err := f.Image.Slice(r[0], r[1], c); err == nil {
				t.Errorf("steps %d to %d were sliced", r[0], r[1])
			}
		}
	}
}
