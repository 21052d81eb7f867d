package programs

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/kernels"
)

type coreSet struct {
	name string
	of   func(chip.Range) []chip.Range
}

func coreSets() []coreSet {
	where := func(in func(g chip.Range, x, y int) bool) func(chip.Range) []chip.Range {
		return func(g chip.Range) []chip.Range { return pick(g, func(x, y int) bool { return in(g, x, y) }) }
	}
	return []coreSet{
		{"one", func(g chip.Range) []chip.Range { return []chip.Range{g.End.Range()} }},
		{"corners", where(func(g chip.Range, x, y int) bool { return (x == 0 || x == g.End.X) && (y == 0 || y == g.End.Y) })},
		{"diagonal", where(func(_ chip.Range, x, y int) bool { return x == y })},
		{"checkerboard", where(func(_ chip.Range, x, y int) bool { return (x+y)%2 == 0 })},
		{"ring", where(func(g chip.Range, x, y int) bool { return x == 0 || y == 0 || x == g.End.X || y == g.End.Y })},
		{"L", func(g chip.Range) []chip.Range {
			return []chip.Range{rig.Rectangle(g, "column"), {Start: chip.Core{X: 1, Y: g.End.Y}, End: g.End}}
		}},
		{"odd columns", where(func(_ chip.Range, x, _ int) bool { return x%2 == 1 })},
		{"all but one", where(func(_ chip.Range, x, y int) bool { return x != 3 || y != 4 })},
	}
}

func pick(g chip.Range, in func(x, y int) bool) []chip.Range {
	var out []chip.Range
	for c := range g.Cores() {
		if in(c.X, c.Y) {
			out = append(out, c.Range())
		}
	}
	return out
}

func contains(rs []chip.Range, c chip.Core) bool {
	return slices.ContainsFunc(rs, func(r chip.Range) bool { return r.Contains(c) })
}

func irregular(t *rig.T, s coreSet) {
	on := s.of(t.Grid())
	b := t.PerWorker(64)
	prog := t.StoreProgram(s.name, t.Grid(), b, 0x77000000)
	prog.Kernels[0].Cores = on
	x := t.Load(prog)
	n := len(pick(t.Grid(), func(x, y int) bool { return contains(on, chip.Core{X: x, Y: y}) }))
	rig.Equal(t, x.Cores(), n, "cores of the program")
	for range 3 {
		t.RunAndWait(x)
	}
	t.WantWords(s.name, b, 0, func(c chip.Core) uint32 {
		if contains(on, c) {
			return 0x77000000 + uint32(t.WorkerIndex(c))
		}
		return 0
	})
}

func kernelGroups(t *rig.T) {
	b := t.PerWorker(64)
	prog := &reprise.Program{Name: "groups", Buffers: []*reprise.Buffer{b}}
	g := t.Grid()
	for y := range g.End.Y + 1 {
		row := chip.Range{Start: chip.Core{Y: y}, End: chip.Core{X: g.End.X, Y: y}}
		prog.Kernels = append(prog.Kernels, reprise.Kernel{
			Name: fmt.Sprintf("row %d", y), Image: t.Kernel(kernels.Store), Processor: rig.Processors()[y%5], Cores: []chip.Range{row},
			Common: []uint32{uint32(y) << 8},
			Args:   func(c chip.Core) []uint32 { return []uint32{b.Addr(), 1, uint32(c.X)} },
		}, reprise.Kernel{
			Name: fmt.Sprintf("odd %d", y), Image: t.Own("mix"), Processor: rig.Processors()[(y+1)%5], Common: []uint32{5},
			Cores: pick(row, func(x, _ int) bool { return x%2 == 1 }),
			Args:  func(c chip.Core) []uint32 { return []uint32{b.Addr() + 4, uint32(c.X)} },
		})
	}
	t.RunAndWait(t.Load(prog))
	t.WantWords("by row", b, 0, func(c chip.Core) uint32 { return uint32(c.Y<<8 + c.X) })
	t.WantWords("odd columns", b, 1, func(c chip.Core) uint32 {
		if c.X%2 == 1 {
			return uint32(c.X) + 5
		}
		return 0
	})
}

func xy(t *rig.T, c chip.Core) (x, y uint32) {
	v, err := t.Dev.Virtual(c)
	t.OK(err)
	return uint32(v.X), uint32(v.Y)
}

func KernelMulticast(t *rig.T, bytes int) {
	g := t.Grid()
	b, sum := t.PerWorker((bytes+15)&^15), t.PerWorker(16)
	data := rig.Pattern(bytes, bytes&^3)
	for _, sender := range []chip.Core{g.Start, g.End, {X: g.End.X / 2, Y: g.End.Y / 2}} {
		all := make([]byte, b.Size())
		copy(all[t.WorkerIndex(sender)*b.PageSize():], data)
		t.Write(b, all)
		x0, y0 := xy(t, g.Start)
		x1, y1 := xy(t, g.End)
		prog := &reprise.Program{Name: "multicast", Buffers: []*reprise.Buffer{b, sum},
			Semaphores: []reprise.Semaphore{{ID: 3, Cores: []chip.Range{g}}}}
		prog.Kernels = []reprise.Kernel{
			{Name: "send", Image: t.Kernel(kernels.MulticastSend), Processor: chip.BRISC, Cores: []chip.Range{sender.Range()},
				Args: rig.Args(x0, y0, x1, y1, uint32(g.Size()), b.Addr(), uint32(len(data)), 3)},
			{Name: "wait", Image: t.Kernel(kernels.MulticastWait), Processor: chip.NCRISC, Cores: []chip.Range{g},
				Args: rig.Args(b.Addr(), uint32(len(data)), 3, sum.Addr())},
		}
		t.RunAndWait(t.Load(prog))
		var want uint32
		for i := 0; i < len(data); i += 4 {
			want += rig.Word(data[i:])
		}
		t.WantWords(fmt.Sprintf("from %v", sender), sum, 0, func(chip.Core) uint32 { return want })
	}
}

