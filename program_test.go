package reprise_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

func TestProgramIsNamedOnce(t *testing.T) {
	b := open(t, sim.Wormhole())
	p := b.blank("prog", chip.Single(99, 1))
	_, err := b.Dev.Load(b.Ctx, p)
	errs := []error{err}
	p.Kernels[0].Cores = []chip.Range{chip.Single(0, 0)}
	x := b.Load(p)
	arg := reprise.Arg{Kernel: "nothing", Index: 3}
	errs = append(errs, x.SetArg(arg, 1))
	arg.From = b.Pages("m", 1)
	_, err = b.Queue.Capture(b.Ctx, "t", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x, arg) })
	errs = append(errs, err)
	for _, err := range errs {
		equal(t, strings.Count(err.Error(), `"prog"`), 1, "%v", err)
	}
	var pe *dispatch.ProgramError
	var ae *dispatch.ArgError
	if !errors.As(errs[0], &pe) || !errors.As(errs[1], &ae) || !errors.As(errs[2], &ae) {
		t.Errorf("types are lost: %v", errs)
	}
}

func TestProgramMayChangeAfterLoad(t *testing.T) {
	b := open(t, sim.Blackhole())
	in, out := b.Pages("in", 4), b.Pages("out", 4)
	p := b.Adder("adder", chip.Core{}, in, out, 3)
	x := b.Load(p)
	p.Name = "changed"
	for i := range p.Kernels {
		p.Kernels[i] = reprise.Kernel{}
	}
	p.CircularBuffers[0].Pages, p.Buffers[0] = 0, nil
	b.Write(in, 1)
	b.Execute(x)
	b.Holds(out, 4)
	equal(t, x.Name(), "adder", "name")
}

func TestConcurrentUse(t *testing.T) {
	onAll(t, func(b *bench) {
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				config := reprise.BufferConfig{Kind: allocator.DRAM, Size: 8 * 64, PageSize: 64, Name: "data"}
				in, err1 := b.Dev.NewBuffer(config)
				out, err2 := b.Dev.NewBuffer(config)
				if err := errors.Join(err1, err2); err != nil {
					b.Error(err)
					return
				}
				addend := uint32(w+1) << 16
				x, err := b.Dev.Load(b.Ctx, b.Adder("adder", chip.Core{X: w, Y: w}, in, out, addend))
				if err != nil {
					b.Error(err)
					return
				}
				got := make([]byte, out.Size())
				for i := uint32(0); i < 6 && err == nil; i++ {
					err = b.Queue.Write(b.Ctx, in, 0, words(in.Size(), i))
					if i%2 == 0 {
						err = errors.Join(err, b.Queue.Run(b.Ctx, x))
					} else if trace, failed := b.Queue.Capture(b.Ctx, "trace", record(x)); failed != nil {
						err = failed
					} else {
						err = errors.Join(err, trace.Replay(b.Ctx), trace.Release(b.Ctx))
					}
					if err = errors.Join(err, b.Queue.Read(b.Ctx, out, 0, got)); err == nil &&
						!bytes.Equal(got, words(out.Size(), i+addend)) {
						err = fmt.Errorf("goroutine %d, round %d: it read what it didn't ask for", w, i)
					}
				}
				if err == nil {
					err = errors.Join(x.Release(b.Ctx), in.Release(), out.Release())
				}
				expect.Fails(b, err, nil, "error")
			})
		}
		wg.Wait()
		if got := b.Allocated(); got[allocator.DRAM] != 0 || got[allocator.L1] != 0 {
			b.Errorf("still allocated: %v", got)
		}
	})
}

func TestCloseWhileOthersRun(t *testing.T) {
	b := open(t, sim.Blackhole())
	for range 10 {
		x := b.Load(b.blank("blank", b.Dev.Grid()))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					if err := b.Queue.Run(b.Ctx, x); err != nil {
						expect.Fails(b, err, reprise.ErrReleased, "error")
						return
					}
				}
			})
		}
		b.Must(x.Release(b.Ctx))
		wg.Wait()
	}
	b.Wait()
}

