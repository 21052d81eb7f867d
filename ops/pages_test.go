package ops_test

import (
	"errors"
	"testing"

	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func TestTensorFromBuffer(t *testing.T) {
	b := open(t, sim.Blackhole())
	s := ops.Spec{Shape: []int{1, 1, 40, 33}, DType: ops.BFloat16, Layout: ops.Tile, Memory: dram}
	v := make([]float32, 40*33)
	for i := range v {
		v[i] = float32(i%100) - 50
	}
	h, err := ops.NewHost(s.Shape, s.DType, v)
	b.must(err)
	pages, err := s.Encode(h)
	b.must(err)
	back, err := s.Decode(pages)
	b.must(err)
	equal(t, h, back, "decoded")

	c, err := s.BufferConfig("input")
	b.must(err)
	buf, err := b.dev.NewBuffer(c)
	b.must(err)
	b.must(b.dev.Queue(0).Write(b.ctx, buf, 0, pages))
	in, err := b.FromBuffer(buf, s)
	b.must(err)
	got, err := b.ToHost(b.ctx, b.ok(b.Neg(b.ctx, in)))
	b.must(err)
	for i := range v {
		v[i] = -v[i]
	}
	equal(t, v, ops.Values[float32](got), "negated")

	other := open(t, sim.Blackhole())
	rows := s
	rows.Layout = ops.RowMajor
	for name, c := range map[string]struct {
		err  func() error
		want error
	}{
		"another device": {func() error { _, err := other.FromBuffer(buf, s); return err }, ops.ErrWrongDevice},
		"other pages":    {func() error { return failure(b.FromBuffer(buf, rows)) }, ops.ErrMemory},
		"no buffer":      {func() error { return failure(b.FromBuffer(nil, s)) }, ops.ErrMemory},
		"no shape":       {func() error { return failure(b.FromBuffer(buf, ops.Spec{Shape: []int{-1}})) }, ops.ErrShape},
		"no layout":      {func() error { _, err := ops.Spec{Layout: 2}.BufferConfig(""); return err }, ops.ErrMemory},
		"pages cut":      {func() error { _, err := s.Decode(pages[1:]); return err }, ops.ErrShape},
		"another shape":  {func() error { _, err := ops.Spec{Shape: []int{2}, DType: s.DType}.Encode(h); return err }, ops.ErrShape},
	} {
		if err := c.err(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}

	b.must(b.Deallocate(in))
	if _, err := b.Neg(b.ctx, in); !errors.Is(err, ops.ErrReleased) {
		t.Errorf("after it was deallocated: %v", err)
	}
	b.must(buf.Release()) // it still was the caller's
}
