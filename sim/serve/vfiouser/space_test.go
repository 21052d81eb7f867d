package vfiouser

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestErrorReporting(t *testing.T) {
	s := newSpace(chip.Blackhole.Params(), 0x40)
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
		equal(t, read(off), unsupported|1<<12|1<<6, "status %#x after stores of bits that aren't set", off)
		store(off, 1<<12)
		equal(t, read(off), unsupported|1<<6, "status %#x after a store of bit 12", off)
	}
	s.now[capExpress+0x0A] = 0x0F
	store(capExpress+0x08, 0x5810|1<<16)
	equal(t, read(capExpress+0x08), 0x5810|0xE<<16, "device control and status")
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
		equal(t, read(r.off), r.start, "register %#x starts as", r.off)
		store(r.off, ^uint32(0))
		equal(t, read(r.off), r.changed, "register %#x is after a store of ones", r.off)
	}
	s.reset()
	equal(t, read(capErrors+0x08), uncorrectableMask, "the mask after a reset")
}

var (
	must   = expect.Must
	noDiff = expect.NoDiff
	fails  = expect.Fails
)

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }

func equal[V comparable](t expect.TB, got, want V, what string, args ...any) {
	t.Helper()
	expect.Equal(t, got, want, what, args...)
}

func second[V any](_ V, err error) error { return err }

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}