func TestProgramsThatCannotRun(t *testing.T) {
	b := open(t, sim.Wormhole())
	other := value(kernels.Prebuilt(chip.Blackhole, kernels.Blank))(b)
	one := []chip.Range{chip.Single(0, 0)}
	text := func(n int) *kernels.Image { return &kernels.Image{Text: make([]byte, n)} }
	args := func(n int) func(chip.Core) []uint32 {
		return func(chip.Core) []uint32 { return make([]uint32, n) }
	}
	kernel := func(change func(k *reprise.Kernel)) func(*reprise.Program) {
		return func(p *reprise.Program) { change(&p.Kernels[0]) }
	}
	circular := func(cs ...reprise.CircularBuffer) func(*reprise.Program) {
		return func(p *reprise.Program) { p.CircularBuffers = cs }
	}
	buffer := func(index, pages, size int) reprise.CircularBuffer {
		return reprise.CircularBuffer{Index: index, Cores: one, PageSize: size, Pages: pages}
	}
	semaphores := func(ss ...reprise.Semaphore) func(*reprise.Program) {
		return func(p *reprise.Program) { p.Semaphores = ss }
	}
	for name, tt := range map[string]struct {
		change func(*reprise.Program)
		says   string // parts, separated by |
	}{
		"no kernel":            {func(p *reprise.Program) { p.Kernels = nil }, `no kernel|add at least one`},
		"no image":             {kernel(func(k *reprise.Kernel) { k.Image = nil }), `kernel "k"|no image|kernels.Load`},
		"empty image":          {kernel(func(k *reprise.Kernel) { k.Image = text(0) }), `kernel "k"|image is empty`},
		"another architecture": {kernel(func(k *reprise.Kernel) { k.Image = other }), `kernel "k"|compiled for blackhole`},
		"too large":            {kernel(func(k *reprise.Kernel) { k.Image = text(80 << 10) }), `81984 B|make the kernels smaller`},
		"too large together": {func(p *reprise.Program) {
			p.Kernels[0].Image = text(40 << 10)
			p.Kernels = append(p.Kernels, reprise.Kernel{Name: "l", Image: text(40 << 10), Cores: one, Processor: chip.NCRISC})
		}, `81984 B|make the kernels smaller`},
		"no such processor": {kernel(func(k *reprise.Kernel) { k.Processor = 255 }), `kernel "k"|processor 255 doesn't exist|BRISC`},
		"no such network":   {kernel(func(k *reprise.Kernel) { k.NOC = 2 }), `kernel "k"|network 2 doesn't exist|chip.NOC0 or chip.NOC1`},
		"a network of all bits": {kernel(func(k *reprise.Kernel) { k.Processor, k.NOC = chip.NCRISC, 255 }),
			`kernel "k"|network 255 doesn't exist|chip.NOC0 or chip.NOC1`},
		"no multiple of 16 B": {kernel(func(k *reprise.Kernel) { k.Image = text(24) }), `kernel "k"|24 B, no multiple of 16`},
		"no cores":            {kernel(func(k *reprise.Kernel) { k.Cores = nil }), `kernel "k"|no cores`},
		"cores of the command queues": {kernel(func(k *reprise.Kernel) { k.Cores = []chip.Range{chip.Grid(8, 10)} }),
			`kernel "k"|not inside the worker grid (0,0)-(7,8)`},
		"cores by the billion": {kernel(func(k *reprise.Kernel) {
			k.Cores, k.Args = []chip.Range{chip.Grid(1<<40, 1<<40)}, func(c chip.Core) []uint32 { panic(c) }
		}), `kernel "k"|not inside the worker grid`},
		"a backward range": {kernel(func(k *reprise.Kernel) { k.Cores = []chip.Range{{Start: chip.Core{X: 3}, End: chip.Core{X: 1}}} }),
			`kernel "k"|ends before it starts`},
		"two on one processor": {func(p *reprise.Program) {
			p.Kernels = append(p.Kernels, reprise.Kernel{Name: "l", Image: p.Kernels[0].Image, Cores: []chip.Range{chip.Grid(2, 2)}})
		}, `kernel "l"|core (0,0)|already runs kernel "k" on BRISC`},
		"many arguments": {kernel(func(k *reprise.Kernel) { k.Args = args(342) }),
			`kernel "k"|core (0,0) has 342 unique and 0 common runtime arguments|at most 341|pass a buffer's address instead`},
		"many common arguments": {kernel(func(k *reprise.Kernel) { k.Common = make([]uint32, 342) }),
			`kernel "k"|342 common runtime arguments|at most 341`},
		"many arguments together": {kernel(func(k *reprise.Kernel) { k.Args, k.Common = args(300), make([]uint32, 42) }),
			`kernel "k"|300 unique and 42 common runtime arguments`},

		"a circular buffer on no cores": {circular(reprise.CircularBuffer{Index: 2, PageSize: 64, Pages: 1}), `circular buffer 2|no cores`},
		"a circular buffer on other cores": {circular(reprise.CircularBuffer{Index: 3, Cores: []chip.Range{chip.Single(8, 0)}, PageSize: 64, Pages: 1}),
			`circular buffer 3|not inside the worker grid`},
		"circular buffer 32":                    {circular(buffer(32, 1, 64)), `circular buffer 32|from 0 to 31`},
		"circular buffer 256, which has no bit": {circular(buffer(256, 1, 64)), `circular buffer 256|from 0 to 31`},
		"circular buffer -1":                    {circular(buffer(-1, 1, 64)), `circular buffer -1|from 0 to 31`},
		"pages of 24 B":                         {circular(buffer(1, 1, 24)), `circular buffer 1|1 pages of 24 B|multiple of 16`},
		"pages of -64 B":                        {circular(buffer(3, 1, -64)), `circular buffer 3|1 pages of -64 B`},
		"no pages":                              {circular(buffer(1, 0, 16)), `circular buffer 1|0 pages of 16 B|both must be positive`},
		"more pages than kernels count":         {circular(buffer(2, 65536, 16)), `circular buffer 2|65536 pages|count up to 65535|make the pages larger`},
		"pages beyond L1":                       {circular(buffer(3, 2, 1<<20)), `circular buffer 3|2 pages of 1048576 B from 0x19180 on|beyond the end of L1 at 0x16e000`},
		"pages that overflow":                   {circular(buffer(3, 1<<40, 1<<40)), `circular buffer 3|beyond the end of L1`},
		"a circular buffer twice":               {circular(buffer(2, 1, 64), buffer(2, 1, 64)), `circular buffer 2|given twice`},

		"a semaphore on no cores": {semaphores(reprise.Semaphore{ID: 3}), `semaphore 3|no cores`},
		"semaphore 16":            {semaphores(reprise.Semaphore{ID: 16, Cores: one}), `semaphore 16|from 0 to 15`},
		"semaphore -1":            {semaphores(reprise.Semaphore{ID: -1, Cores: one}), `semaphore -1|from 0 to 15`},
		"a semaphore twice": {semaphores(reprise.Semaphore{ID: 1, Cores: one}, reprise.Semaphore{ID: 1, Cores: one}),
			`semaphore 1|given twice`},
	} {
		p := b.blank("bad", one...)
		p.Kernels[0].Name = "k"
		tt.change(p)
		x, err := b.Dev.Load(b.Ctx, p)
		var pe *dispatch.ProgramError
		if x != nil || !errors.As(err, &pe) || pe.Program != "bad" {
			t.Errorf("%s: %v, want a *ProgramError", name, err)
			continue
		}
		b.Says(err, append([]string{`reprise: load program "bad": `}, strings.Split(tt.says, "|")...)...)
	}
	got := b.Allocated()
	equal(t, got[allocator.DRAM], 0, "got[allocator.DRAM]")
	equal(t, got[allocator.L1], 0, "got[allocator.L1]")
	b.Execute(b.Load(b.blank("good", chip.Single(0, 0))))
	b.Wait()
}

