//go:build linux

package reprise_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/kmd"
)

// Pinned memory is there with what it holds after a device was lost and opened again, too.
func TestPinnedMemoryOfALostDevice(t *testing.T) {
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		h := b.host(64<<10, reprise.HostBufferConfig{Name: "h", Strict: true})
		mine, err := b.dev.NewHostBuffer(reprise.HostBufferConfig{Memory: mapped(t, 16<<10), Name: "mine"})
		b.must(err)
		x := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 16 << 10, PageSize: 1 << 10, Name: "x"})
		fill(h.Bytes(), 8)
		_, err = kmd.Reset(b.ctx, m, kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true})
		b.must(err)
		if err := b.queue.WriteFrom(b.ctx, x, 0, h, 0, x.Size()); !errors.Is(err, reprise.ErrDeviceLost) {
			t.Errorf("%v, want %v", err, reprise.ErrDeviceLost)
		}
		if err := h.Release(b.ctx); err == nil {
			t.Error("memory of a device that may still use it was given up")
		}
		b.must(b.dev.Recover(b.ctx))
		b.must(b.queue.WriteFrom(b.ctx, x, 0, h, 0, x.Size()))
		b.must(b.queue.ReadTo(b.ctx, x, 0, mine, 0, x.Size()))
		if !bytes.Equal(mine.Bytes(), h.Bytes()[:x.Size()]) {
			t.Error("the data differ")
		}
		b.must(errors.Join(h.Release(b.ctx), mine.Release(b.ctx)))
	})
}
