//go:build linux

package reprise_test

import (
	"errors"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/stream"
)

// A wait for a message of a device that is lost ends; when the device is back, the stream says that
// it is stale, and works again after a reset.
func TestStreamOfALostDevice(t *testing.T) {
	t.Parallel() // it mostly waits
	onMachines(t, func(t *testing.T, m *machine) {
		b := open(t, m, short)
		s, err := stream.New(b.dev, stream.Config{Name: "tokens", Size: 256})
		b.must(err)
		room := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * b.dev.Grid().Size(), PageSize: 64, Name: "room"})
		load := func() *reprise.Executable {
			args := append(s.Args(), room.Addr(), 4, 1<<32-1, 7, 0)
			p := &reprise.Program{Name: "source", Buffers: []*reprise.Buffer{room}, Kernels: []reprise.Kernel{{
				Name: "source", Image: b.image(kernels.StreamSource), Cores: []chip.Range{chip.Single(1, 1)},
				Args: func(chip.Core) []uint32 { return args },
			}}}
			s.AddTo(p)
			return b.load(p)
		}
		x := load()
		b.must(b.queue.Run(b.ctx, x))
		p := make([]byte, 4)
		_, err = s.Read(b.ctx, p)
		b.must(err)
		ended := make(chan error, 1)
		go func() {
			var err error
			for err == nil {
				_, err = s.Read(b.ctx, p)
			}
			ended <- err
		}()
		time.Sleep(5 * time.Millisecond)
		_, err = kmd.Reset(b.ctx, m, kmd.ResetConfig{Mode: kmd.ResetASIC, Force: true})
		b.must(err)
		if err := <-ended; !errors.Is(err, reprise.ErrDeviceLost) {
			t.Errorf("a read of a lost device: %v", err)
		}
		b.must(b.dev.Recover(b.ctx))
		if _, _, err := s.TryRead(p); !errors.Is(err, stream.ErrStale) {
			t.Errorf("after the recovery: %v", err)
		}
		var moved *stream.MovedError
		if err := s.Reset(b.ctx); errors.As(err, &moved) {
			b.must(x.Release(b.ctx))
			x = load()
		} else {
			b.must(err)
		}
		b.must(b.queue.Run(b.ctx, x))
		if _, err := s.Read(b.ctx, p); err != nil || p[0] != 7 {
			t.Errorf("first message: % x, %v", p, err)
		}
		b.must(s.Close(b.ctx))
		b.must(b.queue.Wait(b.ctx))
		b.must(x.Release(b.ctx))
		b.must(s.Release(b.ctx))
	})
}
