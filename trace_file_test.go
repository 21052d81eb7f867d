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
	"github.com/reprise-tt/reprise/internal/devtest"
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
	b.Pages("in the way", 3)
	in, mid := b.Pages("in", 20), b.Pages("mid", 20)
	out := b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 20 * 64, PageSize: 64, Name: "out"})
	one := b.Load(b.Adder("one", chip.Core{X: 1, Y: 2}, in, mid, 100))
	long := b.Adder("two", chip.Core{X: 4, Y: 1}, mid, out, 7)
	im := *long.Kernels[0].Image
	im.Text = append(bytes.Clone(im.Text), make([]byte, 4<<10)...) // relayed from DRAM; the first one is among the commands
	long.Kernels[0].Image = &im
	two := b.Load(long)
	b.Write(in, 5)
	trace := b.Capture("saved", one, two, one, two, one, two, one, two, one, two)
	b.Replay(trace)
	var file, again bytes.Buffer
	b.Must(trace.Save(b.Ctx, &file, reprise.WithData(in), reprise.WithResults(mid, out)))
	b.Must(trace.Save(b.Ctx, &again, reprise.WithData(in), reprise.WithResults(mid, out)))
	if !bytes.Equal(file.Bytes(), again.Bytes()) {
		b.Error("the same trace is saved in other bytes")
	}
	b.Must(trace.Release(b.Ctx))
	b.fails("saved after release", trace.Save(b.Ctx, &again), reprise.ErrReleased)
	return file.Bytes()
}

func TestLoadedTraceRuns(t *testing.T) {
	file := saved(t, sim.Blackhole())
	b := open(t, sim.Blackhole())
	nothing := b.Allocated()
	trace := value(b.Dev.LoadTrace(b.Ctx, bytes.NewReader(file)))(b)
	bufs := trace.Buffers()
	if trace.Name() != "saved" || len(trace.Parts()[0].Steps) != 10 || trace.Parts()[0].Steps[1].Name != "two" || len(bufs) != 3 {
		b.Fatalf("%q: %+v, %d buffers", trace.Name(), trace.Parts()[0].Steps, len(bufs))
	}
	x := b.Load(b.blank("blank", b.Dev.Grid()))
	own := b.Capture("own", x, x, x)
	b.Write(bufs[0], 4)
	b.Must(errors.Join(b.Queue.Run(b.Ctx, x), trace.Replay(b.Ctx), own.Replay(b.Ctx), trace.Replay(b.Ctx)))
	b.Holds(bufs[2], 111)
	b.fails("results of a recorded trace", own.Debug().CheckResults(b.Ctx), debug.ErrNoResults)
	var again bytes.Buffer
	b.Must(trace.Save(b.Ctx, &again))
	f := value(tracebuf.Decode(&again))(b)
	if len(f.Data) != 0 || len(f.Image.Programs) != 2 || len(f.Image.Relocs) == 0 || !f.Image.Buffers[2].Output ||
		f.Image.Buffers[0].Output {
		t.Errorf("saved again: %d data, %d programs, %d relocations", len(f.Data), len(f.Image.Programs), len(f.Image.Relocs))
	}
	b.Must(errors.Join(own.Release(b.Ctx), x.Release(b.Ctx), trace.Release(b.Ctx)))
	b.sameMemory(nothing)
	b.fails("a buffer of a released trace was written", b.Queue.Write(b.Ctx, bufs[0], 0, nil), reprise.ErrReleased)
}

func TestLoadTraceWithBuffers(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in, out := b.Pages("in", 8), b.Pages("out", 8)
		other := b.Pages("other", 8)
		x := b.Load(b.Adder("adder", chip.Core{}, in, out, 3))
		trace := b.Capture("trace", x)
		var file bytes.Buffer
		b.Must(trace.Save(b.Ctx, &file, reprise.WithData()))
		b.Must(errors.Join(trace.Release(b.Ctx), x.Release(b.Ctx)))
		before := b.Allocated()
		load := func(bufs ...*reprise.Buffer) (*reprise.Trace, error) {
			return b.Dev.LoadTrace(b.Ctx, bytes.NewReader(file.Bytes()), reprise.WithBuffers(bufs...))
		}
		_, err := load()
		b.Says(err, `load trace "trace"`, `buffer "in" must lie where it lay`)
		_, err = load(in, out, other)
		b.Says(err, `the trace has no buffer "other"`)
		wrong := b.Pages("in", 8)
		_, err = load(wrong, out)
		b.Says(err, `buffer "in" is 512 B`, "the trace was recorded with")
		b.Must(wrong.Release())
		b.sameMemory(before)
		again := value(load(in, out))(b)
		b.Write(in, 9)
		b.Replay(again)
		b.Holds(out, 12)
		b.Must(in.Release())
		b.Replay(again)
		b.Holds(out, 12)
		b.Must(errors.Join(again.Release(b.Ctx), out.Release(), other.Release()))
		for k, n := range b.Allocated() {
			if n != 0 {
				b.Errorf("%d B of %v are left", n, k)
			}
		}
	})
}

