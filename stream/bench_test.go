package stream_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/stream"
)

// running is a kernel with streams on an emulated Blackhole.
type running struct {
	*testing.B
	dev *reprise.Device
}

func onDevice(b *testing.B) *running {
	dev, err := reprise.Open(b.Context(), sim.Blackhole())
	r := &running{b, dev}
	r.must(err)
	b.Cleanup(func() { r.must(dev.Close(context.WithoutCancel(b.Context()))) })
	return r
}

func (r *running) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *running) stream(d stream.Direction) *stream.Stream {
	r.Helper()
	s, err := stream.New(r.dev, stream.Config{Name: d.String(), Direction: d, Size: 1 << 20})
	r.must(err)
	return s
}

// run starts a kernel with room for a message of n bytes. end ends it.
func (r *running) run(image string, n int, args func(room uint32) []uint32, end *stream.Stream, ss ...*stream.Stream) {
	r.Helper()
	im, err := kernels.Prebuilt(r.dev.Arch(), image)
	r.must(err)
	room, err := r.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: n * r.dev.Grid().Size(), PageSize: n, Name: "room"})
	r.must(err)
	a := args(room.Addr())
	p := &reprise.Program{Name: image, Buffers: []*reprise.Buffer{room}, Kernels: []reprise.Kernel{{
		Name: image, Image: im, Cores: []chip.Range{chip.Single(0, 0)}, Args: func(chip.Core) []uint32 { return a },
	}}}
	for _, s := range ss {
		s.AddTo(p)
	}
	x, err := r.dev.Load(r.Context(), p)
	r.must(err)
	r.must(r.dev.Queue(0).Run(r.Context(), x))
	r.Cleanup(func() { r.must(end.Close(context.WithoutCancel(r.Context()))) }) // before the device is closed
	r.ResetTimer()
	r.ReportAllocs()
}

// A word to a kernel that is running, and back.
func BenchmarkRoundTrip(b *testing.B) {
	r := onDevice(b)
	in, out := r.stream(stream.ToDevice), r.stream(stream.ToHost)
	r.run(kernels.StreamEcho, 64, func(room uint32) []uint32 { return append(append(in.Args(), out.Args()...), room, 64) }, in, in, out)
	p := make([]byte, 4)
	for range b.N {
		r.must(in.Write(b.Context(), p))
		_, err := out.Read(b.Context(), p)
		r.must(err)
	}
}

// Messages of a kernel that pushes all the while.
func BenchmarkToHost(b *testing.B) {
	for _, n := range []int{4, 1216, 39936} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := onDevice(b)
			out, p := r.stream(stream.ToHost), make([]byte, n)
			r.run(kernels.StreamSource, max(n, 64), func(room uint32) []uint32 { return append(out.Args(), room, uint32(n), 1<<32-1, 0, 0) }, out,
				out)
			b.SetBytes(int64(n))
			for range b.N {
				_, err := out.Read(b.Context(), p)
				r.must(err)
			}
		})
	}
}

// Messages to a kernel that pops all the while.
func BenchmarkToDevice(b *testing.B) {
	for _, n := range []int{4, 1216, 39936} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := onDevice(b)
			in, p := r.stream(stream.ToDevice), make([]byte, n)
			r.run(kernels.StreamSink, max(n, 64), func(room uint32) []uint32 { return append(in.Args(), room, uint32(n), room, 0) }, in, in)
			b.SetBytes(int64(n))
			for range b.N {
				r.must(in.Write(b.Context(), p))
			}
		})
	}
}

// The same bytes by a queue's read of a buffer.
func BenchmarkQueueRead(b *testing.B) {
	for _, n := range []int{4, 1216, 39936} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := onDevice(b)
			x, err := r.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: n, Name: "read"})
			r.must(err)
			p := make([]byte, n)
			b.SetBytes(int64(n))
			for b.Loop() {
				r.must(r.dev.Queue(0).Read(b.Context(), x, 0, p))
			}
		})
	}
}
