package devtest

import (
	"encoding/binary"
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
)

// Fataler is a test that can be ended.
type Fataler interface {
	Helper()
	Log(args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Must ends the test on an error, and logs the cores' state after a hang.
func Must(t Fataler, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var h *dispatch.HangError
	if errors.As(err, &h) {
		t.Log(h.Detail())
	}
	t.Fatal(err)
}

// Words returns n bytes of words that count up from first.
func Words(n int, first uint32) []byte {
	var p []byte
	for i := range uint32(n / 4) {
		p = binary.LittleEndian.AppendUint32(p, first+i)
	}
	return p
}

// Allocated returns the bytes of each bank of a device that are taken, by kind.
func Allocated(dev *reprise.Device) map[allocator.Kind]uint64 {
	all := map[allocator.Kind]uint64{}
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1, allocator.Trace} {
		all[k] = dev.Memory(k).Allocated
	}
	return all
}
