package reprise_test

import (
	"bytes"
	"context"
	"errors"
	"os"
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

// A program that can't run is refused by Load, which names the part and says what to do, and takes
// nothing.
func TestProgramsThatCannotRun(t *testing.T) {
	b := open(t, sim.Wormhole())
	other, err := kernels.Prebuilt(chip.Blackhole, kernels.Blank)
	b.must(err)
	blank := b.image(kernels.Blank)
	one := []chip.Range{chip.Single(0, 0)}
	args := func(n int) func(chip.Core) []uint32 {
		return func(chip.Core) []uint32 { return make([]uint32, n) }
	}
	for name, tt := range map[string]struct {
		p     reprise.Program
		parts []string
	}{
		"no kernel": {reprise.Program{}, []string{"program", "no kernel", "add at least one"}},
		"no image": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Cores: one}}},
			[]string{`kernel "k"`, "no image", "kernels.Load"},
		},
		"empty image": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: &kernels.Image{}, Cores: one}}},
			[]string{`kernel "k"`, "image is empty"},
		},
		"another architecture": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: other, Cores: one}}},
			[]string{`kernel "k"`, "compiled for blackhole"},
		},
		"too large": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: &kernels.Image{Text: make([]byte, 80<<10)}, Cores: one}}},
			[]string{"81984 B", "make the kernels smaller"},
		},
		"too large together": {
			reprise.Program{Kernels: []reprise.Kernel{
				{Name: "k", Image: &kernels.Image{Text: make([]byte, 40<<10)}, Cores: one},
				{Name: "l", Image: &kernels.Image{Text: make([]byte, 40<<10)}, Cores: one, Processor: chip.NCRISC},
			}},
			[]string{"81984 B", "make the kernels smaller"},
		},
		"no such processor": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one, Processor: 5}}},
			[]string{`kernel "k"`, "processor 5 doesn't exist", "BRISC"},
		},
		"no such network": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one, NOC: 2}}},
			[]string{`kernel "k"`, "network 2 doesn't exist", "chip.NOC0 or chip.NOC1"},
		},
		"a network far beyond": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one, NOC: 9}}},
			[]string{`kernel "k"`, "network 9 doesn't exist", "chip.NOC0 or chip.NOC1"},
		},
		"a network of all bits, on another processor": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one, Processor: chip.NCRISC, NOC: 255}}},
			[]string{`kernel "k"`, "network 255 doesn't exist", "chip.NOC0 or chip.NOC1"},
		},
		"an image that isn't a multiple of 16 B": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: &kernels.Image{Text: make([]byte, 24)}, Cores: one}}},
			[]string{`kernel "k"`, "24 B, no multiple of 16"},
		},
		"a circular buffer on no cores": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one}},
				CircularBuffers: []reprise.CircularBuffer{{Index: 2, PageSize: 64, Pages: 1}}},
			[]string{"circular buffer 2", "no cores"},
		},
		"a semaphore on no cores": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one}}, Semaphores: []reprise.Semaphore{{ID: 3}}},
			[]string{"semaphore 3", "no cores"},
		},
		"more pages than kernels count": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one}},
				CircularBuffers: []reprise.CircularBuffer{{Index: 2, Cores: one, PageSize: 16, Pages: 65536}}},
			[]string{"circular buffer 2", "65536 pages", "count up to 65535", "make the pages larger"},
		},
		"no cores": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank}}},
			[]string{`kernel "k"`, "no cores"},
		},
		"cores of the command queues": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: []chip.Range{chip.Grid(8, 10)}}}},
			[]string{`kernel "k"`, "not inside the worker grid (0,0)-(7,8)"},
		},
		"cores by the billion, whose arguments are never asked for": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: []chip.Range{chip.Grid(1<<40, 1<<40)},
				Args: func(c chip.Core) []uint32 { panic(c) }}}},
			[]string{`kernel "k"`, "not inside the worker grid"},
		},
		"a backward range": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank,
				Cores: []chip.Range{{Start: chip.Core{X: 3}, End: chip.Core{X: 1}}}}}},
			[]string{`kernel "k"`, "ends before it starts"},
		},
		"two on one processor": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one},
				{Name: "l", Image: blank, Cores: []chip.Range{chip.Grid(2, 2)}}}},
			[]string{`kernel "l"`, "core (0,0)", `already runs kernel "k" on BRISC`},
		},
		"many arguments": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one, Args: args(342)}}},
			[]string{`kernel "k"`, "core (0,0) has 342 unique and 0 common runtime arguments", "at most 341", "pass a buffer's address instead"},
		},
		"many common arguments": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one, Common: make([]uint32, 342)}}},
			[]string{`kernel "k"`, "342 common runtime arguments", "at most 341"},
		},
		"many arguments together": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one, Args: args(300), Common: make([]uint32, 42)}}},
			[]string{`kernel "k"`, "300 unique and 42 common runtime arguments"},
		},
		"semaphore 16": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one}}, Semaphores: []reprise.Semaphore{{ID: 16, Cores: one}}},
			[]string{"semaphore 16", "from 0 to 15"},
		},
		"semaphore -1": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one}}, Semaphores: []reprise.Semaphore{{ID: -1, Cores: one}}},
			[]string{"semaphore -1", "from 0 to 15"},
		},
		"circular buffer 32": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one}},
				CircularBuffers: []reprise.CircularBuffer{{Index: 32, Cores: one, PageSize: 64, Pages: 1}}},
			[]string{"circular buffer 32", "from 0 to 31"},
		},
		"circular buffer 256, which has no bit": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one}},
				CircularBuffers: []reprise.CircularBuffer{{Index: 256, Cores: one, PageSize: 64, Pages: 1}}},
			[]string{"circular buffer 256", "from 0 to 31"},
		},
		"circular buffer -1": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one}},
				CircularBuffers: []reprise.CircularBuffer{{Index: -1, Cores: one, PageSize: 64, Pages: 1}}},
			[]string{"circular buffer -1", "from 0 to 31"},
		},
		"pages of 24 B": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one}},
				CircularBuffers: []reprise.CircularBuffer{{Index: 1, Cores: one, PageSize: 24, Pages: 1}}},
			[]string{"circular buffer 1", "1 pages of 24 B", "multiple of 16"},
		},
		"no pages": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one}},
				CircularBuffers: []reprise.CircularBuffer{{Index: 1, Cores: one, PageSize: 16}}},
			[]string{"circular buffer 1", "0 pages of 16 B", "both must be positive"},
		},
		"a processor that wraps to another": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one, Processor: 255}}},
			[]string{`kernel "k"`, "processor 255 doesn't exist"},
		},
		"a semaphore twice": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one}},
				Semaphores: []reprise.Semaphore{{ID: 1, Cores: one}, {ID: 1, Cores: one}}},
			[]string{"semaphore 1", "given twice"},
		},
		"a circular buffer twice": {
			reprise.Program{Kernels: []reprise.Kernel{{Name: "k", Image: blank, Cores: one}},
				CircularBuffers: []reprise.CircularBuffer{{Index: 2, Cores: one, PageSize: 64, Pages: 1},
					{Index: 2, Cores: one, PageSize: 64, Pages: 1}}},
			[]string{"circular buffer 2", "given twice"},
		},
	} {
		tt.p.Name = "bad"
		x, err := b.dev.Load(b.ctx, &tt.p)
		var pe *dispatch.ProgramError
		if x != nil || !errors.As(err, &pe) || pe.Program != "bad" {
			t.Errorf("%s: %v, want a *ProgramError", name, err)
			continue
		}
		b.says(err, append([]string{`reprise: load program "bad": `}, tt.parts...)...)
	}
	if got := b.allocated(); got[allocator.DRAM] != 0 || got[allocator.L1] != 0 {
		t.Errorf("something is left of the failed loads: %v", got)
	}
	b.must(b.queue.Run(b.ctx, b.load(b.blank("good", chip.Single(0, 0)))))
	b.must(b.queue.Wait(b.ctx))
}

// Files that are no kernels are refused with the reason: the test's own executable is for another
// machine.
func TestKernelFiles(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		file []byte
		is   error
	}{
		"nothing":         {nil, kernels.ErrNotELF},
		"text":            {[]byte("#!/bin/sh\n"), kernels.ErrNotELF},
		"another machine": {file[:min(len(file), 16<<20)], kernels.ErrMachine},
		"huge":            {make([]byte, 16<<20+1), kernels.ErrTooLarge},
	} {
		if _, err := kernels.Load(tt.file); !errors.Is(err, tt.is) && !(name == "another machine" && errors.Is(err, kernels.ErrNotELF)) {
			t.Errorf("%s: %v, want %v", name, err, tt.is)
		}
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