// lying reads two pages into a circular buffer at an address on two workers.
func (b *bench) lying(in *reprise.Buffer, addr uint32, common ...uint32) *reprise.Program {
	cores := []chip.Range{chip.Grid(2, 1)}
	return &reprise.Program{
		Name: "lying", Buffers: []*reprise.Buffer{in}, CircularBuffers: []reprise.CircularBuffer{{Index: 5, Cores: cores, PageSize: 64, Pages: 2,
			Addr: addr}},
		Kernels: []reprise.Kernel{{
			Name: "reader", Image: b.Image(kernels.CopyReader), Processor: chip.BRISC, Cores: cores, Common: common,
			Args: func(c chip.Core) []uint32 { return []uint32{in.Addr(), uint32(2 * c.X), 2, 64, 5} },
		}},
	}
}

func TestCircularBuffersInBuffers(t *testing.T) {
	onAll(t, func(b *bench) {
		in := b.Pages("in", 4)
		b.Write(in, 1)
		shards := func(name string) *reprise.Buffer {
			out := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, Name: name, PageSize: 64, Sharding: &allocator.ShardSpec{
				Layout: allocator.HeightSharded, Tensor: []int{4, 1}, Shard: []int{2, 1}, Cores: []chip.Range{chip.Grid(2, 1)},
			}})
			b.zero(out)
			return out
		}
		first, second := shards("first"), shards("second")
		before := b.Dev.Memory(allocator.L1).Allocated
		x := b.Load(b.lying(in, first.Addr(), 0))
		equal(b, b.Dev.Memory(allocator.L1).Allocated, before, "L1 in use, which was %d B", before)
		if d := cmp.Diff([]reprise.CircularPlace{{Index: 5, Cores: []chip.Range{chip.Grid(2, 1)}, Addr: first.Addr(), Size: 128,
			Given: true}},
			x.CircularBuffers()); d != "" {
			b.Error(d)
		}
		moved := func(from *reprise.Buffer, what string) {
			b.Helper()
			got := b.Read(from)
			if !bytes.Equal(got, words(from.Size(), 1)) {
				b.Errorf("%s: % x", what, got[:16])
			}
			b.zero(from)
		}
		b.Execute(x)
		moved(first, "a run")
		tr := b.Capture("where it was", x)
		b.Must(x.SetCircularAddr(5, second.Addr()))
		equal(b, x.CircularBuffers()[0].Addr, second.Addr(), "its address")
		b.Execute(x)
		moved(second, "a run elsewhere")
		b.Replay(tr)
		moved(first, "a replay")

		// A parameter moves it in a trace.
		place := reprise.Arg{Circular: true, Index: 5}
		tr, err := b.Queue.Capture(b.Ctx, "movable", func(_ context.Context, r *reprise.Recorder) error {
			b.Must(r.Run(x))
			return r.ParamBuffer("place", second, place)
		})
		b.Must(err)
		for i, at := range []*reprise.Buffer{second, first, second} {
			b.Must(tr.SetBuffer("place", at))
			b.Replay(tr)
			moved(at, fmt.Sprint("replay ", i))
		}
		small := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, Name: "small", PageSize: 64, Size: 64})
		b.Says(tr.SetBuffer("place", small), "take one like that")
		b.Says(x.SetBuffer(first, place), "SetCircularAddr")
		for _, wrong := range []reprise.Arg{{Circular: true, Index: 6}, place} {
			_, err = b.Queue.Capture(b.Ctx, "wrong", func(_ context.Context, r *reprise.Recorder) error {
				b.Must(r.Run(x))
				if wrong.Index == 6 {
					return r.ParamBuffer("place", second, wrong)
				}
				return r.Param("place", wrong)
			})
			b.Says(err, "circular buffer")
		}
	})
}

