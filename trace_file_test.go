package reprise_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
)

// saved returns the file of a trace of two programs over ten steps, with its buffers.
func saved(t *testing.T, target kmd.Target) []byte {
	t.Helper()
	b := open(t, target)
	b.pages("in the way", 3)
	in, mid := b.pages("in", 20), b.pages("mid", 20)
	out := b.buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 20 * 64, PageSize: 64, Name: "out"})
	one := b.load(b.adder("one", chip.Core{X: 1, Y: 2}, in, mid, 100))
	long := b.adder("two", chip.Core{X: 4, Y: 1}, mid, out, 7)
	im := *long.Kernels[0].Image
	im.Text = append(bytes.Clone(im.Text), make([]byte, 4<<10)...) // relayed from DRAM; the first one is among the commands
	long.Kernels[0].Image = &im
	two := b.load(long)
	b.write(in, 5)
	trace := b.capture("saved", one, two, one, two, one, two, one, two, one, two)
	b.replay(trace)
	var file, again bytes.Buffer
	b.must(trace.Save(b.ctx, &file, reprise.WithData(in), reprise.WithResults(mid, out)))
	b.must(trace.Save(b.ctx, &again, reprise.WithData(in), reprise.WithResults(mid, out)))
	if !bytes.Equal(file.Bytes(), again.Bytes()) {
		b.Error("the same trace is saved in other bytes")
	}
	b.must(trace.Release(b.ctx))
	b.fails("saved after release", trace.Save(b.ctx, &again), reprise.ErrReleased)
	return file.Bytes()
}

func TestLoadedTraceRuns(t *testing.T) {
	file := saved(t, sim.Blackhole())
	b := open(t, sim.Blackhole())
	nothing := b.allocated()
	trace, err := b.dev.LoadTrace(b.ctx, bytes.NewReader(file))
	b.must(err)
	bufs := trace.Buffers()
	if trace.Name() != "saved" || len(trace.Parts()[0].Steps) != 10 || trace.Parts()[0].Steps[1].Name != "two" || len(bufs) != 3 {
		b.Fatalf("%q: %+v, %d buffers", trace.Name(), trace.Parts()[0].Steps, len(bufs))
	}
	x := b.load(b.blank("blank", b.dev.Grid()))
	own := b.capture("own", x, x, x)
	b.write(bufs[0], 4)
	b.must(errors.Join(b.queue.Run(b.ctx, x), trace.Replay(b.ctx), own.Replay(b.ctx), trace.Replay(b.ctx)))
	b.holds(bufs[2], 111)
	b.fails("results of a recorded trace", own.Debug().CheckResults(b.ctx), debug.ErrNoResults)
	var again bytes.Buffer
	b.must(trace.Save(b.ctx, &again))
	f, err := tracebuf.Decode(&again)
	b.must(err)
	if len(f.Data) != 0 || len(f.Image.Programs) != 2 || len(f.Image.Relocs) == 0 || !f.Image.Buffers[2].Output ||
		f.Image.Buffers[0].Output {
		t.Errorf("saved again: %d data, %d programs, %d relocations", len(f.Data), len(f.Image.Programs), len(f.Image.Relocs))
	}
	b.must(errors.Join(own.Release(b.ctx), x.Release(b.ctx), trace.Release(b.ctx)))
	b.sameMemory(nothing)
	b.fails("a buffer of a released trace was written", b.queue.Write(b.ctx, bufs[0], 0, nil), reprise.ErrReleased)
}

func TestLoadTraceWithBuffers(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in, out := b.pages("in", 8), b.pages("out", 8)
		other := b.pages("other", 8)
		x := b.load(b.adder("adder", chip.Core{}, in, out, 3))
		trace := b.capture("trace", x)
		var file bytes.Buffer
		b.must(trace.Save(b.ctx, &file, reprise.WithData()))
		b.must(errors.Join(trace.Release(b.ctx), x.Release(b.ctx)))
		before := b.allocated()
		load := func(bufs ...*reprise.Buffer) (*reprise.Trace, error) {
			return b.dev.LoadTrace(b.ctx, bytes.NewReader(file.Bytes()), reprise.WithBuffers(bufs...))
		}
		_, err := load()
		b.says(err, `load trace "trace"`, `buffer "in" must lie where it lay`)
		_, err = load(in, out, other)
		b.says(err, `the trace has no buffer "other"`)
		wrong := b.pages("in", 8)
		_, err = load(wrong, out)
		b.says(err, `buffer "in" is 512 B`, "the trace was recorded with")
		b.must(wrong.Release())
		b.sameMemory(before)
		again, err := load(in, out)
		b.must(err)
		b.write(in, 9)
		b.replay(again)
		b.holds(out, 12)
		b.must(in.Release())
		b.replay(again)
		b.holds(out, 12)
		b.must(errors.Join(again.Release(b.ctx), out.Release(), other.Release()))
		for k, n := range b.allocated() {
			if n != 0 {
				b.Errorf("%d B of %v are left", n, k)
			}
		}
	})
}

