// Package devtest is what tests of the packages above the root share: emulated devices, and small programs for them.
package devtest

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
)

// Bench is a device under test.
type Bench struct {
	*testing.T
	Ctx   context.Context
	Dev   *reprise.Device
	Queue *reprise.Queue // queue 0
}

// Open opens a device and closes it when the test ends.
func Open(t *testing.T, target kmd.Target, opts ...reprise.Option) *Bench {
	t.Helper()
	dev, err := reprise.Open(t.Context(), target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
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
	if err != nil {
		b.Fatal(err)
	}
}

// Says fails the test unless the error is one line of text that has all parts in order.
func (b *Bench) Says(err error, parts ...string) {
	b.Helper()
	if err == nil {
		b.Errorf("no error, want one that says %q", parts)
		return
	}
	rest := err.Error()
	for _, p := range parts {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			b.Errorf("error %q doesn't say %q", err, p)
			return
		}
		rest = after
	}
	if strings.Contains(err.Error(), "\n") {
		b.Errorf("error has more than one line: %q", err)
	}
}

// Pages is a DRAM buffer of n pages of 64 B.
func (b *Bench) Pages(name string, n int) *reprise.Buffer {
	b.Helper()
	buf, err := b.Dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: n * 64, PageSize: 64, Name: name})
	b.Must(err)
	return buf
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

// Adder is a program that adds a number to every word of a buffer of pages of 64 B: three kernels on one core, joined by
// two circular buffers.
func (b *Bench) Adder(name string, at chip.Core, in, out *reprise.Buffer, addend uint32) *reprise.Program {
	b.Helper()
	const from, to = 0, 16
	cores := []chip.Range{chip.Single(at.X, at.Y)}
	n := uint32(in.Pages())
	kernel := func(name string, p chip.Processor, args ...uint32) reprise.Kernel {
		return reprise.Kernel{Name: name, Image: b.Image(name), Processor: p, Cores: cores, Args: func(chip.Core) []uint32 { return args }}
	}
	return &reprise.Program{
		Name: name,
		Kernels: []reprise.Kernel{
			kernel(kernels.CopyReader, chip.BRISC, in.Addr(), 0, n, 64, from),
			kernel(kernels.Add, chip.TRISC0, from, to, n, addend),
			kernel(kernels.CopyWriter, chip.NCRISC, out.Addr(), 0, n, 64, to),
		},
		CircularBuffers: []reprise.CircularBuffer{{Index: from, Cores: cores, PageSize: 64, Pages: 2}, {Index: to, Cores: cores, PageSize: 64, Pages: 2}},
		Buffers:         []*reprise.Buffer{in, out},
	}
}

// Mover is a program that copies all pages of a buffer to another, each in DRAM or L1.
func (b *Bench) Mover(name string, at chip.Core, from, to *reprise.Buffer) *reprise.Program {
	b.Helper()
	const cb = 2
	cores := []chip.Range{chip.Single(at.X, at.Y)}
	in := uint32(0) // bit 0: from is in L1; bit 1: to is
	for i, buf := range []*reprise.Buffer{from, to} {
		if buf.Kind() == allocator.L1 {
			in |= 1 << i
		}
	}
	args := []uint32{from.Addr(), to.Addr(), 0, uint32(from.Pages()), uint32(from.PageSize()), cb, in}
	return &reprise.Program{
		Name: name,
		Kernels: []reprise.Kernel{{
			Name: "move", Image: b.Image(kernels.Move), Processor: chip.BRISC, Cores: cores,
			Args: func(chip.Core) []uint32 { return args },
		}},
		CircularBuffers: []reprise.CircularBuffer{{Index: cb, Cores: cores, PageSize: from.PageSize(), Pages: 1}},
		Buffers:         []*reprise.Buffer{from, to},
	}
}

// Words returns n bytes of words that count up from first.
func Words(n int, first uint32) []byte {
	var p []byte
	for i := range uint32(n / 4) {
		p = binary.LittleEndian.AppendUint32(p, first+i)
	}
	return p
}

// Allocated returns the bytes of each bank that are taken, by kind.
func (b *Bench) Allocated() map[allocator.Kind]uint64 {
	all := map[allocator.Kind]uint64{}
	for _, k := range []allocator.Kind{allocator.DRAM, allocator.L1, allocator.Trace} {
		all[k] = b.Dev.Memory(k).Allocated
	}
	return all
}
