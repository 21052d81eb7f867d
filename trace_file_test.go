package reprise_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu"
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
			expect.Equal(b, n, 0, "B of %v are left", k)
		}
	})
}

func TestOptimizedTrace(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in, out := b.Pages("in", 8), b.Pages("out", 8)
		x := b.Load(b.Adder("adder", chip.Core{}, in, out, 3))
		trace := b.Capture("trace", x, x)
		short := value(trace.Optimize(b.Ctx))(b)
		size := func(t *reprise.Trace) int { s := t.Parts()[0].Steps[1]; return s.Offset + s.Size }
		if now, old := size(short), size(trace); now >= old {
			b.Errorf("%d B of commands became %d B", old, now)
		}
		b.Must(errors.Join(trace.Release(b.Ctx), x.Release(b.Ctx)))
		b.Write(in, 9)
		b.Replay(short)
		b.Holds(out, 12)
		var file bytes.Buffer
		b.Must(short.Save(b.Ctx, &file))
		if f := value(tracebuf.Decode(&file))(b); len(f.Image.Changes) == 0 {
			b.Error("the file doesn't say what was changed")
		}
		namesake := b.Load(b.Adder("adder", chip.Core{}, in, b.Pages("in", 8), 3))
		_, err := b.Capture("namesakes", namesake).Optimize(b.Ctx)
		b.Says(err, `optimize trace "namesakes"`, `two buffers have the same name: "in"`)
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
		{"Ethernet tiles", sim.Blackhole(sim.Harvesting(chip.Harvesting{Ethernet: 0x120})), change(func(f *tracebuf.File) { f.Setup = setup(5, 5) }), reprise.ErrOtherTarget, []string{"harvesting of Ethernet tiles is 0x3000"}},
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

// setup stores a word in an Ethernet tile, and waits for another one there.
func setup(stored, awaited byte) *tracebuf.Setup {
	at := tracebuf.SetupOp{Tiles: []chip.XY{{X: 1, Y: 1}}, Addr: 0x20000, Bytes: []byte{stored, 0, 0, 0}}
	wait := at
	wait.Wait, wait.Turn, wait.Bytes = true, 1, []byte{awaited, 0, 0, 0}
	return &tracebuf.Setup{Ops: []tracebuf.SetupOp{at, wait}}
}

func TestLoadTraceSetsUp(t *testing.T) {
	f := value(tracebuf.Decode(bytes.NewReader(saved(t, sim.Blackhole()))))(t)
	b := open(t, sim.Blackhole(), reprise.WithHangTimeout(100*time.Millisecond))
	before := b.Allocated()
	for _, awaited := range []byte{7, 8} {
		var file, again bytes.Buffer
		f.Setup = setup(7, awaited)
		b.Must(tracebuf.Encode(&file, f))
		trace, err := b.Dev.LoadTrace(b.Ctx, &file)
		if awaited != 7 {
			b.Says(err, "wiring of Ethernet links", "0x20000 of tile (1,1) is 0x7, not 0x8")
			b.fails("a tile without an answer", err, reprise.ErrOtherTarget)
			break
		}
		b.Must(err)
		b.Must(errors.Join(trace.Replay(b.Ctx), trace.Save(b.Ctx, &again)))
		expect.NoDiff(t, value(tracebuf.Decode(&again))(b).Setup, f.Setup, "saved again")
		b.Must(trace.Release(b.Ctx))
	}
	b.sameMemory(before)
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
	equal(t, trace.Parts()[0].Params[0].Value, 3, "the parameter")
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
		expect.Equal(b, out.Len(), 0, "B were written all the same")
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

func TestTraceFileOfOtherCores(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.numbers(b.Buffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: 64, Name: "sharded", Sharding: heights(4, 1, 4)}))
	var file bytes.Buffer
	b.Must(b.Capture("t", b.Load(x)).Save(b.Ctx, &file))
	f := value(tracebuf.Decode(&file))(b)
	s := f.Image.Buffers[0].Sharding
	s.Cores[0].Start.Y, s.Cores[0].End.Y = 9, 9
	var changed bytes.Buffer
	b.Must(tracebuf.Encode(&changed, f))
	here := open(t, sim.Wormhole())
	before := here.Allocated()
	_, err := here.Dev.LoadTrace(here.Ctx, &changed)
	here.Says(err, `load trace "t": buffer "sharded": `, "core (0,9) is not one of the workers")
	here.sameMemory(before)
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
		expect.Equal(b, binary.LittleEndian.Uint32(b.Read(bufs["l1"])), 0x1234567, "the buffer in L1")
		b.Says(trace.SetBuffer("dram", l1), "take one like that")
		b.Must(errors.Join(trace.Release(b.Ctx), l1.Release()))
	})
}

