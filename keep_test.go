package reprise_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
)

// A trace holds what Keep hands it until it is released; what isn't the device's ends the capture.
func TestKeep(t *testing.T) {
	onEmulators(t, func(b *bench) {
		x := b.load(b.blank("nothing", chip.Single(0, 0)))
		kept := b.pages("kept", 1)
		addr := kept.Addr()
		tr, err := b.queue.Capture(b.ctx, "keeps", func(_ context.Context, r *reprise.Recorder) error {
			if err := r.Run(x); err != nil {
				return err
			}
			return r.Keep(kept, kept)
		})
		b.must(err)
		b.must(kept.Release())
		if other := b.pages("other", 1); other.Addr() == addr {
			b.Error("the memory was given away")
		}
		b.must(tr.Release(b.ctx))
		if again := b.pages("again", 1); again.Addr() != addr {
			b.Errorf("memory at %#x is still held: the next buffer is at %#x", addr, again.Addr())
		}
		var late *reprise.Recorder
		_, err = b.queue.Capture(b.ctx, "freed", func(_ context.Context, r *reprise.Recorder) error {
			late = r
			_ = r.Run(x)
			_ = r.Keep(kept)
			return nil
		})
		if !errors.Is(err, reprise.ErrReleased) {
			b.Errorf("a freed buffer: %v", err)
		}
		if err := late.Keep(); !errors.Is(err, reprise.ErrCaptureEnded) {
			b.Errorf("after the capture: %v", err)
		}
	})
}

// What is taken from a snapshot lies where buffers would, and the device doesn't hear of it.
func TestTakeFromASnapshot(t *testing.T) {
	onEmulators(t, func(b *bench) {
		before := b.allocated()
		s := b.dev.MemorySnapshot()
		var got, want []uint32
		var free []func() error
		for _, size := range []int{64, 4096, 1 << 20} {
			addr, _, f, err := s.Take(reprise.BufferConfig{Kind: allocator.DRAM, Size: size, PageSize: 64, Name: "taken"})
			b.must(err)
			got, free = append(got, addr), append(free, f)
		}
		b.must(free[1]())
		addr, _, _, err := s.Take(reprise.BufferConfig{Kind: allocator.DRAM, Size: 4096, PageSize: 64})
		b.must(err)
		if addr != got[1] {
			b.Errorf("what was freed was at %#x, the next is at %#x", got[1], addr)
		}
		if d := cmp.Diff(before, b.allocated()); d != "" {
			b.Errorf("the device's memory changed: %s", d)
		}
		for _, size := range []int{64, 4096, 1 << 20} {
			want = append(want, b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: size, PageSize: 64}).Addr())
		}
		if !slices.Equal(got, want) {
			b.Errorf("taken at %#x, allocated at %#x", got, want)
		}
		if _, _, _, err := s.Take(reprise.BufferConfig{Kind: allocator.L1, Size: 1 << 40, PageSize: 1 << 10}); !errors.Is(err,
			reprise.ErrOutOfMemory) {
			b.Errorf("more than there is: %v", err)
		}
		if _, _, _, err := s.Take(reprise.BufferConfig{Kind: allocator.L1}); err == nil {
			b.Error("nothing can be taken")
		}
	})
}