func TestLoadTraceRefuses(t *testing.T) {
	file := saved(t, sim.Blackhole())
	change := func(edit func(*tracebuf.File)) []byte {
		f := value(tracebuf.Decode(bytes.NewReader(file)))(t)
		edit(f)
		var out bytes.Buffer
		devtest.Must(t, tracebuf.Encode(&out, f))
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
			before := b.Allocated()
			trace, err := b.Dev.LoadTrace(b.Ctx, bytes.NewReader(c.file))
			b.Says(err, append([]string{"reprise: load trace"}, c.says...)...)
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
	in, out := b.Pages("in", 1), b.Pages("out", 1)
	x := b.Load(b.Adder("adder", chip.Core{}, in, out, 3))
	trace := b.Record("trace", func(r *reprise.Recorder) error {
		return errors.Join(r.Run(x), r.Param("addend", addend))
	})
	b.Write(in, 1)
	b.Must(errors.Join(trace.Debug().Verify(b.Ctx), trace.Debug().Check(b.Ctx)))

	kd := value(kmd.Open(b.Ctx, card, kmd.WithoutPower(), kmd.WithoutWaiting()))(b)
	defer kd.Close()
	ch := value(chip.New(kd.Arch(), chip.Harvesting{}))(b)
	part := trace.Parts()[0]
	page := int(part.Extents[0].End - part.Extents[0].Start)
	word := part.Params[0].At[0]
	at := part.Extents[word/page]
	bank := ch.DRAMBanks()[at.Bank]
	b.Must(kd.Write32(bank.HostEndpoint, bank.Offset+at.Start+uint64(word%page), 77))
	for what, err := range map[string]error{"verify": trace.Debug().Verify(b.Ctx), "check": trace.Debug().Check(b.Ctx)} {
		var v *debug.VerifyError
		if !errors.As(err, &v) || v.What != "the commands" || v.Offset != word || v.Differ == 0 || v.Trace != "trace" ||
			v.Got != 77 || v.Want != 3 {
			t.Errorf("%s: %v", what, err)
		}
	}
	if p := trace.Parts()[0].Params[0]; p.Value != 3 {
		t.Errorf("the parameter is %+v", p)
	}
	b.Must(trace.Release(b.Ctx))
	b.fails("verified after release", trace.Debug().Verify(b.Ctx), reprise.ErrReleased)
}

func TestSaveRefusesForeignBuffers(t *testing.T) {
	onEmulators(t, func(b *bench) {
		x := b.Load(b.blank("blank", chip.Single(0, 0)))
		trace := b.Capture("trace", x)
		var out strings.Builder
		b.Says(trace.Save(b.Ctx, &out, reprise.WithData(b.Pages("other", 1))), "none of the trace's")
		b.Says(trace.Save(b.Ctx, &out, reprise.WithData(nil)), "it is nil")
		if out.Len() != 0 {
			b.Errorf("%d B were written all the same", out.Len())
		}
	})
}

func TestSaveRefusesOverlappingBuffers(t *testing.T) {
	b := open(t, sim.Blackhole())
	pool := value(b.Dev.NewPool(reprise.PoolConfig{Kind: allocator.DRAM, Size: 1 << 20, Name: "pool"}))(b)
	row := b.Dev.DRAMBanks()
	take := func(name string, pages int) *reprise.Buffer {
		buf := value(pool.NewBuffer(reprise.BufferConfig{Size: 64 * pages, PageSize: 64, Name: name}))(b)
		return buf
	}
	first, low := take("first", row), take("low", row)
	x := b.Load(b.Adder("x", chip.Core{}, b.Pages("in", row), low, 1))
	b.Must(errors.Join(first.Release(), low.Release()))
	both := take("both", 2*row)
	if both.Addr() >= low.Addr() {
		t.Fatalf("%q lies at %#x, %q at %#x: they were to begin at different addresses", low.Name(), low.Addr(), both.Name(), both.Addr())
	}
	y := b.Load(b.Adder("y", chip.Core{}, both, b.Pages("out", 2*row), 1))
	b.Says(b.Capture("t", x, y).Save(b.Ctx, io.Discard), `"low"`, `"both"`, `share memory of pool "pool"`)
}

func TestLoadTraceOfAnotherQueue(t *testing.T) {
	for _, card := range emulators {
		t.Run(card().String(), func(t *testing.T) {
			left := chip.Grid(3, 4)
			right := chip.Range{Start: chip.Core{X: 3}, End: chip.Core{X: 6, Y: 3}}
			split := []reprise.Option{reprise.WithQueues(2), reprise.WithQueueWorkers(0, left), reprise.WithQueueWorkers(1, right)}
			record := func(at chip.Core, opts ...reprise.Option) []byte {
				b := open(t, card(), opts...)
				in, out := b.Pages("in", 4), b.Pages("out", 4)
				x := b.Load(b.Adder("adder", at, in, out, 3))
				b.Write(in, 5)
				b.Wait()
				q := b.Dev.Queue(1)
				trace, err := q.Capture(b.Ctx, "second", func(_ context.Context, r *reprise.Recorder) error {
					return errors.Join(r.Run(x), r.Run(x))
				})
				b.Must(err)
				var file bytes.Buffer
				b.Must(trace.Save(b.Ctx, &file, reprise.WithData(in)))
				return file.Bytes()
			}
			shared, apart := record(chip.Core{}, reprise.WithQueues(2)), record(chip.Core{X: 4, Y: 1}, split...)
			run := func(b *bench, file []byte) {
				trace := value(b.Dev.LoadTrace(b.Ctx, bytes.NewReader(file)))(b)
				b.Must(errors.Join(trace.Replay(b.Ctx), trace.Replay(b.Ctx)))
				out := trace.Buffers()[1]
				got := make([]byte, out.Size())
				b.Must(b.Dev.Queue(b.Dev.Queues()-1).Read(b.Ctx, out, 0, got))
				if !bytes.Equal(got, words(out.Size(), 8)) {
					b.Errorf("the trace computes % x...", got[:16])
				}
				b.Must(trace.Release(b.Ctx))
			}
			one := open(t, card())
			run(one, shared)
			_, err := one.Dev.LoadTrace(one.Ctx, bytes.NewReader(apart))
			one.fails("a trace for other workers", err, reprise.ErrOtherTarget)
			one.Says(err, "grid of workers is (3,0)-(6,3)")
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
		Name: "store", Image: b.Image(kernels.Store), Processor: chip.BRISC, Cores: cores, Common: []uint32{0},
		Args: func(c chip.Core) []uint32 { return append([]uint32{buf.Addr(), uint32(len(words[c]))}, words[c]...) },
	}}}
}

func (b *bench) read(buf *reprise.Buffer) []byte {
	b.Helper()
	got := b.Read(buf)
	return got
}

func TestTraceFileOfOtherCores(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.numbers(b.Buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 64, Name: "sharded", Sharding: heights(4, 1, 4)}))
	var file bytes.Buffer
	b.Must(b.Capture("t", b.Load(x)).Save(b.Ctx, &file))
	f := value(tracebuf.Decode(&file))(b)
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
		b.Must(tracebuf.Encode(&changed, &g))
		here := open(t, sim.Wormhole())
		before := here.Allocated()
		_, err := here.Dev.LoadTrace(here.Ctx, &changed)
		here.Says(err, `load trace "t": buffer "sharded": `, part)
		here.sameMemory(before)
	}
}

