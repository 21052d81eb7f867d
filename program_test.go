package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

// An error names a program once.
func TestProgramIsNamedOnce(t *testing.T) {
	b := open(t, sim.Wormhole())
	p := b.blank("prog", chip.Single(99, 1))
	_, err := b.dev.Load(b.ctx, p)
	errs := []error{err}
	p.Kernels[0].Cores = []chip.Range{chip.Single(0, 0)}
	x := b.load(p)
	arg := reprise.Arg{Kernel: "nothing", Index: 3}
	errs = append(errs, x.SetArg(arg, 1))
	arg.From = b.pages("m", 1)
	_, err = b.queue.Capture(b.ctx, "t", func(_ context.Context, r *reprise.Recorder) error { return r.Run(x, arg) })
	errs = append(errs, err)
	for _, err := range errs {
		if strings.Count(err.Error(), `"prog"`) != 1 {
			t.Error(err)
		}
	}
	var pe *dispatch.ProgramError
	var ae *dispatch.ArgError
	if !errors.As(errs[0], &pe) || !errors.As(errs[1], &ae) || !errors.As(errs[2], &ae) {
		t.Errorf("types are lost: %v", errs)
	}
}

// A program is a description: what happens to it after Load doesn't matter.
func TestProgramMayChangeAfterLoad(t *testing.T) {
	b := open(t, sim.Blackhole())
	in, out := b.pages("in", 4), b.pages("out", 4)
	p := b.adder("adder", chip.Core{}, in, out, 3)
	x := b.load(p)
	p.Name = "changed"
	for i := range p.Kernels {
		p.Kernels[i] = reprise.Kernel{}
	}
	p.CircularBuffers[0].Pages, p.Buffers[0] = 0, nil
	b.write(in, 1)
	b.must(b.queue.Run(b.ctx, x))
	b.holds(out, 4)
	if x.Name() != "adder" {
		t.Errorf("it is called %q", x.Name())
	}
}

// Many goroutines may use one queue: each sees its own work in order, eager and replayed.
func TestConcurrentUse(t *testing.T) {
	onAll(t, func(b *bench) {
		const workers, rounds = 4, 6
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				in, err := b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 8 * 64, PageSize: 64, Name: "in"})
				if err != nil {
					b.Error(err)
					return
				}
				out, err := b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 8 * 64, PageSize: 64, Name: "out"})
				if err != nil {
					b.Error(err)
					return
				}
				addend := uint32(w+1) << 16
				x, err := b.dev.Load(b.ctx, b.adder("adder", chip.Core{X: w, Y: w}, in, out, addend))
				if err != nil {
					b.Error(err)
					return
				}
				trace, err := b.queue.Capture(b.ctx, "trace", record(x))
				if err != nil {
					b.Error(err)
					return
				}
				got := make([]byte, out.Size())
				for i := range uint32(rounds) {
					err := b.queue.Write(b.ctx, in, 0, words(in.Size(), i))
					if i%2 == 0 {
						err = errors.Join(err, b.queue.Run(b.ctx, x))
					} else {
						err = errors.Join(err, trace.Replay(b.ctx))
					}
					err = errors.Join(err, b.queue.Read(b.ctx, out, 0, got))
					if err != nil {
						b.Error(err)
						return
					}
					if !bytes.Equal(got, words(out.Size(), i+addend)) {
						b.Errorf("goroutine %d, round %d: it read what it didn't ask for", w, i)
					}
				}
				if err := errors.Join(trace.Release(b.ctx), x.Release(b.ctx), in.Release(), out.Release()); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		if got := b.allocated(); got[allocator.DRAM] != 0 || got[allocator.L1] != 0 {
			b.Errorf("still allocated: %v", got)
		}
	})
}

// An executable that is closed while others run it either runs whole or says that it is closed.
func TestCloseWhileOthersRun(t *testing.T) {
	b := open(t, sim.Blackhole())
	for range 10 {
		x := b.load(b.blank("blank", b.dev.Grid()))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for {
					if err := b.queue.Run(b.ctx, x); err != nil {
						if !errors.Is(err, reprise.ErrReleased) {
							b.Error(err)
						}
						return
					}
				}
			})
		}
		b.must(x.Release(b.ctx))
		wg.Wait()
	}
	b.must(b.queue.Wait(b.ctx))
}

