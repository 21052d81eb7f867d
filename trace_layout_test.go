package reprise_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
)

// numbers is a program that has each core write the numbers of its pages to a sharded buffer in L1.
func (b *bench) numbers(buf *reprise.Buffer) *reprise.Program {
	b.Helper()
	words := map[chip.Core][]uint32{} // from the buffer's address on, in each core
	var cores []chip.Range
	for i := range buf.Pages() {
		p, _ := buf.Page(i)
		if words[p.Core] == nil {
			cores = append(cores, chip.Single(p.Core.X, p.Core.Y))
		}
		at := int(p.Addr-buf.Addr()) / 4
		for len(words[p.Core]) < at+buf.PageSize()/4 {
			words[p.Core] = append(words[p.Core], 0)
		}
		for k := range buf.PageSize() / 4 {
			words[p.Core][at+k] = uint32(i)<<8 | uint32(k)
		}
	}
	return &reprise.Program{Name: "numbers", Buffers: []*reprise.Buffer{buf}, Kernels: []reprise.Kernel{{
		Name: "store", Image: b.image(kernels.Store), Processor: chip.BRISC, Cores: cores, Common: []uint32{0},
		Args: func(c chip.Core) []uint32 { return append([]uint32{buf.Addr(), uint32(len(words[c]))}, words[c]...) },
	}}}
}

func (b *bench) read(buf *reprise.Buffer) []byte {
	b.Helper()
	got := make([]byte, buf.Size())
	b.must(b.queue.Read(b.ctx, buf, 0, got))
	return got
}

// Shards that a file has on cores which the device gives to nobody are refused by name, and nothing
// is left.
func TestTraceFileOfOtherCores(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.numbers(b.buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 64, Name: "sharded", Sharding: heights(4, 1, 4)}))
	var file bytes.Buffer
	b.must(b.capture("t", b.load(x)).Save(b.ctx, &file))
	f, err := tracebuf.Decode(&file)
	b.must(err)
	for part, change := range map[string]func(s *tracebuf.Sharding){
		"core (0,9) is not one of the workers": func(s *tracebuf.Sharding) { s.Cores[0].Start.Y, s.Cores[0].End.Y = 9, 9 },
		"4 shards on 3 cores":                  func(s *tracebuf.Sharding) { s.Cores[0].End.X = 2 },
		"are narrower than the tensor":         func(s *tracebuf.Sharding) { s.Tensor = []int{2, 2} },
		"is named twice":                       func(s *tracebuf.Sharding) { s.Cores = append(s.Cores, s.Cores...) },
	} {
		g := *f
		g.Image.Buffers = []tracebuf.Buffer{f.Image.Buffers[0]}
		s := *f.Image.Buffers[0].Sharding
		s.Cores = append([]chip.Range{}, s.Cores...)
		s.Tensor, s.Shard = []int{4, 1}, []int{1, 1}
		change(&s)
		g.Image.Buffers[0].Sharding = &s
		var changed bytes.Buffer
		b.must(tracebuf.Encode(&changed, &g))
		here := open(t, sim.Wormhole())
		before := here.allocated()
		_, err := here.dev.LoadTrace(here.ctx, &changed)
		here.says(err, `load trace "t": buffer "sharded": `, part)
		if diff := cmp.Diff(before, here.allocated()); diff != "" {
			t.Errorf("something is left (-before +after):\n%s", diff)
		}
	}
}

// Buffers in DRAM and in L1 that lie at the same address are told apart: each parameter keeps the
// one that it stands for, also when one of them has to go elsewhere.
func TestTraceFileOfOneAddressTwice(t *testing.T) {
	onEmulators(t, func(b *bench) {
		l1 := b.buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64, PageSize: 64, Name: "l1"})
		dram := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, PageSize: 64, Name: "dram", Addr: l1.Addr()})
		in := b.pages("in", 1)
		add := b.adder("add", chip.Core{}, in, dram, 1)
		store := &reprise.Program{Name: "store", Buffers: []*reprise.Buffer{l1}, Kernels: []reprise.Kernel{{
			Name: "store", Image: b.image(kernels.Store), Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)}, Common: []uint32{0},
			Args: func(chip.Core) []uint32 { return []uint32{l1.Addr(), 1, 0x1234567} },
		}}}
		x, y := b.load(add), b.load(store)
		trace, err := b.queue.Capture(b.ctx, "twice", func(_ context.Context, r *reprise.Recorder) error {
			return errors.Join(r.Run(x), r.ParamBuffer("dram", dram, writeTo), r.Run(y), r.ParamBuffer("l1", l1, reprise.Arg{Kernel: "store"}))
		})
		b.must(err)
		var file bytes.Buffer
		b.must(trace.Save(b.ctx, &file))
		b.must(errors.Join(trace.Release(b.ctx), x.Release(b.ctx), y.Release(b.ctx), dram.Release(), in.Release()))
		trace, err = b.dev.LoadTrace(b.ctx, &file) // l1 is still there
		b.must(err)
		bufs := map[string]*reprise.Buffer{}
		for _, u := range trace.Buffers() {
			bufs[u.Name()] = u
		}
		if bufs["dram"].Addr() != l1.Addr() || bufs["l1"].Addr() == l1.Addr() {
			b.Errorf("dram is at %#x and l1 at %#x, both were at %#x", bufs["dram"].Addr(), bufs["l1"].Addr(), l1.Addr())
		}
		b.write(l1, 5)
		b.write(bufs["in"], 40)
		b.must(trace.Replay(b.ctx))
		b.holds(bufs["dram"], 41)
		b.holds(l1, 5)
		if got := binary.LittleEndian.Uint32(b.read(bufs["l1"])); got != 0x1234567 {
			b.Errorf("the buffer in L1 has %#x", got)
		}
		b.says(trace.SetBuffer("dram", l1), "take one like that")
		b.must(errors.Join(trace.Release(b.ctx), l1.Release()))
	})
}