// fuzzCard is a device for changed trace files, opened anew after each that does harm.
type fuzzCard struct {
	arch    chip.Arch
	queues  int
	flow    bool
	timeout time.Duration
	started string
	card    *sim.Card
	dev     *reprise.Device
}

func (c *fuzzCard) open(t devtest.Fataler) *reprise.Device {
	t.Helper()
	if c.dev != nil {
		return c.dev
	}
	// The fewest cores that a chip can have.
	opts := []sim.Option{sim.Strict(1), sim.Harvesting(chip.Harvesting{Tensix: 0x3FC})}
	c.card = sim.Wormhole(opts...)
	if c.arch == chip.Blackhole {
		opts[1] = sim.Harvesting(chip.Harvesting{Tensix: 0x3FFC})
		c.card = sim.Blackhole(opts...)
	}
	own := []reprise.Option{reprise.WithHangTimeout(c.timeout)}
	if c.queues == 2 {
		own = append(own, reprise.WithQueues(2), reprise.WithQueueWorkers(0, c.cores(0, 1)), reprise.WithQueueWorkers(1, c.cores(2, 3)))
	}
	var err error
	c.dev, err = reprise.Open(context.Background(), c.card, own...)
	devtest.Must(t, err)
	return c.dev
}

func (c *fuzzCard) setTimeout(d time.Duration) {
	if c.timeout != d {
		c.close()
		c.timeout = d
	}
}

func (c *fuzzCard) cores(first, last int) chip.Range {
	if c.arch == chip.Blackhole {
		return chip.Range{Start: chip.Core{Y: first}, End: chip.Core{Y: last}}
	}
	return chip.Range{Start: chip.Core{X: first}, End: chip.Core{X: last}}
}

func (c *fuzzCard) close() {
	if c.dev != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.dev.Close(ctx)
		c.dev = nil
	}
}

type outcome struct {
	refused error  // by LoadTrace
	harm    string // by anything but kernels
}

func (c *fuzzCard) run(t devtest.Fataler, file []byte) (o outcome) {
	t.Helper()
	dev := c.open(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second+c.timeout)
	defer cancel()
	trace, err := dev.LoadTrace(ctx, bytes.NewReader(file))
	if err != nil {
		if fault := c.card.Chip().Fault(); fault != nil {
			o.harm = "while it was loaded: " + fault.Error()
			c.close()
		}
		o.refused = err
		return o
	}
	err = trace.Replay(ctx)
	for q := range c.queues {
		err = errors.Join(err, dev.Queue(q).Wait(ctx))
	}
	fault := c.card.Chip().Fault()
	o.harm = judge(fault, err)
	if o.harm != "" && c.started != kernelsIn(file) && c.byKernel(dev, fault) {
		o.harm = ""
	}
	if fault != nil || err != nil {
		c.close()
		return o
	}
	if err := trace.Release(ctx); err != nil {
		o.harm = "release: " + err.Error()
		c.close()
	}
	return o
}

// kernelsIn returns where a trace puts and starts kernels. Harm by code there is the kernels'
// fault.
func kernelsIn(file []byte) string {
	f, err := tracebuf.Decode(bytes.NewReader(file))
	if err != nil {
		return err.Error()
	}
	var s []byte
	launch := &abi.Own(f.Target.Arch).Launch
	for _, p := range f.Parts() {
		s = fmt.Append(s, p.Image.Relocs)
		for e := range cq.All(p.Image.Layout, p.Image.Bytes[:p.Image.Size]) {
			for r := range e.Relayed {
				switch c := r.Command.(type) {
				case cq.SetWriteOffset:
					s = fmt.Append(s, c.Offsets)
				case cq.WritePackedLarge:
					if c.OffsetIndex == 2 {
						s = fmt.Append(s, c.Subs)
					}
				case cq.WritePacked:
					if c.Type == cq.PackedLaunch && len(c.Data) >= int(c.Size) {
						s = fmt.Append(s, c.Data[launch.Enables:][:4], c.Data[launch.Text:][:4*chip.NumProcessors], c.Cores, c.Rects)
					}
				}
			}
		}
	}
	return string(s)
}

// byKernel reports whether harm is a kernel's: a hang, or what a worker did in kernel memory.
func (c *fuzzCard) byKernel(dev *reprise.Device, fault error) bool {
	var r *emu.Refusal
	if !errors.As(fault, &r) {
		return fault == nil
	}
	core, _, pc, ok := r.Culprit()
	layout := abi.Own(c.arch)
	inside := func(base, size uint32) bool { return pc >= base && pc-base < size }
	return ok && dev.Grid().Contains(core) && (inside(layout.L1.KernelConfig, layout.L1.KernelConfigSize) ||
		inside(layout.Boot.IRAM, layout.Boot.IRAMSize))
}