func TestCircularBuffersThatCannotLieThere(t *testing.T) {
	onEmulators(t, func(b *bench) {
		in := b.Pages("in", 4)
		l1 := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * b.Dev.Grid().Size() * 2, PageSize: 64, Name: "l1"})
		var wrong *dispatch.ProgramError
		for name, addr := range map[string]uint32{"reserved": 16, "end": 0xFFFFFFF0, "unaligned": l1.Addr() + 4} {
			if _, err := b.Dev.Load(b.Ctx, b.lying(in, addr, 0)); !errors.As(err, &wrong) {
				b.Errorf("%s: %v", name, err)
			}
		}
		huge := b.lying(in, l1.Addr(), 0)
		huge.CircularBuffers[0].PageSize, huge.CircularBuffers[0].Pages = 1<<40, 1<<40
		if _, err := b.Dev.Load(b.Ctx, huge); !errors.As(err, &wrong) {
			b.Errorf("huge: %v", err)
		}
		alone := b.Load(b.lying(in, l1.Addr()))
		b.Says(alone.SetCircularAddr(5, l1.Addr()), "circular buffer 5", "common arguments")
		x := b.Load(b.lying(in, l1.Addr(), 0))
		b.Says(x.SetCircularAddr(6, l1.Addr()), "circular buffer 6", "loaded with an address")
		b.Says(x.SetCircularAddr(5, l1.Addr()+4), "16-aligned")
		b.Must(x.Release(b.Ctx))
		b.fails("of a closed executable", x.SetCircularAddr(5, l1.Addr()), reprise.ErrReleased)
		both := b.lying(in, l1.Addr(), 0)
		both.CircularBuffers = append(both.CircularBuffers, both.CircularBuffers[0])
		both.CircularBuffers[1].Index = 6
		b.Load(both)
	})
}