func PingPong(t *rig.T, turns int) {
	b := t.PerWorker(16)
	all := t.Corners()
	for _, pair := range [][2]chip.Core{{all[0], all[3]}, {all[1], all[2]}, {all[0], {X: 1}}} {
		for _, p := range []chip.Processor{chip.BRISC, chip.NCRISC} {
			prog := &reprise.Program{Name: "ping-pong", Buffers: []*reprise.Buffer{b},
				Semaphores: []reprise.Semaphore{{ID: 7, Cores: []chip.Range{pair[0].Range(), pair[1].Range()}}}}
			for i, c := range pair {
				x, y := xy(t, pair[1-i])
				prog.Kernels = append(prog.Kernels, reprise.Kernel{Name: fmt.Sprint(c), Image: t.Kernel(kernels.PingPong), Processor: p,
					Cores: []chip.Range{c.Range()},
					Args:  rig.Args(x, y, 7, uint32(turns), uint32(1-i), b.Addr())})
			}
			t.Clear(b)
			t.RunAndWait(t.Load(prog))
			t.WantWords("turns", b, 0, func(c chip.Core) uint32 {
				if c == pair[0] || c == pair[1] {
					return uint32(turns)
				}
				return 0
			})
		}
	}
}

func Chain(t *rig.T) {
	b := t.PerWorker(16)
	g := t.Grid()
	var order []chip.Core
	for y := range g.End.Y + 1 {
		for x := range g.End.X + 1 {
			if y%2 == 1 {
				x = g.End.X - x
			}
			order = append(order, chip.Core{X: x, Y: y})
		}
	}
	next := map[chip.Core]chip.Core{}
	for i := range order[1:] {
		next[order[i]] = order[i+1]
	}
	x := t.Load(&reprise.Program{Name: "chain", Buffers: []*reprise.Buffer{b},
		Semaphores: []reprise.Semaphore{{ID: 0, Cores: []chip.Range{g}}}, Kernels: []reprise.Kernel{{
			Name: "relay", Image: t.Own("relay"), Processor: chip.BRISC, Cores: []chip.Range{g},
			Args: func(c chip.Core) []uint32 {
				nx, ny := xy(t, next[c])
				args := []uint32{nx, ny, 0, b.Addr(), 0, 0}
				if c == order[0] {
					args[4] = 1
				}
				if c == order[len(order)-1] {
					args[5] = 1
				}
				return args
			},
		}}})
	for round := range t.Size(5, 2) {
		t.Clear(b)
		t.RunAndWait(x)
		got := t.Words(b, 0)
		for i, c := range order {
			if got[t.WorkerIndex(c)] != uint32(i+1) {
				t.Fatalf("round %d: core %v, number %d of the chain, has %d", round, c, i, got[t.WorkerIndex(c)])
			}
		}
	}
}

func sixteenSemaphores(t *rig.T) {
	b := t.PerWorker(16)
	g := t.Grid()
	for _, id := range []int{0, 1, 15} {
		prog := &reprise.Program{Name: "semaphores", Buffers: []*reprise.Buffer{b}}
		for i := range 32 {
			rig.AddCircularBuffer(t, prog, i, 16*(i+1), 3)
		}
		for i := range program.MaxSemaphores {
			v := uint32(0)
			if i == id {
				v = 1
			}
			prog.Semaphores = append(prog.Semaphores, reprise.Semaphore{ID: i, Cores: []chip.Range{g}, Initial: v})
		}
		prog.Kernels = []reprise.Kernel{{Name: "wait", Image: t.Kernel(kernels.MulticastWait), Processor: chip.BRISC, Cores: []chip.Range{g},
			Args: func(c chip.Core) []uint32 { return []uint32{b.Addr(), 4, uint32(id), b.Addr() + 4} }}}
		all := make([]byte, b.Size())
		for i := range g.Size() {
			rig.PutWord(all[i*b.PageSize():], uint32(i+id))
		}
		t.Write(b, all)
		t.RunAndWait(t.Load(prog))
		t.WantWords("sum", b, 1, func(c chip.Core) uint32 { return uint32(t.WorkerIndex(c) + id) })
	}
}

func EmptyCores(t *rig.T) {
	x := t.Load(&reprise.Program{Name: "empty",
		Kernels: []reprise.Kernel{{Name: "blank", Image: t.Kernel(kernels.Blank), Processor: chip.TRISC1,
			Cores: []chip.Range{t.Grid().End.Range()}}},
		CircularBuffers: []reprise.CircularBuffer{{Index: 31, Cores: []chip.Range{rig.Rectangle(t.Grid(), "row")}, PageSize: 16, Pages: 1}},
		Semaphores:      []reprise.Semaphore{{ID: 15, Cores: []chip.Range{rig.Rectangle(t.Grid(), "column")}, Initial: 9}},
	})
	for range 20 {
		t.Start(x)
	}
	t.Wait()
}