func judge(fault, err error) string {
	var h *dispatch.HangError
	switch {
	case fault != nil:
		return fault.Error()
	case errors.As(err, &h):
		for _, s := range h.Cores {
			if s.Kind == "prefetch" && s.Processors[chip.BRISC].Waypoint == "LOOP" {
				return ""
			}
		}
		return h.Detail()
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return err.Error()
	}
	return ""
}

// fuzzProgram has everything that launch messages tell the firmware. Its kernels do nothing.
func fuzzProgram(t devtest.Fataler, dev *reprise.Device, name string, size int, at chip.Range, procs ...chip.Processor) *reprise.Program {
	t.Helper()
	blank, err := kernels.Prebuilt(dev.Arch(), kernels.Blank)
	devtest.Must(t, err)
	cores := []chip.Range{at}
	p := &reprise.Program{
		Name: name,
		CircularBuffers: []reprise.CircularBuffer{{Index: 1, Cores: cores, PageSize: 64, Pages: 2},
			{Index: 4, Cores: cores, PageSize: 32, Pages: 1}},
		Semaphores: []reprise.Semaphore{{ID: 1, Cores: cores, Initial: 3}},
	}
	for _, proc := range procs {
		im := *blank
		im.Text = append(bytes.Clone(im.Text), make([]byte, size)...)
		p.Kernels = append(p.Kernels, reprise.Kernel{
			Name: proc.String(), Image: &im, Processor: proc, Cores: cores, Common: []uint32{1, 2, 3},
			Args: func(at chip.Core) []uint32 { return []uint32{uint32(at.X), uint32(at.Y), 7} },
		})
	}
	return p
}

func (c *fuzzCard) fuzzFile(t devtest.Fataler) []byte {
	t.Helper()
	ctx := context.Background()
	dev := c.open(t)
	defer c.close()
	pages := func(name string) *reprise.Buffer {
		b, err := dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 128, PageSize: 64, Name: name})
		devtest.Must(t, err)
		devtest.Must(t, dev.Queue(0).Write(ctx, b, 0, devtest.Words(128, 1)))
		return b
	}
	in, out := pages("in"), pages("out")
	load := func(p *reprise.Program) *reprise.Executable {
		x, err := dev.Load(ctx, p)
		devtest.Must(t, err)
		return x
	}
	one := load(fuzzProgram(t, dev, "one", 0, c.cores(1, 1), chip.BRISC, chip.TRISC0, chip.TRISC2))
	two := load(fuzzProgram(t, dev, "two", 1600, c.cores(0, 1), chip.BRISC, chip.NCRISC))
	var trace *reprise.Trace
	var err error
	switch {
	case c.flow:
		called, failed := dev.Queue(0).Capture(ctx, "called", func(_ context.Context, r *reprise.Recorder) error {
			return r.Loop(2, func() error { return r.If(reprise.Cond{Iteration: 1, Is: cq.Equal, Value: 1}, runs(r, two), nil) })
		})
		devtest.Must(t, failed)
		trace, err = dev.Queue(0).Capture(ctx, "flow", func(_ context.Context, r *reprise.Recorder) error {
			less := reprise.Cond{Buffer: out, Offset: 4, Is: cq.Less, Value: 30}
			return errors.Join(
				r.Loop(2, runs(r, one, two)),
				r.Call(called),
				r.Switch(in, 0, runs(r, two), func() error { return r.Call(called) }, runs(r, one)),
				r.While(reprise.Cond{Buffer: in, Offset: 8, Is: cq.Less, Value: 3}, 4, runs(r, one)),
				r.While(reprise.Cond{Iteration: 1, Is: cq.Less, Value: 3}, 4,
					func() error { return r.Run(one, from(reprise.Arg{Kernel: chip.BRISC.String(), Index: 1}, in, 4)) }),
				r.If(less, runs(r, two), runs(r, one)),
			)
		})
	case c.queues == 2:
		other := load(fuzzProgram(t, dev, "other", 0, c.cores(2, 3), chip.NCRISC, chip.TRISC1))
		done := dev.NewEvent("done")
		trace, err = captureQueues(ctx, "queues", []*reprise.Queue{dev.Queue(0), dev.Queue(1)}, func(rs []*reprise.Recorder) error {
			return errors.Join(rs[0].Run(one), rs[0].Record(done), rs[1].WaitEvent(done), rs[1].Run(other), rs[0].Run(two))
		})
	default:
		trace, err = dev.Queue(0).Capture(ctx, "programs", record(one, two, one, two, one, two, one, two, one, two))
	}
	devtest.Must(t, err)
	var b bytes.Buffer
	devtest.Must(t, trace.Save(ctx, &b, reprise.WithData()))
	return b.Bytes()
}