func TestMostPages(t *testing.T) {
	const source = `#include "api/dataflow/dataflow_api.h"

void kernel_main() {
    uint32_t pages = get_arg_val<uint32_t>(0);
    for (int i = 0; i < 3; i++) {
#ifdef PRODUCER
        cb_reserve_back(2, pages);
        cb_push_back(2, pages);
#else
        cb_wait_front(2, pages);
        cb_pop_front(2, pages);
#endif
    }
}
`
	onEmulators(t, func(b *bench) {
		cores := []chip.Range{chip.Single(0, 0)}
		kernel := func(name string, p chip.Processor, defines ...string) reprise.Kernel {
			image, err := kernels.Compile(b.Ctx, kernels.Source{Path: name + ".cpp", Text: source, Arch: b.Dev.Arch(),
				Processors: []chip.Processor{p}, Defines: defines})
			if errors.Is(err, kernels.ErrNoCompiler) {
				b.Skip(err)
			}
			b.Must(err)
			return reprise.Kernel{Name: name, Image: image, Processor: p, Cores: cores,
				Args: func(chip.Core) []uint32 { return []uint32{program.MaxCircularPages} }}
		}
		x := b.Load(&reprise.Program{
			Name: "most", CircularBuffers: []reprise.CircularBuffer{{Index: 2, Cores: cores, PageSize: 16, Pages: program.MaxCircularPages}},
			Kernels: []reprise.Kernel{kernel("produce", chip.BRISC, "PRODUCER"), kernel("consume", chip.NCRISC)},
		})
		b.Execute(x)
		b.Wait()
	})
}

