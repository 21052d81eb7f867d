package programs

import (
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/kernels"
)

// programError changes a good program into one that must be refused.
type programError struct {
	name   string
	change func(*rig.T, *reprise.Program)
}

func programErrors() []programError {
	return []programError{
		{"no kernels", func(_ *rig.T, p *reprise.Program) { p.Kernels = nil }},
		{"no image", func(_ *rig.T, p *reprise.Program) { p.Kernels[0].Image = nil }},
		{"empty image", func(_ *rig.T, p *reprise.Program) { p.Kernels[0].Image = &kernels.Image{} }},
		{"no cores", func(_ *rig.T, p *reprise.Program) { p.Kernels[0].Cores = nil }},
		{"cores outside of the grid", func(t *rig.T, p *reprise.Program) {
			p.Kernels[0].Cores = []chip.Range{{End: chip.Core{X: t.Grid().End.X + 1}}}
		}},
		{"negative cores", func(_ *rig.T, p *reprise.Program) {
			p.Kernels[0].Cores = []chip.Range{{Start: chip.Core{X: -1}, End: chip.Core{X: 1}}}
		}},
		{"empty range", func(_ *rig.T, p *reprise.Program) {
			p.Kernels[0].Cores = []chip.Range{{Start: chip.Core{X: 2}, End: chip.Core{X: 1}}}
		}},
		{"two kernels on one processor", func(_ *rig.T, p *reprise.Program) { p.Kernels = append(p.Kernels, p.Kernels[0]) }},
		{"the same core twice", func(_ *rig.T, p *reprise.Program) {
			p.Kernels[0].Cores = append(p.Kernels[0].Cores, p.Kernels[0].Cores...)
		}},
		{"no such processor", func(_ *rig.T, p *reprise.Program) { p.Kernels[0].Processor = 5 }},
		{"another chip's kernel", func(t *rig.T, p *reprise.Program) {
			other := chip.Wormhole
			if t.Dev.Arch() == other {
				other = chip.Blackhole
			}
			im, err := kernels.Prebuilt(other, kernels.Blank)
			t.OK(err)
			p.Kernels[0].Image = im
		}},
		{"circular buffer 32", func(t *rig.T, p *reprise.Program) { rig.AddCircularBuffer(t, p, 32, 64, 1) }},
		{"circular buffer -1", func(t *rig.T, p *reprise.Program) { rig.AddCircularBuffer(t, p, -1, 64, 1) }},
		{"circular buffer of 20-byte pages", func(t *rig.T, p *reprise.Program) { rig.AddCircularBuffer(t, p, 0, 20, 1) }},
		{"circular buffer without pages", func(t *rig.T, p *reprise.Program) { rig.AddCircularBuffer(t, p, 0, 64, 0) }},
		{"circular buffer beyond L1", func(t *rig.T, p *reprise.Program) { rig.AddCircularBuffer(t, p, 0, 65536, 100) }},
		{"circular buffer twice", func(t *rig.T, p *reprise.Program) {
			rig.AddCircularBuffer(t, p, 0, 64, 1)
			rig.AddCircularBuffer(t, p, 0, 64, 1)
		}},
		{"semaphore 16", func(t *rig.T, p *reprise.Program) {
			p.Semaphores = []reprise.Semaphore{{ID: 16, Cores: []chip.Range{t.Grid()}}}
		}},
		{"semaphore -1", func(t *rig.T, p *reprise.Program) {
			p.Semaphores = []reprise.Semaphore{{ID: -1, Cores: []chip.Range{t.Grid()}}}
		}},
		{"semaphore twice", func(t *rig.T, p *reprise.Program) {
			p.Semaphores = []reprise.Semaphore{{Cores: []chip.Range{t.Grid()}}, {Cores: []chip.Range{t.Grid().End.Range()}}}
		}},
	}
}

func refused(t *rig.T, change func(*rig.T, *reprise.Program)) {
	p := t.BlankProgram("bad")
	change(t, p)
	wantProgramError(t, p)
}

// wantProgramError loads a program that must be refused, and checks that nothing stays allocated.
func wantProgramError(t *rig.T, p *reprise.Program) {
	t.Helper()
	before := t.Allocated()
	x, err := t.Dev.Load(t.Ctx, p)
	if err == nil {
		t.Release(x)
		t.Fatal("it was loaded")
	}
	var perr *dispatch.ProgramError
	if !errors.As(err, &perr) {
		t.Fatalf("error %v, want a *ProgramError", err)
	}
	if perr.Program != p.Name || perr.Part == "" || perr.Why == "" {
		t.Errorf("error %+v doesn't say what is wrong with %q", perr, p.Name)
	}
	t.SameMemory(before)
}
