package programs

import (
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/internal/rig"
)

// Arguments gives a kernel so many unique and common arguments.
func Arguments(t *rig.T, p chip.Processor, unique, common int) {
	b := t.PerWorker(4 * (unique + common))
	k := reprise.Kernel{Name: "args", Image: t.Own("args"), Processor: p, Cores: []chip.Range{t.Grid()}}
	for i := range common {
		k.Common = append(k.Common, 0xC0000000+uint32(i))
	}
	k.Args = func(c chip.Core) []uint32 {
		a := []uint32{b.Addr(), uint32(unique), uint32(common)}
		for len(a) < unique {
			a = append(a, uint32(t.WorkerIndex(c))<<16+uint32(len(a)))
		}
		return a
	}
	t.RunAndWait(t.Load(&reprise.Program{Name: "args", Kernels: []reprise.Kernel{k}, Buffers: []*reprise.Buffer{b}}))
	all := t.ReadAll(b)
	for c := range t.Grid().Cores() {
		var want []byte
		for _, v := range append(k.Args(c), k.Common...) {
			want = rig.AppendWord(want, v)
		}
		i := t.WorkerIndex(c) * b.PageSize()
		t.Same(fmt.Sprintf("core %v", c), want, all[i:i+len(want)])
	}
}

// CommonOnly gives a kernel common arguments alone.
func CommonOnly(t *rig.T, n int) {
	b := t.PerWorker(4 * n)
	k := reprise.Kernel{Name: "common", Image: t.Own("common"), Processor: chip.NCRISC, Cores: []chip.Range{t.Grid()},
		Common: []uint32{b.Addr(), uint32(n)}}
	for len(k.Common) < n {
		k.Common = append(k.Common, 0xAB0000+uint32(len(k.Common)))
	}
	t.RunAndWait(t.Load(&reprise.Program{Name: "common", Kernels: []reprise.Kernel{k}, Buffers: []*reprise.Buffer{b}}))
	for _, i := range []int{0, 1, n / 2, n - 1} {
		t.WantWords(fmt.Sprintf("argument %d", i), b, i, func(chip.Core) uint32 { return k.Common[i] })
	}
}

func tooManyArguments(t *rig.T, unique, common int) {
	k := reprise.Kernel{Name: "args", Image: t.Own("args"), Processor: chip.BRISC, Cores: []chip.Range{t.Grid()},
		Common: make([]uint32, common)}
	k.Args = func(chip.Core) []uint32 { return make([]uint32, unique) }
	wantProgramError(t, &reprise.Program{Name: "too many", Kernels: []reprise.Kernel{k}})
}

func differingArguments(t *rig.T) {
	b := t.PerWorker(4 * 64)
	k := reprise.Kernel{Name: "args", Image: t.Own("args"), Processor: chip.BRISC, Cores: []chip.Range{t.Grid()}}
	k.Args = func(c chip.Core) []uint32 {
		n := 3 + (t.WorkerIndex(c)*7)%50
		a := []uint32{b.Addr(), uint32(n), 0}
		for len(a) < n {
			a = append(a, uint32(t.WorkerIndex(c)*100+len(a)))
		}
		return a
	}
	t.RunAndWait(t.Load(&reprise.Program{Name: "differ", Kernels: []reprise.Kernel{k}, Buffers: []*reprise.Buffer{b}}))
	all := t.ReadAll(b)
	for c := range t.Grid().Cores() {
		want := make([]byte, 0, 256)
		for _, v := range k.Args(c) {
			want = rig.AppendWord(want, v)
		}
		i := t.WorkerIndex(c) * b.PageSize()
		t.Same(fmt.Sprintf("core %v", c), want, all[i:i+len(want)])
	}
}