// wide writes its first argument on each worker; its arguments lie beside the kernels until they
// change.
func (b *bench) wide(out *reprise.Buffer, value uint32) *reprise.Program {
	return &reprise.Program{
		Name: "wide", Buffers: []*reprise.Buffer{out},
		Kernels: []reprise.Kernel{{
			Name: "store", Image: b.Image(kernels.Store), Processor: chip.BRISC, Cores: []chip.Range{b.Dev.Grid()}, Common: []uint32{0},
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

func TestResidentArguments(t *testing.T) {
	onAll(t, func(b *bench) {
		const page = 64
		out := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, Size: page * b.Dev.Grid().Size(), PageSize: page, Name: "out"})
		x := b.Load(b.wide(out, 1))
		want := func(value uint32) {
			b.Helper()
			got := b.Read(out)
			for c := range b.Dev.Grid().Cores() {
				i := (c.Y*(b.Dev.Grid().End.X+1) + c.X) * page
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
		b.Execute(x)
		want(1)
		old := b.Capture("old", x, x)
		named := b.Record("named", func(r *reprise.Recorder) error {
			return errors.Join(r.Run(x), r.Param("n", reprise.Arg{Kernel: "store", Index: 1}), r.Run(x), r.Run(x),
				r.ParamBuffer("out", out, reprise.Arg{Kernel: "store", Index: 0}))
		})
		if named.Size() < old.Size()+2*10<<10 {
			b.Errorf("the trace has %d B with parameters and %d B without: arguments that are parameters must be in it", named.Size(), old.Size())
		}

		b.Must(errors.Join(x.SetArgs("store", add(6)), b.Queue.Run(b.Ctx, x)))
		want(7)
		if x.Commands().Bytes < resident+8<<10 {
			b.Errorf("a run has %d B of commands with its arguments beside the kernels and %d B with changed ones", resident, x.Commands().Bytes)
		}
		b.Replay(old)
		want(1)
		b.Must(old.Debug().Check(b.Ctx))
		now := b.Capture("now", x)
		b.Must(errors.Join(x.SetArgs("store", add(100)), now.Replay(b.Ctx)))
		want(7)
		b.Replay(named)
		want(1)
		b.Must(errors.Join(b.Queue.Run(b.Ctx, x), named.Set("n", 8), named.Debug().Step(b.Ctx, nil)))
		want(1)

		b.Must(errors.Join(old.Release(b.Ctx), named.Release(b.Ctx), now.Release(b.Ctx), x.Release(b.Ctx)))
	})
}

func TestSetArgsRefuses(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.Load(b.wide(b.word(), 1))
	none := func(chip.Core, []uint32) {}
	for name, err := range map[string]error{
		"no function": x.SetArgs("store", nil), "no such kernel": x.SetArgs("load", none),
		"too many common arguments": x.SetCommonArgs("store", []uint32{1, 2}), "no executable": (*reprise.Executable)(nil).SetArgs("store", none),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	b.Must(errors.Join(x.SetCommonArgs("store", []uint32{0}), x.Release(b.Ctx)))
	b.fails("released executable", x.SetArgs("store", none), reprise.ErrReleased)
}

func TestParamKeepsRecordedArguments(t *testing.T) {
	onAll(t, func(b *bench) {
		out := b.perWorker("out")
		x := b.Load(b.wide(out, 1))
		trace := b.Record("t", func(r *reprise.Recorder) error {
			if err := r.Run(x); err != nil {
				return err
			}
			if err := x.SetArg(reprise.Arg{Kernel: "store", Index: 2}, 0x777); err != nil {
				return err
			}
			return r.Param("n", reprise.Arg{Kernel: "store", Index: 1})
		})
		first := func() uint32 { return binary.LittleEndian.Uint32(b.Read(out)) }
		b.Replay(trace)
		equal(t, first(), 1, "the trace's run wrote")
		b.Execute(x)
		equal(t, first(), 0x777, "what the next run wrote")
	})
}

func TestKernelsAreSentOnce(t *testing.T) {
	onAll(t, func(b *bench) {
		trace, bufs := b.chain(8)
		var sizes []int
		for _, s := range trace.Parts()[0].Steps {
			sizes = append(sizes, s.Size)
		}
		if sizes[0] <= sizes[2] || sizes[1] <= sizes[3] {
			b.Errorf("steps of %d B: the first two should be longer", sizes)
		}
		for i := 4; i < 8; i++ {
			equal(b, sizes[i], sizes[i-2], "steps of %d B: from the third on all should be short", sizes)
		}
		var text strings.Builder
		b.Must(trace.Print(&text))
		if n := strings.Count(text.String(), "type=binaries"); n != 2 {
			b.Errorf("the trace brings kernels %d times, want 2:\n%s", n, text.String())
		}
		eager := b.Load(b.Adder("eager", chip.Core{X: 1}, bufs[0], bufs[1], 100))
		for range 3 {
			b.Write(bufs[0], 1)
			b.Replay(trace)
			b.Holds(bufs[0], 9)
			b.Execute(eager)
			b.Execute(eager)
			b.Holds(bufs[1], 109)
		}
	})
}

func TestStockWireFormat(t *testing.T) {
	for _, card := range []*sim.Card{sim.Wormhole(), sim.Blackhole()} {
		t.Run(card.String(), func(t *testing.T) {
			var sizes []int
			for _, opts := range [][]reprise.Option{nil, {reprise.WithStockWireFormat()}} {
				b := open(t, card, opts...)
				trace, bufs := b.chain(6)
				b.Write(bufs[0], 7)
				b.Replay(trace)
				b.Holds(bufs[0], 13)
				var text strings.Builder
				b.Must(trace.Print(&text))
				got := map[string]bool{}
				for _, name := range []string{"SEQUENCE", "FORWARD_SUBORDINATE", "NOTIFY_SUBORDINATE_GO_SIGNAL",
					"dispatch_s  SEND_GO_SIGNAL"} {
					got[name] = strings.Contains(text.String(), name)
				}
				own := opts == nil
				want := map[string]bool{"SEQUENCE": own, "FORWARD_SUBORDINATE": own, "NOTIFY_SUBORDINATE_GO_SIGNAL": !own,
					"dispatch_s  SEND_GO_SIGNAL": !own}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("pinned %v (-want +got):\n%s\n%s", !own, diff, text.String())
				}
				sizes = append(sizes, trace.Parts()[0].Steps[5].Size, trace.Parts()[0].ReplayBytes)
				b.Must(b.Dev.Close(t.Context()))
			}
			if sizes[0] >= sizes[2] || sizes[1] > sizes[3] {
				t.Errorf("a program and a replay have %d B, in the stock wire format %d B", sizes[:2], sizes[2:])
			}
		})
	}
}
