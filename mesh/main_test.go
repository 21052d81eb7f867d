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

func (b *bench) run(x *mesh.Executable) {
	b.Helper()
	b.must(b.queue.Run(b.ctx, x))
}

func (b *bench) wait() {
	b.Helper()
	b.must(b.queue.Wait(b.ctx))
}

func (b *bench) replay(t *reprise.Trace) {
	b.Helper()
	b.must(t.Replay(b.ctx))
}

func (b *bench) write(buf *mesh.Buffer, first uint32) {
	b.Helper()
	b.must(b.queue.Write(b.ctx, buf, words(buf.Size(), first)))
}

func (b *bench) pages(name string, n int) *mesh.Buffer {
	b.Helper()
	return value(b.mesh.NewBuffer(mesh.BufferConfig{BufferConfig: reprise.BufferConfig{Kind: allocator.DRAM, Size: n * 64, PageSize: 64,
		Name: name}}))(b)
}

func (b *bench) adder(name string, in, out *mesh.Buffer, addend func(c *mesh.Chip) uint32) mesh.Part {
	return mesh.Part{Program: func(c *mesh.Chip) (*reprise.Program, error) {
		return devtest.Adder(c.Device, name, chip.Core{X: 1, Y: 2}, in.On(c), out.On(c), addend(c))
	}}
}

func always(v uint32) func(*mesh.Chip) uint32 { return func(*mesh.Chip) uint32 { return v } }

func (b *bench) load(name string, parts ...mesh.Part) *mesh.Executable {
	b.Helper()
	return value(b.mesh.Load(b.ctx, name, parts...))(b)
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

func (b *bench) record(name string, f func(r *mesh.Recorder) error) *reprise.Trace {
	b.Helper()
	return value(b.queue.Capture(b.ctx, name, func(_ context.Context, r *mesh.Recorder) error { return f(r) }))(b)
}

func (b *bench) capture(name string, xs ...*mesh.Executable) *reprise.Trace {
	b.Helper()
	return b.record(name, func(r *mesh.Recorder) error {
		for _, x := range xs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
}

func words(n int, first uint32) []byte { return devtest.Words(n, first) }

// allHold wants the same words on every chip.
func (b *bench) allHold(buf *mesh.Buffer, first uint32) {
	b.Helper()
	for _, c := range b.mesh.Chips() {
		b.holds(c, buf, first)
	}
}

func (b *bench) holds(c *mesh.Chip, buf *mesh.Buffer, first uint32) {
	b.Helper()
	got := make([]byte, buf.On(c).Size())
	b.must(b.queue.On(c).Read(b.ctx, buf.On(c), 0, got))
	if want := words(len(got), first); !bytes.Equal(got, want) {
		b.Errorf("chip %v: buffer %q starts with %#x, want %#x", c.Coord, buf.Name(), binary.LittleEndian.Uint32(got), first)
	}
}

// value is must for a call with a result.
func value[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		devtest.Must(t, err)
		return v
	}
}

var fails = expect.Fails

func second[V any](_ V, err error) error { return err }
