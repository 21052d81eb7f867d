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
	"github.com/reprise-tt/reprise/internal/effort"
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

// A trace whose programs use sharded buffers runs from a file: the shards are on the same cores,
// with the contents that were saved. Where the place is taken the buffer goes elsewhere if a
// parameter names it, in the same layout, and otherwise the file is refused.
func TestTraceFileOfShardedBuffers(t *testing.T) {
	effort.Long(t)
	if testing.Short() {
		t.Skip("one goroutine and minutes under the race detector")
	}
	grid := func(w, h int) []chip.Range { return []chip.Range{chip.Grid(w, h)} }
	for _, c := range []struct {
		name string
		kind allocator.Kind
		s    allocator.ShardSpec
	}{
		{"height", allocator.L1, allocator.ShardSpec{Layout: allocator.HeightSharded, Tensor: []int{11, 2}, Shard: []int{3, 2}, Cores: grid(2, 2)}},
		{"height by columns", allocator.L1, allocator.ShardSpec{Layout: allocator.HeightSharded, Tensor: []int{12, 1}, Shard: []int{2, 1}, Cores: grid(2, 4), Orientation: allocator.ColMajor}},
		{"width", allocator.L1, allocator.ShardSpec{Layout: allocator.WidthSharded, Tensor: []int{4, 7}, Shard: []int{4, 2}, Cores: grid(4, 1)}},
		{"block", allocator.L1Small, allocator.ShardSpec{Layout: allocator.BlockSharded, Tensor: []int{5, 5}, Shard: []int{2, 2}, Cores: grid(3, 3)}},
		{"block by columns", allocator.L1, allocator.ShardSpec{Layout: allocator.BlockSharded, Tensor: []int{4, 6}, Shard: []int{2, 2}, Cores: []chip.Range{{Start: chip.Core{X: 1, Y: 1}, End: chip.Core{X: 2, Y: 3}}}, Orientation: allocator.ColMajor}},
		{"ND", allocator.L1, allocator.ShardSpec{Layout: allocator.NDSharded, Tensor: []int{3, 4, 3}, Shard: []int{2, 2, 2}, Cores: append(grid(2, 1), chip.Single(5, 5))}},
		{"ND contiguous", allocator.L1, allocator.ShardSpec{Layout: allocator.NDSharded, Tensor: []int{4, 3}, Shard: []int{1, 2}, Strategy: allocator.Contiguous, Cores: grid(4, 1)}},
		{"banks", allocator.DRAM, allocator.ShardSpec{Layout: allocator.HeightSharded, Tensor: []int{9, 1}, Shard: []int{2, 1}, Cores: grid(6, 1)}},
	} {
		for _, card := range emulators {
			t.Run(c.name+" on "+card().String(), func(t *testing.T) {
				conf := reprise.BufferConfig{Kind: c.kind, PageSize: 40, Name: "sharded", Sharding: &c.s}
				record := func(named bool) (file, data, after []byte, was *reprise.Buffer) {
					b := open(t, card(), reprise.WithL1Small(4096))
					buf := b.buffer(conf)
					x := b.blank("blank", chip.Single(0, 0))
					x.Buffers = []*reprise.Buffer{buf}
					if c.kind != allocator.DRAM {
						x = b.numbers(buf)
					}
					y := b.load(x)
					trace, err := b.queue.Capture(b.ctx, "sharded", func(_ context.Context, r *reprise.Recorder) error {
						err := r.Run(y)
						if named {
							err = errors.Join(err, r.ParamBuffer("to", buf, reprise.Arg{Kernel: "store"}))
						}
						return err
					})
					b.must(err)
					b.write(buf, 77)
					var out bytes.Buffer
					b.must(trace.Save(b.ctx, &out, reprise.WithData()))
					data = b.read(buf)
					b.must(errors.Join(trace.Debug().Check(b.ctx), trace.Replay(b.ctx)))
					return out.Bytes(), data, b.read(buf), buf
				}
				file, data, after, was := record(false)
				b := open(t, card(), reprise.WithL1Small(4096))
				runs := func(file []byte, moved bool, opts ...reprise.LoadOption) {
					t.Helper()
					trace, err := b.dev.LoadTrace(b.ctx, bytes.NewReader(file), opts...)
					b.must(err)
					buf := trace.Buffers()[0]
					for i := range buf.Pages() {
						got, _ := buf.Page(i)
						want, _ := was.Page(i)
						if moved {
							want.Addr += buf.Addr() - was.Addr()
						}
						if got != want {
							t.Errorf("page %d is at %+v, was at %+v", i, got, want)
						}
					}
					if moved != (buf.Addr() != was.Addr()) || buf.Layout() != c.s.Layout || buf.Kind() != c.kind {
						t.Errorf("the buffer is %v in %v at %#x, was at %#x", buf.Layout(), buf.Kind(), buf.Addr(), was.Addr())
					}
					if diff := cmp.Diff(data, b.read(buf)); diff != "" {
						t.Errorf("the buffer's data (-saved +loaded):\n%s", diff)
					}
					b.must(errors.Join(trace.Debug().Check(b.ctx), trace.Replay(b.ctx), b.queue.Wait(b.ctx)))
					if diff := cmp.Diff(after, b.read(buf)); diff != "" {
						t.Errorf("after a replay (-recorded +loaded):\n%s", diff)
					}
					var again bytes.Buffer
					b.must(trace.Save(b.ctx, &again))
					b.must(trace.Release(b.ctx))
				}
				runs(file, false)

				own := conf
				own.Addr = was.Addr()
				taken := b.buffer(own)
				runs(file, false, reprise.WithBuffers(taken))
				other := own
				other.Addr, other.Sharding = 0, heights(taken.Pages(), taken.Pages(), 1)
				wrong := b.buffer(other)
				_, err := b.dev.LoadTrace(b.ctx, bytes.NewReader(file), reprise.WithBuffers(wrong))
				b.says(err, `buffer "sharded" is `)
				b.must(wrong.Release())
				if c.kind == allocator.DRAM {
					return // its program has no address
				}
				_, err = b.dev.LoadTrace(b.ctx, bytes.NewReader(file))
				b.says(err, `buffer "sharded" must lie where it lay`, "inside of the buffer, and no parameter")
				if !errors.Is(err, allocator.ErrOccupied) {
					t.Errorf("error %v, want allocator.ErrOccupied", err)
				}
				file, data, after, was = record(true)
				runs(file, true)
			})
		}
	}
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

// A program that uses parts of a buffer runs from a file: the whole buffer is there, parameters
// stand for their parts, and data and results can be those of parts.
func TestTraceFileOfParts(t *testing.T) {
	onEmulators(t, func(b *bench) {
		below := b.pages("below", 10_000) // so that no size looks like an address in the next one
		whole := b.pages("whole", 8)
		in, err := whole.Sub(64, 128)
		b.must(err)
		out, err := whole.Sub(320, 128)
		b.must(err)
		p := b.adder("adder", chip.Core{X: 1}, in, out, 3)
		for _, i := range []int{0, 2} {
			args, first := p.Kernels[i].Args(chip.Core{}), []*reprise.Buffer{in, nil, out}[i].FirstPage()
			args[1] = uint32(first)
			p.Kernels[i].Args = func(chip.Core) []uint32 { return args }
		}
		x := b.load(p)
		trace, err := b.queue.Capture(b.ctx, "parts", func(_ context.Context, r *reprise.Recorder) error {
			return errors.Join(r.Run(x), r.ParamBuffer("in", in, readFrom), r.ParamBuffer("out", out, writeTo))
		})
		b.must(err)
		b.write(whole, 100)
		b.must(trace.Replay(b.ctx))
		b.holds(out, 100+16+3)
		var file bytes.Buffer
		b.must(trace.Save(b.ctx, &file, reprise.WithData(), reprise.WithResults(out)))
		want := trace.Parts()[0].Params
		f, err := tracebuf.Decode(bytes.NewReader(file.Bytes()))
		b.must(err)
		var parts [][3]int
		for _, d := range append(f.Data, f.Results...) {
			parts = append(parts, [3]int{d.Buffer, d.Offset, len(d.Bytes)})
		}
		if diff := cmp.Diff([][3]int{{0, 0, 320}, {0, 448, 64}, {0, 320, 128}}, parts); diff != "" {
			b.Errorf("data and results (-want +got):\n%s", diff)
		}
		if p := f.Image.Params; len(p) != 2 || p[0].Buffer != 0 || p[0].First != 1 || p[0].Pages != 2 || p[1].First != 5 {
			b.Errorf("parameters: %+v", p)
		}
		b.must(errors.Join(trace.Release(b.ctx), x.Release(b.ctx), in.Release(), out.Release(), whole.Release()))

		blocker := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Addr: whole.Addr()})
		trace, err = b.dev.LoadTrace(b.ctx, bytes.NewReader(file.Bytes()))
		b.must(err)
		got := trace.Parts()[0].Params
		for i := range want {
			want[i].Value = trace.Buffers()[0].Addr()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			b.Errorf("parameters (-saved +loaded):\n%s", diff)
		}
		b.must(errors.Join(trace.Replay(b.ctx), trace.Debug().CheckResults(b.ctx)))
		// The place of a part is taken by a part like it, not by a whole buffer.
		other := b.pages("other", 8)
		b.says(trace.SetBuffer("out", other), "take one like that")
		b.write(other, 0)
		like, err := other.Sub(320, 128)
		b.must(err)
		b.must(errors.Join(trace.SetBuffer("out", like), trace.Replay(b.ctx)))
		b.holds(like, 100+16+3)
		if _, err := b.dev.LoadTrace(b.ctx, &file, reprise.WithBuffers(like)); err == nil {
			b.Error("a part took the place of a whole buffer")
		}
		b.must(errors.Join(trace.Release(b.ctx), like.Release(), other.Release(), blocker.Release(), below.Release()))
		for k, n := range b.allocated() {
			if n != 0 {
				b.Errorf("%d B of %v are left", n, k)
			}
		}
	})
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