const fuzzEdit = 10

// edited changes a file and its checksum. An edit is a kind, a place (4 B), a value (4 B) and a
// number (1 B). Kernels stay: they may do anything.
func edited(file, script []byte) []byte {
	le := binary.LittleEndian
	b := bytes.Clone(file)
	var at []int    // offsets of 32-bit words
	var whole []int // of commands
	for off := 24; off+16 < len(b)-32; {
		tag, n := string(b[off:off+4]), int(le.Uint64(b[off+8:]))
		end := off + 16 + n
		for i := off; i+4 <= end; i += 4 {
			switch {
			case tag == "PROG" && i > off+24:
			case tag == "CMDS":
				if i >= off+20 {
					whole = append(whole, i)
				}
			default:
				at = append(at, i)
			}
		}
		off = end
	}
	for ; len(script) >= fuzzEdit; script = script[fuzzEdit:] {
		kind, place, v, n := script[0], int(le.Uint32(script[1:])), le.Uint32(script[5:]), int(script[9])
		words := whole
		if kind&0xC0 == 0xC0 {
			words = at
		}
		i := words[place%len(words)]
		other := words[int(v)%len(words)]
		was := le.Uint32(b[i:])
		switch kind & 15 {
		case 0:
			le.PutUint32(b[i:], v)
		case 1:
			b[i+n%4] = byte(v)
		case 2:
			le.PutUint16(b[i+n%2*2:], uint16(v))
		case 3:
			le.PutUint32(b[i:], was^1<<(v%32))
		case 4:
			le.PutUint32(b[i:], was+uint32(int32(int8(v)))<<(n%8))
		case 5:
			copy(b[i:], b[other:][:4])
		case 6:
			copy(b[i:min(i+16, len(b)-32)], b[other:][:16])
		case 7:
			copy(b[i:min(i+n, len(b)-32)], b[other:])
		case 8: // the same change wherever the word is
			to := was + uint32(int32(int8(v)))<<(n%8)
			for _, k := range words {
				if le.Uint32(b[k:]) == was {
					le.PutUint32(b[k:], to)
				}
			}
		case 9:
			for _, k := range words {
				if le.Uint32(b[k:]) == was {
					le.PutUint32(b[k:], v)
				}
			}
		case 10:
			to := was + uint32(int32(int8(v)))<<(n%8)
			for _, k := range words {
				if k >= i && k < i+n*4 && le.Uint32(b[k:]) == was {
					le.PutUint32(b[k:], to)
				}
			}
		case 11:
			le.PutUint32(b[i:], []uint32{0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0xFFFF, 0x10000, 16, 8, 4, 2, 3, 0x100000, 0x19000, 0x7D80,
				0xFFB00000}[v%16])
		case 12: // two words change places
			le.PutUint32(b[i:], le.Uint32(b[other:]))
			le.PutUint32(b[other:], was)
		case 13:
			b[i+n%4] += byte(v)
		}
	}
	sum := sha256.Sum256(b[:len(b)-32])
	copy(b[len(b)-32:], sum[:])
	return b
}

// A changed file with the right checksum is refused, or does no harm: no firmware stops a chip,
// and every replay ends.
func FuzzTraceOnDevice(f *testing.F) {
	var cards []*fuzzCard
	var files [][]byte
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		for _, c := range []fuzzCard{{queues: 1}, {queues: 1, flow: true}, {queues: 2}} {
			c.arch, c.timeout = arch, 10*time.Second
			f.Cleanup(c.close)
			file := c.fuzzFile(f)
			c.started = kernelsIn(file)
			cards, files = append(cards, &c), append(files, file)
			f.Add(uint8(len(files)-1), []byte{})
			for _, kind := range []byte{0, 4, 8, 11} {
				f.Add(uint8(len(files)-1), []byte{kind, 40 * kind, kind, 0, 0, kind, 0, 0, 0, kind})
			}
		}
	}
	const soon, late = 300 * time.Millisecond, 10 * time.Second
	f.Fuzz(func(t *testing.T, which uint8, script []byte) {
		c, file := cards[int(which)%len(cards)], files[int(which)%len(cards)]
		file = edited(file, script)
		c.setTimeout(soon)
		o := c.run(t, file)
		if o.harm == "" {
			return
		}
		// A busy machine may look like a hang, and a kernel's harm may show late.
		c.setTimeout(late)
		equal(t, c.run(t, file).harm, "", "c.run(t, file).harm")
	})
}
