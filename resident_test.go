package reprise_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

// wide is a program whose worker (x,y) writes its first argument into its own words of L1 on the
// first processor, with so many arguments that they lie beside the kernels as long as they don't
// change.
func (b *bench) wide(out *reprise.Buffer, value uint32) *reprise.Program {
	return &reprise.Program{
		Name: "wide", Buffers: []*reprise.Buffer{out},
		Kernels: []reprise.Kernel{{
			Name: "store", Image: b.image(kernels.Store), Processor: chip.BRISC, Cores: []chip.Range{b.dev.Grid()}, Common: []uint32{0},
			Args: func(c chip.Core) []uint32 {
				a := []uint32{out.Addr(), 16}
				for len(a) < 64 {
					a = append(a, value+uint32(c.X)<<8+uint32(c.Y)<<16)
				}
				return a
			},
		}},
	}
}

// Arguments that lie beside the kernels reach the cores, and so do those that have changed since; a
// trace keeps those that it was recorded with, and one that names parameters can change them.
func TestResidentArguments(t *testing.T) {
	onAll(t, func(b *bench) {
		const page = 64
		out := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: page * b.dev.Grid().Size(), PageSize: page, Name: "out"})
		x := b.load(b.wide(out, 1))
		want := func(value uint32) {
			b.Helper()
			got := b.read(out)
			for c := range b.dev.Grid().Cores() {
				i := (c.Y*(b.dev.Grid().End.X+1) + c.X) * page
				if v, want := binary.LittleEndian.Uint32(got[i:]), value+uint32(c.X)<<8+uint32(c.Y)<<16; v != want {
					b.Fatalf("core %v has %#x, want %#x", c, v, want)
				}
			}
		}
		add := func(n uint32) func(chip.Core, []uint32) {
			return func(_ chip.Core, args []uint32) {
				for i := range args[2:] {
					args[2+i] += n
				}
			}
		}
		resident := x.Commands().Bytes
		b.must(b.queue.Run(b.ctx, x))
		want(1)
		old := b.capture("old", x, x)
		named, err := b.queue.Capture(b.ctx, "named", func(_ context.Context, r *reprise.Recorder) error {
			return errors.Join(r.Run(x), r.Param("n", reprise.Arg{Kernel: "store", Index: 1}), r.Run(x), r.Run(x),
				r.ParamBuffer("out", out, reprise.Arg{Kernel: "store", Index: 0}))
		})
		b.must(err)
		if named.Size() < old.Size()+2*10<<10 {
			b.Errorf("the trace has %d B with parameters and %d B without: arguments that are parameters must be in it", named.Size(), old.Size())
		}

		b.must(errors.Join(x.SetArgs("store", add(6)), b.queue.Run(b.ctx, x)))
		want(7)
		if x.Commands().Bytes < resident+8<<10 {
			b.Errorf("a run has %d B of commands with its arguments beside the kernels and %d B with changed ones", resident, x.Commands().Bytes)
		}
		b.must(old.Replay(b.ctx))
		want(1)
		b.must(old.Debug().Check(b.ctx))
		now := b.capture("now", x)
		b.must(errors.Join(x.SetArgs("store", add(100)), now.Replay(b.ctx)))
		want(7)
		b.must(named.Replay(b.ctx))
		want(1)
		b.must(errors.Join(b.queue.Run(b.ctx, x), named.Set("n", 8), named.Debug().Step(b.ctx, nil)))
		want(1)

		b.must(errors.Join(old.Release(b.ctx), named.Release(b.ctx), now.Release(b.ctx), x.Release(b.ctx)))
	})
}

// All arguments of a kernel can be set at once, common ones as well; what doesn't fit changes
// nothing.
func TestSetArgsRefuses(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.load(b.wide(b.word(), 1))
	none := func(chip.Core, []uint32) {}
	for name, err := range map[string]error{
		"no function": x.SetArgs("store", nil), "no such kernel": x.SetArgs("load", none),
		"too many common arguments": x.SetCommonArgs("store", []uint32{1, 2}), "no executable": (*reprise.Executable)(nil).SetArgs("store", none),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	b.must(errors.Join(x.SetCommonArgs("store", []uint32{0}), x.Release(b.ctx)))
	if err := x.SetArgs("store", none); !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("released executable: %v, want ErrReleased", err)
	}
}

// A parameter of a run whose arguments lay beside the kernels keeps the values that the run was
// recorded with.
func TestParamKeepsRecordedArguments(t *testing.T) {
	onAll(t, func(b *bench) {
		out := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * b.dev.Grid().Size(), PageSize: 64, Name: "out"})
		x := b.load(b.wide(out, 1))
		trace, err := b.queue.Capture(b.ctx, "t", func(_ context.Context, r *reprise.Recorder) error {
			if err := r.Run(x); err != nil {
				return err
			}
			if err := x.SetArg(reprise.Arg{Kernel: "store", Index: 2}, 0x777); err != nil { // for later runs
				return err
			}
			return r.Param("n", reprise.Arg{Kernel: "store", Index: 1})
		})
		b.must(err)
		first := func() uint32 { return binary.LittleEndian.Uint32(b.read(out)) }
		b.must(trace.Replay(b.ctx))
		if v := first(); v != 1 {
			t.Errorf("the trace's run wrote %#x, was recorded with 1", v)
		}
		b.must(b.queue.Run(b.ctx, x))
		if v := first(); v != 0x777 {
			t.Errorf("the next run wrote %#x, want 0x777", v)
		}
	})
}
