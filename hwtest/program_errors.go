package hwtest

import (
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kernels"
)

// programError changes a good program into one that must be refused.
type programError struct {
	name   string
	change func(*fixture, *reprise.Program)
}

func programErrors() []programError {
	return []programError{
		{"no kernels", func(_ *fixture, p *reprise.Program) { p.Kernels = nil }},
		{"no image", func(_ *fixture, p *reprise.Program) { p.Kernels[0].Image = nil }},
		{"empty image", func(_ *fixture, p *reprise.Program) { p.Kernels[0].Image = &kernels.Image{} }},
		{"no cores", func(_ *fixture, p *reprise.Program) { p.Kernels[0].Cores = nil }},
		{"cores outside of the grid", func(t *fixture, p *reprise.Program) {
			p.Kernels[0].Cores = []chip.Range{{End: chip.Core{X: t.grid().End.X + 1}}}
		}},
		{"negative cores", func(_ *fixture, p *reprise.Program) {
			p.Kernels[0].Cores = []chip.Range{{Start: chip.Core{X: -1}, End: chip.Core{X: 1}}}
		}},
		{"empty range", func(_ *fixture, p *reprise.Program) {
			p.Kernels[0].Cores = []chip.Range{{Start: chip.Core{X: 2}, End: chip.Core{X: 1}}}
		}},
		{"two kernels on one processor", func(_ *fixture, p *reprise.Program) { p.Kernels = append(p.Kernels, p.Kernels[0]) }},
		{"the same core twice", func(_ *fixture, p *reprise.Program) {
			p.Kernels[0].Cores = append(p.Kernels[0].Cores, p.Kernels[0].Cores...)
		}},
		{"no such processor", func(_ *fixture, p *reprise.Program) { p.Kernels[0].Processor = 5 }},
		{"another chip's kernel", func(t *fixture, p *reprise.Program) {
			other := chip.Wormhole
			if t.dev.Arch() == other {
				other = chip.Blackhole
			}
			im, err := kernels.Prebuilt(other, kernels.Blank)
			t.ok(err)
			p.Kernels[0].Image = im
		}},
		{"circular buffer 32", func(t *fixture, p *reprise.Program) { addCB(t, p, 32, 64, 1) }},
		{"circular buffer -1", func(t *fixture, p *reprise.Program) { addCB(t, p, -1, 64, 1) }},
		{"circular buffer of 20-byte pages", func(t *fixture, p *reprise.Program) { addCB(t, p, 0, 20, 1) }},
		{"circular buffer without pages", func(t *fixture, p *reprise.Program) { addCB(t, p, 0, 64, 0) }},
		{"circular buffer beyond L1", func(t *fixture, p *reprise.Program) { addCB(t, p, 0, 65536, 100) }},
		{"circular buffer twice", func(t *fixture, p *reprise.Program) { addCB(t, p, 0, 64, 1); addCB(t, p, 0, 64, 1) }},
		{"semaphore 16", func(t *fixture, p *reprise.Program) {
			p.Semaphores = []reprise.Semaphore{{ID: 16, Cores: []chip.Range{t.grid()}}}
		}},
		{"semaphore -1", func(t *fixture, p *reprise.Program) {
			p.Semaphores = []reprise.Semaphore{{ID: -1, Cores: []chip.Range{t.grid()}}}
		}},
		{"semaphore twice", func(t *fixture, p *reprise.Program) {
			p.Semaphores = []reprise.Semaphore{{Cores: []chip.Range{t.grid()}}, {Cores: []chip.Range{t.grid().End.Range()}}}
		}},
	}
}

func addCB(t *fixture, p *reprise.Program, index, size, pages int) {
	p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: index, Cores: []chip.Range{t.grid()}, PageSize: size,
		Pages: pages})
}

func refused(t *fixture, change func(*fixture, *reprise.Program)) {
	p := &reprise.Program{Name: "bad", Kernels: []reprise.Kernel{{Name: "blank", Image: t.kernel(kernels.Blank), Processor: chip.BRISC,
		Cores: []chip.Range{t.grid()}}}}
	change(t, p)
	t.wantProgramError(p)
}

// wantProgramError loads a program that must be refused, and checks that nothing stays allocated.
func (t *fixture) wantProgramError(p *reprise.Program) {
	t.Helper()
	before := t.allocated()
	x, err := t.dev.Load(t.ctx, p)
	if err == nil {
		t.ok(x.Release(t.ctx))
		t.Fatal("it was loaded")
	}
	var perr *dispatch.ProgramError
	if !errors.As(err, &perr) {
		t.Fatalf("error %v, want a *ProgramError", err)
	}
	if perr.Program != p.Name || perr.Part == "" || perr.Why == "" {
		t.Errorf("error %+v doesn't say what is wrong with %q", perr, p.Name)
	}
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
}
