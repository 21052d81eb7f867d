package ops_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

func (b *bench) tensor(m ops.MemoryConfig, dt ops.DataType, shape ...int) *ops.Tensor {
	b.Helper()
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]uint32, n)
	for i := range v {
		v[i] = uint32(i)
	}
	h, err := ops.NewHost(shape, dt, v)
	b.must(err)
	return b.ok(b.ToDevice(b.ctx, h, ops.RowMajor, m))
}

func (b *bench) ok(t *ops.Tensor, err error) *ops.Tensor {
	b.Helper()
	b.must(err)
	return t
}

func (b *bench) holds(t *ops.Tensor, want ...uint32) {
	b.Helper()
	h, err := b.ToHost(b.ctx, t)
	b.must(err)
	if d := cmp.Diff(want, ops.Values[uint32](h)); d != "" {
		b.Error(d)
	}
}

func TestProgramCache(t *testing.T) {
	b := open(t, sim.Wormhole())
	dram := ops.Interleaved(allocator.DRAM)
	x, y := b.tensor(dram, ops.UInt32, 4), b.tensor(dram, ops.UInt32, 4)
	first := b.ok(b.Add(b.ctx, x, y))
	entries := b.ProgramCacheEntries()
	second := b.ok(b.Add(b.ctx, first, y))
	if b.ProgramCacheEntries() != entries || entries != 1 {
		t.Errorf("%d programs, then %d", entries, b.ProgramCacheEntries())
	}
	b.holds(first, 0, 2, 4, 6)
	b.holds(second, 0, 3, 6, 9)
	b.ok(b.Multiply(b.ctx, x, y))
	b.ok(b.Add(b.ctx, b.tensor(ops.Interleaved(allocator.L1), ops.UInt32, 4), y))
	if n := b.ProgramCacheEntries(); n != 3 {
		t.Errorf("%d programs, want 3: another operation and another memory", n)
	}
	b.must(b.ClearProgramCache(b.ctx))
	if n := b.ProgramCacheEntries(); n != 0 {
		t.Errorf("%d programs after clearing", n)
	}
	b.holds(b.ok(b.Add(b.ctx, second, y)), 0, 4, 8, 12)
}

func TestTraceOfOperations(t *testing.T) {
	b := open(t, sim.Blackhole())
	l1 := ops.Interleaved(allocator.L1)
	x, y := b.tensor(l1, ops.Int32, 2, 3), b.tensor(l1, ops.Int32, 1, 3)
	sum, product := b.ok(b.Empty(b.ctx, x.Spec())), b.ok(b.Empty(b.ctx, x.Spec()))
	run := func(ctx context.Context) error {
		if _, err := b.Add(ctx, x, y, ops.Into(sum)); err != nil {
			return err
		}
		_, err := b.Add(ctx, sum, y, ops.Into(product))
		return err
	}
	b.must(run(b.ctx))
	tr, err := b.Capture(b.ctx, "sums", run)
	b.must(err)
	h, err := ops.NewHost([]int{2, 3}, ops.Int32, []int32{10, 20, 30, -10, -20, -30})
	b.must(err)
	b.must(b.CopyHostToDevice(b.ctx, h, x))
	b.must(tr.Replay(b.ctx))
	minus := func(n uint32) uint32 { return -n }
	b.holds(sum, 10, 21, 32, minus(10), minus(19), minus(28))
	b.holds(product, 10, 22, 34, minus(10), minus(18), minus(26))
	b.must(b.Deallocate(y))
	other := b.tensor(l1, ops.Int32, 1, 3)
	if other.Address() == y.Address() {
		t.Errorf("the memory of a tensor that a trace uses was given away")
	}
	b.must(tr.Replay(b.ctx))
	b.must(tr.Release(b.ctx))
}

func TestCacheMissDuringCapture(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.tensor(ops.Interleaved(allocator.DRAM), ops.UInt32, 4)
	out := b.ok(b.Empty(b.ctx, x.Spec()))
	var got error
	_, err := b.Capture(b.ctx, "cold", func(ctx context.Context) error {
		_, got = b.Relu(ctx, x, ops.Into(out))
		return nil
	})
	var miss *ops.CacheMissError
	if !errors.As(got, &miss) || !errors.Is(got, ops.ErrCacheMiss) || !errors.Is(got, reprise.ErrInCapture) ||
		!strings.Contains(miss.Key, "DataType::UINT32") {
		t.Errorf("in the capture: %v", got)
	}
	if !errors.Is(err, reprise.ErrInCapture) {
		t.Errorf("of the capture: %v", err)
	}
	if _, err := b.Capture(b.ctx, "allocates", func(ctx context.Context) error { _, err := b.Relu(ctx, x); return err }); !errors.Is(err,
		reprise.ErrInCapture) {
		t.Errorf("a result that has to be allocated: %v", err)
	}
	if n := b.ProgramCacheEntries(); n != 0 {
		t.Errorf("%d programs in the cache", n)
	}
	b.ok(b.Relu(b.ctx, x, ops.Into(out)))
	tr, err := b.Capture(b.ctx, "warm", func(ctx context.Context) error { _, err := b.Relu(ctx, x, ops.Into(out)); return err })
	b.must(err)
	b.must(tr.Release(b.ctx))
}

