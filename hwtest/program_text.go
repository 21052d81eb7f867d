package hwtest

import (
	"encoding/binary"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

// padded is an image made longer by text that is never run.
func padded(im *kernels.Image, n int) *kernels.Image {
	out := *im
	out.Text = append(append([]byte(nil), im.Text...), pattern(uint32(n), n-len(im.Text))...)
	return &out
}

func longText(t *fixture, free int, on []chip.Processor) {
	b := t.perWorker(64)
	// Beside the texts there are two unique arguments each, and alignment.
	limit := int(t.l1.KernelConfigSize) - 64*((16*len(on)+63)/64)
	size := (limit - free) / len(on) &^ 63
	prog := &reprise.Program{Name: "long", Buffers: []*reprise.Buffer{b}}
	var want []uint32
	for i, p := range on {
		im := padded(t.own("sum_text"), size-i*64*len(on)%512)
		sum := uint32(0)
		for k := 0; k < len(im.Text); k += 4 {
			sum = sum*31 + binary.LittleEndian.Uint32(im.Text[k:])
		}
		want = append(want, sum)
		prog.Kernels = append(prog.Kernels, reprise.Kernel{Name: p.String(), Image: im, Processor: p,
			Cores: []chip.Range{t.grid().Start.Range(), t.grid().End.Range()},
			Args:  func(chip.Core) []uint32 { return []uint32{b.Addr() + uint32(4*i), uint32(len(im.Text) / 4)} }})
	}
	x := t.load(prog)
	for range 3 {
		t.runAndWait(x)
	}
	for i, p := range on {
		got := t.words(b, i)
		for _, c := range []chip.Core{t.grid().Start, t.grid().End} {
			if g := got[t.workerIndex(c)]; g != want[i] {
				t.Errorf("%v of core %v: sum %#x, want %#x", p, c, g, want[i])
			}
		}
	}
}

func textBeyond(t *fixture) {
	for _, over := range []int{16, 64, 100_000, 1 << 20} {
		im := padded(t.own("sum_text"), int(t.l1.KernelConfigSize)+over)
		t.wantProgramError(&reprise.Program{Name: "too long",
			Kernels: []reprise.Kernel{{Name: "k", Image: im, Processor: chip.BRISC, Cores: []chip.Range{t.grid()}}}})
	}
}

func longCommands(t *fixture) {
	b := t.perWorker(64 * len(processors()))
	prog := &reprise.Program{Name: "long commands", Buffers: []*reprise.Buffer{b}}
	for i, p := range processors() {
		prog.Kernels = append(prog.Kernels, reprise.Kernel{Name: p.String(), Image: t.kernel(kernels.Store), Processor: p,
			Cores: []chip.Range{t.grid()}, Common: []uint32{0},
			Args: func(c chip.Core) []uint32 {
				a := []uint32{b.Addr() + uint32(64*i), 16}
				for len(a) < 340 {
					a = append(a, uint32(t.workerIndex(c))<<12+uint32(i)<<8+uint32(len(a)))
				}
				return a
			}})
	}
	x := t.load(prog)
	if x.Commands().Bytes > 64<<10 {
		t.Fatalf("the commands have %d bytes: the arguments don't lie beside the kernels", x.Commands().Bytes)
	}
	t.ok(t.rq.Run(t.ctx, x))
	// Once arguments have changed, they all are among the commands.
	t.ok(x.SetArgs(processors()[0].String(), func(_ chip.Core, args []uint32) { args[339]++ }))
	if x.Commands().Bytes < 256<<10 {
		t.Fatalf("the commands have %d bytes: not more than an entry", x.Commands().Bytes)
	}
	for range 4 {
		t.ok(t.rq.Run(t.ctx, x))
	}
	t.ok(t.rq.Wait(t.ctx))
	for i := range processors() {
		for _, w := range []int{0, 15} {
			t.wantWords(fmt.Sprintf("%v word %d", processors()[i], w), b, 16*i+w, func(c chip.Core) uint32 {
				return uint32(t.workerIndex(c))<<12 + uint32(i)<<8 + uint32(2+w)
			})
		}
	}
}

func configRing(t *fixture) {
	b := t.perWorker(16)
	var xs []*reprise.Executable
	sizes := []int{0, 40_000, 1000, 30_000, 69_000, 5000, 20_000, 64, 35_000}
	for i, n := range sizes {
		xs = append(xs, t.load(t.mixProgram(fmt.Sprintf("size %d", n), t.grid(), b, uint32(i+1), n&^15)))
	}
	want := make([]uint32, t.grid().Size())
	for i := range t.size(400, 60) {
		k := i * 7 % len(xs)
		if i%5 == 0 {
			k = i / 5 % len(xs)
		}
		t.ok(t.rq.Run(t.ctx, xs[k]))
		for c := range want {
			want[c] = mixed(want[c], uint32(k+1), c)
		}
	}
	t.ok(t.rq.Wait(t.ctx))
	t.wantWords("mixed", b, 0, func(c chip.Core) uint32 { return want[t.workerIndex(c)] })
}
