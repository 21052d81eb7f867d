package programs

import (
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
	"github.com/reprise-tt/reprise/kernels"
)

// LongText loads kernels whose text leaves so many bytes of kernel-config memory free.
func LongText(t *rig.T, free int, on []chip.Processor) {
	b := t.PerWorker(64)
	// Beside the texts there are two unique arguments each, and alignment.
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
			if g := got[t.WorkerIndex(c)]; g != want[i] {
				t.Errorf("%v of core %v: sum %#x, want %#x", p, c, g, want[i])
			}
		}
	}
}

func textBeyond(t *rig.T) {
	for _, over := range []int{16, 64, 100_000, 1 << 20} {
		im := rig.Padded(t.Own("sum_text"), int(t.L1.KernelConfigSize)+over)
		wantProgramError(t, &reprise.Program{Name: "too long",
			Kernels: []reprise.Kernel{{Name: "k", Image: im, Processor: chip.BRISC, Cores: []chip.Range{t.Grid()}}}})
	}
}

// LongCommands runs programs whose commands span entries.
func LongCommands(t *rig.T) {
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
	x := t.Load(prog)
	if x.Commands().Bytes > 64<<10 {
		t.Fatalf("the commands have %d bytes: the arguments don't lie beside the kernels", x.Commands().Bytes)
	}
	t.Start(x)
	// Once arguments have changed, they all are among the commands.
	t.OK(x.SetArgs(rig.Processors()[0].String(), func(_ chip.Core, args []uint32) { args[339]++ }))
	if x.Commands().Bytes < 256<<10 {
		t.Fatalf("the commands have %d bytes: not more than an entry", x.Commands().Bytes)
	}
	for range 4 {
		t.Start(x)
	}
	t.Wait()
	for i := range rig.Processors() {
		for _, w := range []int{0, 15} {
			t.WantWords(fmt.Sprintf("%v word %d", rig.Processors()[i], w), b, 16*i+w, func(c chip.Core) uint32 {
				return uint32(t.WorkerIndex(c))<<12 + uint32(i)<<8 + uint32(2+w)
			})
		}
	}
}

func configRing(t *rig.T) {
	b := t.PerWorker(16)
	var xs []*reprise.Executable
	sizes := []int{0, 40_000, 1000, 30_000, 69_000, 5000, 20_000, 64, 35_000}
	for i, n := range sizes {
		xs = append(xs, t.Load(t.MixProgram(fmt.Sprintf("size %d", n), t.Grid(), b, uint32(i+1), n&^15)))
	}
	want := make([]uint32, t.Grid().Size())
	for i := range t.Size(400, 60) {
		k := i * 7 % len(xs)
		if i%5 == 0 {
			k = i / 5 % len(xs)
		}
		t.Start(xs[k])
		for c := range want {
			want[c] = rig.Mixed(want[c], uint32(k+1), c)
		}
	}
	t.Wait()
	t.WantWords("mixed", b, 0, func(c chip.Core) uint32 { return want[t.WorkerIndex(c)] })
}
