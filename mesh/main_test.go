package mesh_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	"go.uber.org/goleak"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) {
	if ttsimtest.Serving() {
		return
	}
	goleak.VerifyTestMain(m)
}

type bench struct {
	*testing.T
	ctx   context.Context
	mesh  *mesh.Mesh
	queue *mesh.Queue
}

func open(t *testing.T, machine *sim.Machine, shape mesh.Shape, opts ...mesh.Option) *bench {
	t.Helper()
	t.Cleanup(func() { _ = machine.Close() })
	return openCards(t, mesh.Cards(machine.Cards()...), shape, opts...)
}

func openCards(t *testing.T, cards mesh.Machine, shape mesh.Shape, opts ...mesh.Option) *bench {
	t.Helper()
	b := &bench{T: t, ctx: t.Context()}
	var err error
	b.mesh, err = mesh.Open(b.ctx, cards, shape, opts...)
	b.must(err)
	t.Cleanup(func() { _ = b.mesh.Close(context.Background()) })
	b.queue = b.mesh.Queue(0)
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	devtest.Must(b, err)
}

func (b *bench) pages(name string, n int) *mesh.Buffer {
	b.Helper()
	buf, err := b.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: n * 64, PageSize: 64,
		Name: name}})
	b.must(err)
	return buf
}

func (b *bench) adder(name string, in, out *mesh.Buffer, addend func(c *mesh.Chip) uint32) mesh.Part {
	return mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
		return devtest.Adder(c.Device, name, chip.Core{X: 1, Y: 2}, in.On(c), out.On(c), addend(c))
	}}
}

func always(v uint32) func(*mesh.Chip) uint32 { return func(*mesh.Chip) uint32 { return v } }

func (b *bench) load(name string, parts ...mesh.Part) *mesh.Executable {
	b.Helper()
	x, err := b.mesh.Load(b.ctx, name, parts...)
	b.must(err)
	return x
}

func (b *bench) part(t *reprise.Trace, c *mesh.Chip) reprise.Part {
	for _, p := range t.Parts() {
		if p.Queue == b.queue.On(c) {
			return p
		}
	}
	return reprise.Part{}
}

func (b *bench) subset(t *reprise.Trace, r mesh.Range) (*reprise.Trace, error) {
	qs, err := b.queue.In(r)
	if err != nil {
		return nil, err
	}
	return t.Subset(qs...)
}

func (b *bench) capture(name string, xs ...*mesh.Executable) *reprise.Trace {
	b.Helper()
	t, err := b.queue.Capture(b.ctx, name, func(_ context.Context, r *mesh.Recorder) error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
	b.must(err)
	return t
}

func words(n int, first uint32) []byte { return devtest.Words(n, first) }

func (b *bench) holds(c *mesh.Chip, buf *mesh.Buffer, first uint32) {
	b.Helper()
	got := make([]byte, buf.On(c).Size())
	b.must(b.queue.On(c).Read(b.ctx, buf.On(c), 0, got))
	if want := words(len(got), first); !bytes.Equal(got, want) {
		b.Errorf("chip %v: buffer %q starts with %#x, want %#x", c.Coord, buf.Name(), binary.LittleEndian.Uint32(got), first)
	}
}

var fails = expect.Fails

func second[V any](_ V, err error) error { return err }