// A program that can't run is refused by Load, which names the part and says what to do, and takes
// nothing.
func TestProgramsThatCannotRun(t *testing.T) {
	b := open(t, sim.Wormhole())
	other, err := kernels.Prebuilt(chip.Blackhole, kernels.Blank)
	b.must(err)
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
		"circular buffer 32": {circular(reprise.CircularBuffer{Index: 32, Cores: one, PageSize: 64, Pages: 1}),
			`circular buffer 32|from 0 to 31`},
		"circular buffer 256, which has no bit": {circular(reprise.CircularBuffer{Index: 256, Cores: one, PageSize: 64, Pages: 1}),
			`circular buffer 256|from 0 to 31`},
		"circular buffer -1": {circular(reprise.CircularBuffer{Index: -1, Cores: one, PageSize: 64, Pages: 1}),
			`circular buffer -1|from 0 to 31`},
		"pages of 24 B": {circular(reprise.CircularBuffer{Index: 1, Cores: one, PageSize: 24, Pages: 1}),
			`circular buffer 1|1 pages of 24 B|multiple of 16`},
		"pages of -64 B": {circular(reprise.CircularBuffer{Index: 3, Cores: one, PageSize: -64, Pages: 1}), `circular buffer 3|1 pages of -64 B`},
		"no pages":       {circular(reprise.CircularBuffer{Index: 1, Cores: one, PageSize: 16}), `circular buffer 1|0 pages of 16 B|both must be positive`},
		"more pages than kernels count": {circular(reprise.CircularBuffer{Index: 2, Cores: one, PageSize: 16, Pages: 65536}),
			`circular buffer 2|65536 pages|count up to 65535|make the pages larger`},
		"pages beyond L1": {circular(reprise.CircularBuffer{Index: 3, Cores: one, PageSize: 1 << 20, Pages: 2}),
			`circular buffer 3|2 pages of 1048576 B from 0x19180 on|beyond the end of L1 at 0x16e000`},
		"pages that overflow": {circular(reprise.CircularBuffer{Index: 3, Cores: one, PageSize: 1 << 40, Pages: 1 << 40}),
			`circular buffer 3|beyond the end of L1`},
		"a circular buffer twice": {circular(reprise.CircularBuffer{Index: 2, Cores: one, PageSize: 64, Pages: 1},
			reprise.CircularBuffer{Index: 2, Cores: one, PageSize: 64, Pages: 1}), `circular buffer 2|given twice`},

		"a semaphore on no cores": {semaphores(reprise.Semaphore{ID: 3}), `semaphore 3|no cores`},
		"semaphore 16":            {semaphores(reprise.Semaphore{ID: 16, Cores: one}), `semaphore 16|from 0 to 15`},
		"semaphore -1":            {semaphores(reprise.Semaphore{ID: -1, Cores: one}), `semaphore -1|from 0 to 15`},
		"a semaphore twice": {semaphores(reprise.Semaphore{ID: 1, Cores: one}, reprise.Semaphore{ID: 1, Cores: one}),
			`semaphore 1|given twice`},
	} {
		p := b.blank("bad", one...)
		p.Kernels[0].Name = "k"
		tt.change(p)
		x, err := b.dev.Load(b.ctx, p)
		var pe *dispatch.ProgramError
		if x != nil || !errors.As(err, &pe) || pe.Program != "bad" {
			t.Errorf("%s: %v, want a *ProgramError", name, err)
			continue
		}
		b.says(err, append([]string{`reprise: load program "bad": `}, strings.Split(tt.says, "|")...)...)
	}
	if got := b.allocated(); got[allocator.DRAM] != 0 || got[allocator.L1] != 0 {
		t.Errorf("something is left of the failed loads: %v", got)
	}
	b.must(b.queue.Run(b.ctx, b.load(b.blank("good", chip.Single(0, 0)))))
	b.must(b.queue.Wait(b.ctx))
}
