package vfiouser

import (
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

func TestErrorReporting(t *testing.T) {
	s := value(newSpace(chip.Blackhole.Params(), 0x40))(t)
	read := func(off int) uint32 {
		var p [4]byte
		s.read(off, p[:])
		return order.Uint32(p[:])
	}
	store := func(off int, v uint32) {
		var p [4]byte
		order.PutUint32(p[:], v)
		if s.write(off, p[:]) {
			t.Fatalf("a store of %#x to %#x asks for a reset", v, off)
		}
	}
	const unsupported = 1 << 20
	for _, off := range []int{capErrors + 0x04, capErrors + 0x10} {
		order.PutUint32(s.now[off:], unsupported|1<<12|1<<6)
		store(off, 0)
		store(off, 1<<31) // which no error has
		if v := read(off); v != unsupported|1<<12|1<<6 {
			t.Errorf("status %#x is %#x after stores of bits that aren't set", off, v)
		}
		store(off, 1<<12)
		if v := read(off); v != unsupported|1<<6 {
			t.Errorf("status %#x is %#x after a store of bit 12", off, v)
		}
	}
	s.now[capExpress+0x0A] = 0x0F
	store(capExpress+0x08, 0x5810|1<<16)
	if v := read(capExpress + 0x08); v != 0x5810|0xE<<16 {
		t.Errorf("device control and status are %#x", v)
	}
	for _, r := range []struct {
		off            int
		start, changed uint32
	}{
		{capErrors + 0x00, 0x00020001, 0x00020001},
		{capErrors + 0x08, 0x00400000, 0x005FF030},
		{capErrors + 0x0C, 0x00462030, 0x005FF030},
		{capErrors + 0x14, 0x00006000, 0x000071C1},
		{capErrors + 0x18, 0x000000A0, 0x000001E0},
		{capErrors + 0x1C, 0, 0},
	} {
		if v := read(r.off); v != r.start {
			t.Errorf("register %#x starts as %#x, want %#x", r.off, v, r.start)
		}
		store(r.off, ^uint32(0))
		if v := read(r.off); v != r.changed {
			t.Errorf("register %#x is %#x after a store of ones, want %#x", r.off, v, r.changed)
		}
	}
	s.reset()
	if v := read(capErrors + 0x08); v != uncorrectableMask {
		t.Errorf("the mask is %#x after a reset", v)
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// value is must for a call with a result.
func value[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}
