package hwtest

import (
	"encoding/binary"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
)

func arguments(t *fixture, p chip.Processor, unique, common int) {
	b := t.perWorker(4 * (unique + common))
	k := reprise.Kernel{Name: "args", Image: t.own("args"), Processor: p, Cores: []chip.Range{t.grid()}}
	for i := range common {
		k.Common = append(k.Common, 0xC0000000+uint32(i))
	}
	k.Args = func(c chip.Core) []uint32 {
		a := []uint32{b.Addr(), uint32(unique), uint32(common)}
		for len(a) < unique {
			a = append(a, uint32(t.workerIndex(c))<<16+uint32(len(a)))
		}
		return a
	}
	t.runAndWait(t.load(&reprise.Program{Name: "args", Kernels: []reprise.Kernel{k}, Buffers: []*reprise.Buffer{b}}))
	all := t.readAll(b)
	for c := range t.grid().Cores() {
		var want []byte
		for _, v := range append(k.Args(c), k.Common...) {
			want = binary.LittleEndian.AppendUint32(want, v)
		}
		i := t.workerIndex(c) * b.PageSize()
		t.same(fmt.Sprintf("core %v", c), want, all[i:i+len(want)])
	}
}

func commonOnly(t *fixture, n int) {
	b := t.perWorker(4 * n)
	k := reprise.Kernel{Name: "common", Image: t.own("common"), Processor: chip.NCRISC, Cores: []chip.Range{t.grid()},
		Common: []uint32{b.Addr(), uint32(n)}}
	for len(k.Common) < n {
		k.Common = append(k.Common, 0xAB0000+uint32(len(k.Common)))
	}
	t.runAndWait(t.load(&reprise.Program{Name: "common", Kernels: []reprise.Kernel{k}, Buffers: []*reprise.Buffer{b}}))
	for _, i := range []int{0, 1, n / 2, n - 1} {
		t.wantWords(fmt.Sprintf("argument %d", i), b, i, func(chip.Core) uint32 { return k.Common[i] })
	}
}

func tooManyArguments(t *fixture, unique, common int) {
	k := reprise.Kernel{Name: "args", Image: t.own("args"), Processor: chip.BRISC, Cores: []chip.Range{t.grid()},
		Common: make([]uint32, common)}
	k.Args = func(chip.Core) []uint32 { return make([]uint32, unique) }
	t.wantProgramError(&reprise.Program{Name: "too many", Kernels: []reprise.Kernel{k}})
}

func differingArguments(t *fixture) {
	b := t.perWorker(4 * 64)
	k := reprise.Kernel{Name: "args", Image: t.own("args"), Processor: chip.BRISC, Cores: []chip.Range{t.grid()}}
	k.Args = func(c chip.Core) []uint32 {
		n := 3 + (t.workerIndex(c)*7)%50
		a := []uint32{b.Addr(), uint32(n), 0}
		for len(a) < n {
			a = append(a, uint32(t.workerIndex(c)*100+len(a)))
		}
		return a
	}
	t.runAndWait(t.load(&reprise.Program{Name: "differ", Kernels: []reprise.Kernel{k}, Buffers: []*reprise.Buffer{b}}))
	all := t.readAll(b)
	for c := range t.grid().Cores() {
		want := make([]byte, 0, 256)
		for _, v := range k.Args(c) {
			want = binary.LittleEndian.AppendUint32(want, v)
		}
		i := t.workerIndex(c) * b.PageSize()
		t.same(fmt.Sprintf("core %v", c), want, all[i:i+len(want)])
	}
}
