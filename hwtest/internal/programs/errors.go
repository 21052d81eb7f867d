package programs

import (
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/kernels"
)

type programError struct {
	name   string
	change func(*rig.T, *reprise.Program)
}

func programErrors() []programError {
	columns := func(name string, from, to int) programError {
		return programError{name, func(t *rig.T, p *reprise.Program) {
			p.Kernels[0].Cores = []chip.Range{{Start: chip.Core{X: from}, End: chip.Core{X: min(to, t.Grid().End.X+1)}}}
		}}
	}
	circular := func(name string, index, size, pages int) programError {
		return programError{name, func(t *rig.T, p *reprise.Program) { rig.AddCircularBuffer(t, p, index, size, pages) }}
	}
	semaphore := func(id int) programError {
		return programError{fmt.Sprintf("semaphore %d", id), func(t *rig.T, p *reprise.Program) {
			p.Semaphores = []reprise.Semaphore{{ID: id, Cores: []chip.Range{t.Grid()}}}
		}}
	}
	return []programError{
		{"no kernels", func(_ *rig.T, p *reprise.Program) { p.Kernels = nil }},
		{"no image", func(_ *rig.T, p *reprise.Program) { p.Kernels[0].Image = nil }},
		{"empty image", func(_ *rig.T, p *reprise.Program) { p.Kernels[0].Image = &kernels.Image{} }},
		{"no cores", func(_ *rig.T, p *reprise.Program) { p.Kernels[0].Cores = nil }},
		columns("cores outside of the grid", 0, 1<<10), columns("negative cores", -1, 1), columns("empty range", 2, 1),
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
		circular("circular buffer 32", 32, 64, 1), circular("circular buffer -1", -1, 64, 1),
		circular("circular buffer of 20-byte pages", 0, 20, 1),
		circular("circular buffer without pages", 0, 64, 0), circular("circular buffer beyond L1", 0, 65536, 100),
		{"circular buffer twice", func(t *rig.T, p *reprise.Program) {
			rig.AddCircularBuffer(t, p, 0, 64, 1)
			rig.AddCircularBuffer(t, p, 0, 64, 1)
		}},
		semaphore(16), semaphore(-1),
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

func wantProgramError(t *rig.T, p *reprise.Program) {
	before := t.Allocated()
	x, err := t.Dev.Load(t.Ctx, p)
	if err == nil {
		t.Release(x)
		t.Fatal("it was loaded")
	}
	if perr := rig.As[*dispatch.ProgramError](t, err); perr.Program != p.Name || perr.Part == "" || perr.Why == "" {
		t.Errorf("error %+v doesn't say what is wrong with %q", perr, p.Name)
	}
	t.SameMemory(before)
}

// LongText loads kernels whose text leaves so many bytes of kernel-config memory free.
func LongText(t *rig.T, free int, on []chip.Processor) {
	b := t.PerWorker(64)
	// Beside the texts there are two arguments each, and alignment.
	limit := int(t.L1.KernelConfigSize) - 64*((16*len(on)+63)/64)
	size := (limit - free) / len(on) &^ 63
	prog := &reprise.Program{Name: "long", Buffers: []*reprise.Buffer{b}}
	var want []uint32
	for i, p := range on {
		im := rig.Padded(t.Own("sum_text"), size-i*64*len(on)%512)
		sum := uint32(0)
		for k := 0; k < len(im.Text); k += 4 {
			sum = sum*31 + rig.Word(im.Text[k:])
		}
		want = append(want, sum)
		prog.Kernels = append(prog.Kernels, reprise.Kernel{Name: p.String(), Image: im, Processor: p,
			Cores: []chip.Range{t.Grid().Start.Range(), t.Grid().End.Range()},
			Args:  rig.Args(b.Addr()+uint32(4*i), uint32(len(im.Text)/4))})
	}
	x := t.Load(prog)
	for range 3 {
		t.RunAndWait(x)
	}
	for i, p := range on {
		got := t.Words(b, i)
		for _, c := range []chip.Core{t.Grid().Start, t.Grid().End} {
			rig.Equal(t, got[t.WorkerIndex(c)], want[i], "%v of core %v: sum", p, c)
		}
	}
}

func textBeyond(t *rig.T) {
	for _, over := range []int{16, 64, 100_000, 1 << 20} {
		im := rig.Padded(t.Own("sum_text"), int(t.L1.KernelConfigSize)+over)
		wantProgramError(t, rig.OneKernel(reprise.Kernel{Name: "too long", Image: im, Processor: chip.BRISC,
			Cores: []chip.Range{t.Grid()}}))
	}
}

// LongProgram returns a program with what makes its commands longer than a fetch entry may be, and
// what checks the words that it has stored.
func LongProgram(t *rig.T) (x *reprise.Executable, lengthen, check func()) {
	b := t.PerWorker(64 * len(rig.Processors()))
	prog := &reprise.Program{Name: "long commands", Buffers: []*reprise.Buffer{b}}
	for i, p := range rig.Processors() {
		prog.Kernels = append(prog.Kernels, reprise.Kernel{Name: p.String(), Image: t.Kernel(kernels.Store), Processor: p,
			Cores: []chip.Range{t.Grid()}, Common: []uint32{0},
			Args: func(c chip.Core) []uint32 {
				a := []uint32{b.Addr() + uint32(64*i), 16}
				for len(a) < 340 {
					a = append(a, uint32(t.WorkerIndex(c))<<12+uint32(i)<<8+uint32(len(a)))
				}
				return a
			}})
	}
	x = t.Load(prog)
	if n := x.Commands().Bytes; n > 64<<10 {
		t.Fatalf("the commands have %d bytes: the arguments don't lie beside the kernels", n)
	}
	return x, func() {
			t.OK(x.SetArgs(rig.Processors()[0].String(), func(_ chip.Core, args []uint32) { args[339]++ }))
			if n := x.Commands().Bytes; n < 256<<10 {
				t.Fatalf("the commands have %d bytes: not more than an entry", n)
			}
		}, func() {
			for i, p := range rig.Processors() {
				for _, w := range []int{0, 15} {
					t.WantWords(fmt.Sprintf("%v word %d", p, w), b, 16*i+w, func(c chip.Core) uint32 {
						return uint32(t.WorkerIndex(c))<<12 + uint32(i)<<8 + uint32(2+w)
					})
				}
			}
		}
}

// LongCommands runs programs whose commands span entries.
func LongCommands(t *rig.T) {
	x, lengthen, check := LongProgram(t)
	t.Start(x)
	lengthen()
	for range 4 {
		t.Start(x)
	}
	t.Wait()
	check()
}

// ConfigRing starts programs of changing size.
func ConfigRing(t *rig.T, runs int) {
	f := t.Follow()
	xs := f.LoadSizes(1, []int{0, 40_000, 1000, 30_000, 69_000, 5000, 20_000, 64, 35_000})
	for i := range runs {
		k := i * 7 % len(xs)
		if i%5 == 0 {
			k = i / 5 % len(xs)
		}
		f.Start(xs[k])
	}
	f.Check("mixed")
}