func TestOperationsThatCannotBe(t *testing.T) {
	b := open(t, sim.Wormhole())
	dram := ops.Interleaved(allocator.DRAM)
	x, y := b.tensor(dram, ops.UInt32, 4, 3), b.tensor(dram, ops.Float32, 4, 3)
	gone := b.tensor(dram, ops.UInt32, 4, 3)
	b.must(b.Deallocate(gone))
	other := open(t, sim.Wormhole())
	foreign := other.tensor(dram, ops.UInt32, 4, 3)
	host := &ops.Host{Shape: []int{2, 2}, DType: ops.UInt32, Data: make([]byte, 16)}
	before := b.dev.MemoryFingerprint(allocator.DRAM)
	for name, c := range map[string]struct {
		do   func() error
		want error
	}{
		"types":         {func() error { _, err := b.Add(b.ctx, x, y); return err }, ops.ErrDataType},
		"shapes":        {func() error { _, err := b.Add(b.ctx, x, b.tensor(dram, ops.UInt32, 2, 3)); return err }, ops.ErrShape},
		"matrices":      {func() error { _, err := b.Matmul(b.ctx, x, x); return err }, ops.ErrShape},
		"float product": {func() error { _, err := b.Matmul(b.ctx, x, x, ops.WithDataType(ops.Float32)); return err }, ops.ErrShape},
		"freed":         {func() error { _, err := b.Relu(b.ctx, gone); return err }, ops.ErrReleased},
		"freed twice":   {func() error { return b.Deallocate(gone) }, ops.ErrReleased},
		"nil":           {func() error { _, err := b.Add(b.ctx, x, nil); return err }, ops.ErrShape},
		"foreign":       {func() error { _, err := b.Add(b.ctx, x, foreign); return err }, ops.ErrWrongDevice},
		"into itself":   {func() error { _, err := b.Relu(b.ctx, x, ops.Into(x)); return err }, ops.ErrMemory},
		"into another":  {func() error { _, err := b.Relu(b.ctx, x, ops.Into(y)); return err }, ops.ErrShape},
		"one of many":   {func() error { _, err := b.Concat(b.ctx, []*ops.Tensor{x}, 0); return err }, ops.ErrShape},
		"no dimension":  {func() error { _, err := b.Concat(b.ctx, []*ops.Tensor{x, x}, 2); return err }, ops.ErrShape},
		"five":          {func() error { _, err := b.Repeat(b.ctx, x, []int{1, 1, 1, 1, 1}); return err }, ops.ErrShape},
		"never":         {func() error { _, err := b.Repeat(b.ctx, x, []int{0, 1}); return err }, ops.ErrShape},
		"no shards":     {func() error { _, err := b.Reshard(b.ctx, x, dram); return err }, ops.ErrMemory},
		"odd tile": {func() error {
			_, err := b.Empty(b.ctx, ops.Spec{Shape: []int{64, 64}, Layout: ops.Tile,
				Memory: ops.Sharded(allocator.HeightSharded, 16, 64, chip.Grid(4, 1))})
			return err
		}, ops.ErrMemory},
		"host":     {func() error { return b.CopyHostToDevice(b.ctx, host, x) }, ops.ErrShape},
		"no shape": {func() error { _, err := b.Empty(b.ctx, ops.Spec{Memory: dram}); return err }, ops.ErrShape},
		"too large": {func() error {
			_, err := b.Empty(b.ctx, ops.Spec{Shape: []int{1 << 20, 1 << 20}, Memory: dram})
			return err
		}, reprise.ErrOutOfMemory},
		"no room for a row": {func() error {
			wide := b.ok(b.Empty(b.ctx, ops.Spec{Shape: []int{1, 1 << 20}, DType: ops.UInt32, Memory: dram}))
			defer func() { b.must(b.Deallocate(wide)) }()
			_, err := b.Relu(b.ctx, wide)
			if !errors.As(err, new(*dispatch.ProgramError)) {
				t.Errorf("%v is no program error", err)
			}
			return nil
		}, nil},
	} {
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if name == "shapes" {
			before = b.dev.MemoryFingerprint(allocator.DRAM) // it made a tensor
		}
		if now := b.dev.MemoryFingerprint(allocator.DRAM); now != before {
			t.Errorf("%s changed what is allocated", name)
		}
	}
}