func TestLoadTraceRefuses(t *testing.T) {
	file := saved(t, sim.Blackhole())
	change := func(edit func(*tracebuf.File)) []byte {
		f, err := tracebuf.Decode(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		edit(f)
		var out bytes.Buffer
		if err := tracebuf.Encode(&out, f); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	cut := file[:len(file)/2]
	flipped := bytes.Clone(file)
	flipped[len(file)/2] ^= 1
	for _, c := range []struct {
		name   string
		target kmd.Target
		file   []byte
		is     error
		says   []string
	}{
		{"wormhole", sim.Wormhole(), file, reprise.ErrOtherTarget, []string{"architecture is blackhole", "wormhole"}},
		{"harvested", sim.Blackhole(sim.Harvesting(chip.Harvesting{Tensix: 1})), file, reprise.ErrOtherTarget, []string{"its harvesting is Tensix 0x0", "Tensix 0x1"}},
		{"firmware", sim.Blackhole(), change(func(f *tracebuf.File) { f.Target.Firmware[0]++ }), reprise.ErrOtherTarget, []string{"firmware"}},
		{"cut", sim.Blackhole(), cut, reprise.ErrDamagedTrace, []string{"cut off"}},
		{"changed", sim.Blackhole(), flipped, reprise.ErrDamagedTrace, []string{"checksum"}},
		{"no file", sim.Blackhole(), []byte("no trace"), tracebuf.ErrNotTrace, nil},
		{"queue state", sim.Blackhole(), change(func(f *tracebuf.File) { f.Image.After[0]++ }), nil, []string{"it leaves its queue as"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := open(t, c.target)
			before := b.allocated()
			trace, err := b.dev.LoadTrace(b.ctx, bytes.NewReader(c.file))
			b.says(err, append([]string{"reprise: load trace"}, c.says...)...)
			if c.is != nil && !errors.Is(err, c.is) || trace != nil {
				b.Errorf("error is %v, want %v", err, c.is)
			}
			b.sameMemory(before)
		})
	}
}

func TestVerifyFindsWhatWasOverwritten(t *testing.T) {
	card := sim.Wormhole()
	b := open(t, card)
	in, out := b.pages("in", 1), b.pages("out", 1)
	x := b.load(b.adder("adder", chip.Core{}, in, out, 3))
	trace := b.recorded("trace", func(r *reprise.Recorder) error {
		return errors.Join(r.Run(x), r.Param("addend", addend))
	})
	b.write(in, 1)
	b.must(errors.Join(trace.Debug().Verify(b.ctx), trace.Debug().Check(b.ctx)))

	kd, err := kmd.Open(b.ctx, card, kmd.WithoutPower(), kmd.WithoutWaiting())
	b.must(err)
	defer kd.Close()
	ch, err := chip.New(kd.Arch(), chip.Harvesting{})
	b.must(err)
	part := trace.Parts()[0]
	page := int(part.Extents[0].End - part.Extents[0].Start)
	word := part.Params[0].At[0]
	at := part.Extents[word/page]
	bank := ch.DRAMBanks()[at.Bank]
	b.must(kd.Write32(bank.HostEndpoint, bank.Offset+at.Start+uint64(word%page), 77))
	for what, err := range map[string]error{"verify": trace.Debug().Verify(b.ctx), "check": trace.Debug().Check(b.ctx)} {
		var v *debug.VerifyError
		if !errors.As(err, &v) || v.What != "the commands" || v.Offset != word || v.Differ == 0 || v.Trace != "trace" ||
			v.Got != 77 || v.Want != 3 {
			t.Errorf("%s: %v", what, err)
		}
	}
	if p := trace.Parts()[0].Params[0]; p.Value != 3 {
		t.Errorf("the parameter is %+v", p)
	}
	b.must(trace.Release(b.ctx))
	b.fails("verified after release", trace.Debug().Verify(b.ctx), reprise.ErrReleased)
}

func TestSaveRefusesForeignBuffers(t *testing.T) {
	onEmulators(t, func(b *bench) {
		x := b.load(b.blank("blank", chip.Single(0, 0)))
		trace := b.capture("trace", x)
		var out strings.Builder
		b.says(trace.Save(b.ctx, &out, reprise.WithData(b.pages("other", 1))), "none of the trace's")
		b.says(trace.Save(b.ctx, &out, reprise.WithData(nil)), "it is nil")
		if out.Len() != 0 {
			b.Errorf("%d B were written all the same", out.Len())
		}
	})
}

func TestSaveRefusesOverlappingBuffers(t *testing.T) {
	b := open(t, sim.Blackhole())
	pool, err := b.dev.NewPool(reprise.PoolConfig{Kind: allocator.DRAM, Size: 1 << 20, Name: "pool"})
	b.must(err)
	row := b.dev.DRAMBanks()
	take := func(name string, pages int) *reprise.Buffer {
		buf, err := pool.NewBuffer(reprise.BufferConfig{Size: 64 * pages, PageSize: 64, Name: name})
		b.must(err)
		return buf
	}
	first, low := take("first", row), take("low", row)
	x := b.load(b.adder("x", chip.Core{}, b.pages("in", row), low, 1))
	b.must(errors.Join(first.Release(), low.Release()))
	both := take("both", 2*row)
	if both.Addr() >= low.Addr() {
		t.Fatalf("%q lies at %#x, %q at %#x: they were to begin at different addresses", low.Name(), low.Addr(), both.Name(), both.Addr())
	}
	y := b.load(b.adder("y", chip.Core{}, both, b.pages("out", 2*row), 1))
	b.says(b.capture("t", x, y).Save(b.ctx, io.Discard), `"low"`, `"both"`, `share memory of pool "pool"`)
}

func TestLoadTraceOfAnotherQueue(t *testing.T) {
	for _, card := range emulators {
		t.Run(card().String(), func(t *testing.T) {
			left := chip.Grid(3, 4)
			right := chip.Range{Start: chip.Core{X: 3}, End: chip.Core{X: 6, Y: 3}}
			split := []reprise.Option{reprise.WithQueues(2), reprise.WithQueueWorkers(0, left), reprise.WithQueueWorkers(1, right)}
			record := func(at chip.Core, opts ...reprise.Option) []byte {
				b := open(t, card(), opts...)
				in, out := b.pages("in", 4), b.pages("out", 4)
				x := b.load(b.adder("adder", at, in, out, 3))
				b.write(in, 5)
				b.wait()
				q := b.dev.Queue(1)
				trace, err := q.Capture(b.ctx, "second", func(_ context.Context, r *reprise.Recorder) error {
					return errors.Join(r.Run(x), r.Run(x))
				})
				b.must(err)
				var file bytes.Buffer
				b.must(trace.Save(b.ctx, &file, reprise.WithData(in)))
				return file.Bytes()
			}
			shared, apart := record(chip.Core{}, reprise.WithQueues(2)), record(chip.Core{X: 4, Y: 1}, split...)
			run := func(b *bench, file []byte) {
				trace, err := b.dev.LoadTrace(b.ctx, bytes.NewReader(file))
				b.must(err)
				b.must(errors.Join(trace.Replay(b.ctx), trace.Replay(b.ctx)))
				out := trace.Buffers()[1]
				got := make([]byte, out.Size())
				b.must(b.dev.Queue(b.dev.Queues()-1).Read(b.ctx, out, 0, got))
				if !bytes.Equal(got, words(out.Size(), 8)) {
					b.Errorf("the trace computes % x...", got[:16])
				}
				b.must(trace.Release(b.ctx))
			}
			one := open(t, card())
			run(one, shared)
			_, err := one.dev.LoadTrace(one.ctx, bytes.NewReader(apart))
			one.fails("a trace for other workers", err, reprise.ErrOtherTarget)
			one.says(err, "grid of workers is (3,0)-(6,3)")
			run(open(t, card(), split...), apart)
		})
	}
}

func (b *bench) numbers(buf *reprise.Buffer) *reprise.Program {
	b.Helper()
	words := map[chip.Core][]uint32{}
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

func TestTraceFileOfOtherCores(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.numbers(b.buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 64, Name: "sharded", Sharding: heights(4, 1, 4)}))
	var file bytes.Buffer
	b.must(b.capture("t", b.load(x)).Save(b.ctx, &file))
	f, err := tracebuf.Decode(&file)
	b.must(err)
	for part, change := range map[string]func(s *allocator.ShardSpec){
		"core (0,9) is not one of the workers": func(s *allocator.ShardSpec) { s.Cores[0].Start.Y, s.Cores[0].End.Y = 9, 9 },
		"4 shards on 3 cores":                  func(s *allocator.ShardSpec) { s.Cores[0].End.X = 2 },
		"are narrower than the tensor":         func(s *allocator.ShardSpec) { s.Tensor = []int{2, 2} },
		"is named twice":                       func(s *allocator.ShardSpec) { s.Cores = append(s.Cores, s.Cores...) },
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
		here.sameMemory(before)
	}
}

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
		trace := b.recorded("twice", func(r *reprise.Recorder) error {
			return errors.Join(r.Run(x), r.ParamBuffer("dram", dram, writeTo), r.Run(y),
				r.ParamBuffer("l1", l1, reprise.Arg{Kernel: "store"}))
		})
		var file bytes.Buffer
		b.must(trace.Save(b.ctx, &file))
		b.must(errors.Join(trace.Release(b.ctx), x.Release(b.ctx), y.Release(b.ctx), dram.Release(), in.Release()))
		trace, err := b.dev.LoadTrace(b.ctx, &file)
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
		b.replay(trace)
		b.holds(bufs["dram"], 41)
		b.holds(l1, 5)
		if got := binary.LittleEndian.Uint32(b.read(bufs["l1"])); got != 0x1234567 {
			b.Errorf("the buffer in L1 has %#x", got)
		}
		b.says(trace.SetBuffer("dram", l1), "take one like that")
		b.must(errors.Join(trace.Release(b.ctx), l1.Release()))
	})
}
