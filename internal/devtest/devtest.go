// Package devtest is what tests of the packages above the root share: emulated devices, and small
// programs.
package devtest

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

// Bench is a device under test.
type Bench struct {
	*testing.T
	Ctx   context.Context
	Dev   *reprise.Device
	Queue *reprise.Queue
}

// Open opens a device and closes it when the test ends.
func Open(t *testing.T, target kmd.Target, opts ...reprise.Option) *Bench {
	t.Helper()
	dev, err := reprise.Open(t.Context(), target, opts...)
	Must(t, err)
	t.Cleanup(func() {
		expect.Fails(t, dev.Close(context.WithoutCancel(t.Context())), nil, "close")
	})
	return &Bench{T: t, Ctx: t.Context(), Dev: dev, Queue: dev.Queue(0)}
}

// OnEmulators runs a test on a device of each architecture.
func OnEmulators(t *testing.T, run func(*Bench), opts ...reprise.Option) {
	for _, card := range []*sim.Card{sim.Wormhole(), sim.Blackhole()} {
		t.Run(card.String(), func(t *testing.T) { run(Open(t, card, opts...)) })
	}
}

// With returns the same device for a subtest.
func (b *Bench) With(t *testing.T) *Bench {
	return &Bench{T: t, Ctx: t.Context(), Dev: b.Dev, Queue: b.Queue}
}

// Must ends the test on an error.
func (b *Bench) Must(err error) {
	b.Helper()
	Must(b, err)
}

// Says is [expect.Says] for any error.
func (b *Bench) Says(err error, parts ...string) {
	b.Helper()
	expect.Says(b, err, nil, parts...)
}

// Pages is a DRAM buffer of n pages of 64 B.
func (b *Bench) Pages(name string, n int) *reprise.Buffer {
	b.Helper()
	return b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: n * 64, PageSize: 64, Name: name})
}

// Load loads a program.
func (b *Bench) Load(p *reprise.Program) *reprise.Executable {
	b.Helper()
	x, err := b.Dev.Load(b.Ctx, p)
	b.Must(err)
	return x
}

// Image returns a prebuilt kernel for the device.
func (b *Bench) Image(name string) *kernels.Image {
	b.Helper()
	im, err := kernels.Prebuilt(b.Dev.Arch(), name)
	b.Must(err)
	return im
}

// Adder returns [Adder]'s program for the device.
func (b *Bench) Adder(name string, at chip.Core, in, out *reprise.Buffer, addend uint32) *reprise.Program {
	b.Helper()
	p, err := Adder(b.Dev, name, at, in, out, addend)
	b.Must(err)
	return p
}

// Mover returns [Mover]'s program for the device.
func (b *Bench) Mover(name string, at chip.Core, from, to *reprise.Buffer) *reprise.Program {
	b.Helper()
	p, err := Mover(b.Dev, name, at, from, to)
	b.Must(err)
	return p
}

// Buffer allocates a buffer.
func (b *Bench) Buffer(c reprise.BufferConfig) *reprise.Buffer {
	b.Helper()
	buf, err := b.Dev.NewBuffer(c)
	b.Must(err)
	return buf
}

// Write fills a buffer with words that count up from first.
func (b *Bench) Write(buf *reprise.Buffer, first uint32) {
	b.Helper()
	b.Must(b.Queue.Write(b.Ctx, buf, 0, Words(buf.Size(), first)))
}

// Read returns all bytes of a buffer.
func (b *Bench) Read(buf *reprise.Buffer) []byte {
	b.Helper()
	got := make([]byte, buf.Size())
	b.Must(b.Queue.Read(b.Ctx, buf, 0, got))
	return got
}

// Holds fails the test unless a buffer has words that count up from first.
func (b *Bench) Holds(buf *reprise.Buffer, first uint32) {
	b.Helper()
	for i, got := 0, b.Read(buf); i < len(got); i += 4 {
		if got, want := binary.LittleEndian.Uint32(got[i:]), first+uint32(i/4); got != want {
			b.Errorf("buffer %q differs from byte %d on: word %#x, want %#x", buf.Name(), i, got, want)
			return
		}
	}
}

// Execute runs a program.
func (b *Bench) Execute(x *reprise.Executable) {
	b.Helper()
	b.Must(b.Queue.Run(b.Ctx, x))
}

// Wait waits for the queue.
func (b *Bench) Wait() {
	b.Helper()
	b.Must(b.Queue.Wait(b.Ctx))
}

// Record captures what f records.
func (b *Bench) Record(name string, f func(r *reprise.Recorder) error) *reprise.Trace {
	b.Helper()
	t, err := b.Queue.Capture(b.Ctx, name, func(_ context.Context, r *reprise.Recorder) error { return f(r) })
	b.Must(err)
	return t
}

// Capture captures programs.
func (b *Bench) Capture(name string, xs ...*reprise.Executable) *reprise.Trace {
	b.Helper()
	return b.Record(name, func(r *reprise.Recorder) error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
}

// Replay replays a trace.
func (b *Bench) Replay(t *reprise.Trace) {
	b.Helper()
	b.Must(t.Replay(b.Ctx))
}

// Allocated returns the bytes of each bank that are taken, by kind.
func (b *Bench) Allocated() map[allocator.Kind]uint64 { return Allocated(b.Dev) }