func TestTraceFileOfOneAddressTwice(t *testing.T) {
	onEmulators(t, func(b *bench) {
		l1 := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64, PageSize: 64, Name: "l1"})
		dram := b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, PageSize: 64, Name: "dram", Addr: l1.Addr()})
		in := b.Pages("in", 1)
		add := b.Adder("add", chip.Core{}, in, dram, 1)
		store := &reprise.Program{Name: "store", Buffers: []*reprise.Buffer{l1}, Kernels: []reprise.Kernel{{
			Name: "store", Image: b.Image(kernels.Store), Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)}, Common: []uint32{0},
			Args: func(chip.Core) []uint32 { return []uint32{l1.Addr(), 1, 0x1234567} },
		}}}
		x, y := b.Load(add), b.Load(store)
		trace := b.Record("twice", func(r *reprise.Recorder) error {
			return errors.Join(r.Run(x), r.ParamBuffer("dram", dram, writeTo), r.Run(y),
				r.ParamBuffer("l1", l1, reprise.Arg{Kernel: "store"}))
		})
		var file bytes.Buffer
		b.Must(trace.Save(b.Ctx, &file))
		b.Must(errors.Join(trace.Release(b.Ctx), x.Release(b.Ctx), y.Release(b.Ctx), dram.Release(), in.Release()))
		trace, err := b.Dev.LoadTrace(b.Ctx, &file)
		b.Must(err)
		bufs := map[string]*reprise.Buffer{}
		for _, u := range trace.Buffers() {
			bufs[u.Name()] = u
		}
		if bufs["dram"].Addr() != l1.Addr() || bufs["l1"].Addr() == l1.Addr() {
			b.Errorf("dram is at %#x and l1 at %#x, both were at %#x", bufs["dram"].Addr(), bufs["l1"].Addr(), l1.Addr())
		}
		b.Write(l1, 5)
		b.Write(bufs["in"], 40)
		b.Replay(trace)
		b.Holds(bufs["dram"], 41)
		b.Holds(l1, 5)
		if got := binary.LittleEndian.Uint32(b.Read(bufs["l1"])); got != 0x1234567 {
			b.Errorf("the buffer in L1 has %#x", got)
		}
		b.Says(trace.SetBuffer("dram", l1), "take one like that")
		b.Must(errors.Join(trace.Release(b.Ctx), l1.Release()))
	})
}
