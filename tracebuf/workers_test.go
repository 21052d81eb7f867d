package tracebuf_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/tracebuf"
)

// A file says which revision of tt-metal's base firmware the workers ran, and matches no device
// with other firmware.
func TestWorkersFirmware(t *testing.T) {
	own := testFile(t, chip.Blackhole)
	f := testFile(t, chip.Blackhole)
	f.Target.Layout = "2026-01-09"
	var b bytes.Buffer
	if err := tracebuf.EncodeAll(&b, []*tracebuf.File{f}); err != nil {
		t.Fatal(err)
	}
	got, err := tracebuf.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f.Target, got.Target); diff != "" {
		t.Errorf("target (-want +got):\n%s", diff)
	}
	if err := got.Target.Match(&f.Target); err != nil {
		t.Error(err)
	}
	var differs *tracebuf.TargetError
	for _, pair := range [][2]*tracebuf.Target{{&got.Target, &own.Target}, {&own.Target, &got.Target}} {
		if err := pair[0].Match(pair[1]); !errors.As(err, &differs) || differs.What != "base firmware of the workers" ||
			!errors.Is(err, tracebuf.ErrTarget) {
			t.Errorf("%q on %q: %v", pair[0].Layout, pair[1].Layout, err)
		}
	}
	for _, name := range []string{"1999-01-01", "reprise"} {
		f.Target.Layout = name
		if err := f.Validate(); !errors.Is(err, tracebuf.ErrInvalid) {
			t.Errorf("firmware of revision %q: %v", name, err)
		}
	}
	// A launch message of 96 B is none of a revision that has 112.
	f.Target.Layout = "2026-03-12"
	if err := f.Validate(); !errors.Is(err, tracebuf.ErrInvalid) {
		t.Errorf("launch messages of another revision: %v", err)
	}
}
