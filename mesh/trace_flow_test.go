package mesh_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

func TestControlFlow(t *testing.T) {
	for _, tt := range []struct {
		machine func(...sim.Option) *sim.Machine
		shape   mesh.Shape
	}{{sim.P300, mesh.Shape{1, 2}}, {sim.N300, mesh.Shape{1, 2}}, {sim.T3000, mesh.Shape{2, 4}}} {
		if tt.shape.Size() > effort.Of(2, 8, 8) {
			continue
		}
		m := tt.machine()
		t.Run(m.String(), func(t *testing.T) {
			b := open(t, m, tt.shape)
			eachDecides(b)
			oneDecides(b)
		})
	}
}

func (b *bench) page(buf *mesh.Buffer, first func(i int) uint32) {
	b.Helper()
	for i, c := range b.mesh.Chips() {
		b.must(b.queue.On(c).Write(b.ctx, buf.On(c), 0, words(64, first(i))))
	}
}

func (b *bench) first(buf *mesh.Buffer, c *mesh.Chip) uint32 {
	b.Helper()
	got := make([]byte, 64)
	b.must(b.queue.On(c).Read(b.ctx, buf.On(c), 0, got))
	return binary.LittleEndian.Uint32(got)
}

func eachDecides(b *bench) {
	b.Helper()
	n, m := b.pages("n", 1), b.pages("m", 1)
	one := b.load("one", b.adder("one", n, n, always(1)))
	ten := b.load("ten", b.adder("ten", m, m, always(10)))
	below := func(v uint32) func(*mesh.Chip) reprise.Cond {
		return func(c *mesh.Chip) reprise.Cond { return reprise.Cond{Buffer: n.On(c), Is: cq.Less, Value: v} }
	}
	trace, err := b.queue.Capture(b.ctx, "each", func(_ context.Context, r *mesh.Recorder) error {
		return errors.Join(
			r.Switch(n, 0, func() error { return r.Run(ten) }, func() error { return r.Loop(2, func() error { return r.Run(ten) }) }),
			r.While(below(9), 20, func() error {
				return errors.Join(r.Run(one), r.If(below(5), func() error { return r.Run(ten) }, nil))
			}),
			r.If(below(10), func() error { return r.Run(one) }, func() error { return r.Run(ten) }),
		)
	})
	b.must(err)
	b.page(n, func(i int) uint32 { return uint32(i) * 5 % 12 })
	b.page(m, func(int) uint32 { return 0 })
	b.must(trace.Replay(b.ctx))
	for i, c := range b.mesh.Chips() {
		v, w := uint32(i)*5%12, uint32(0)
		if v < 2 {
			w += 10 * (v + 1)
		}
		for v < 9 {
			if v++; v < 5 {
				w += 10
			}
		}
		if v < 10 {
			v++
		} else {
			w += 10
		}
		if gotN, gotM := b.first(n, c), b.first(m, c); gotN != v || gotM != w {
			b.Errorf("%s: %d and %d, want %d and %d", c.Name, gotN, gotM, v, w)
		}
	}
	b.must(trace.Release(b.ctx))
	failed := errors.New("the body has failed")
	if _, err := b.queue.Capture(b.ctx, "fails", func(_ context.Context, r *mesh.Recorder) error {
		return r.Loop(2, func() error { return failed })
	}); !errors.Is(err, failed) {
		b.Errorf("a body that fails: %v", err)
	}
	if _, err := b.queue.Capture(b.ctx, "nil", func(_ context.Context, r *mesh.Recorder) error { return r.Loop(2, nil) }); err == nil {
		b.Error("no body is no error")
	}
}

func oneDecides(b *bench) {
	b.Helper()
	links, err := b.mesh.NewLinks(b.ctx, chip.Core{})
	b.must(err)
	sum := b.pages("sum", 1)
	reduce, err := links.AllReduce(b.ctx, sum, mesh.SumInt32)
	b.must(err)
	enough := uint32(1000)
	trace, err := b.queue.Capture(b.ctx, "one", func(_ context.Context, r *mesh.Recorder) error {
		return r.While(func(c *mesh.Chip) reprise.Cond {
			return reprise.Cond{Buffer: sum.On(c), Is: cq.Less, Value: enough}
		}, 20, func() error { return r.Run(reduce) })
	})
	b.must(err)
	b.page(sum, func(i int) uint32 { return uint32(i) + 1 })
	b.must(trace.Replay(b.ctx))
	chips := uint32(len(b.mesh.Chips()))
	want := chips * (chips + 1) / 2
	for want < enough {
		want *= chips
	}
	for _, c := range b.mesh.Chips() {
		if got := b.first(sum, c); got != want {
			b.Errorf("%s: the sum is %d, want %d", c.Name, got, want)
		}
	}
	b.must(trace.Release(b.ctx))
}
