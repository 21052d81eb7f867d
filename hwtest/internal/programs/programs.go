// Package programs has the cases of programs: kernels, arguments, circular buffers, semaphores.
package programs

import (
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/kernels"
)

// Cases are the cases of layer programs.
func Cases() (cs rig.Table) {
	rig.Each(&cs, "%v alone", "each processor runs a kernel while the others rest", alone, rig.Processors()...)
	rig.Pairs(&cs, "%d unique and %d common arguments on %v", "every core gets its own unique arguments and all get the common ones",
		func(t *rig.T, n [2]int, p chip.Processor) { Arguments(t, p, n[0], n[1]) },
		[][2]int{{3, 0}, {4, 0}, {5, 1}, {3, 338}, {341, 0}, {340, 1}, {339, 2}, {170, 171}, {64, 64}},
		[]chip.Processor{chip.BRISC, chip.TRISC1})
	rig.Each(&cs, "%d common arguments alone", "a kernel may have common arguments only", CommonOnly, 2, 3, 4, 5, 16, 340, 341)
	rig.Each(&cs, "%d unique and %d common arguments are refused", "more arguments than fit are a *ProgramError that names the kernel",
		tooManyArguments, [][2]int{{342, 0}, {0, 342}, {341, 1}, {1, 341}, {10000, 0}}...)
	for _, s := range coreSets() {
		cs.Add("cores: "+s.name, "a program runs on exactly its cores, whatever shape they make", func(t *rig.T) { irregular(t, s) })
	}
	rig.Pairs(&cs, "pipeline over %[4]v, %[1]d pages of %[2]d, %[3]d deep", "circular buffers hand on pages in order, whatever their depth",
		func(t *rig.T, n [3]int, p chip.Processor) { KernelChain(t, []chip.Processor{p}, n[1], n[0], n[2]) },
		[][3]int{{1, 64, 1}, {40, 64, 2}, {33, 1024, 3}, {12, 4096, 8}, {100, 2048, 16}, {5, 16384, 2}},
		[]chip.Processor{chip.TRISC0, chip.TRISC2})
	rig.Each(&cs, "kernel multicast of %d bytes", "a kernel's multicast reaches all cores before its semaphore does",
		KernelMulticast, 16, 1024, 8192, 60000)
	rig.Each(&cs, "ping-pong of %d turns", "semaphores carry turns between the farthest cores", PingPong, 1, 2, 100)
	rig.Each(&cs, "kernel text %d bytes below the limit", "kernels up to the whole of the kernel-config memory arrive whole",
		func(t *rig.T, free int) { LongText(t, free, []chip.Processor{chip.BRISC}) }, 0, 16, 4096, 60<<10)
	for _, e := range programErrors() {
		cs.Add("refused: "+e.name, "a program that can't run is a *ProgramError, and nothing stays allocated",
			func(t *rig.T) {
				p := t.BlankProgram("bad")
				e.change(t, p)
				wantProgramError(t, p)
			})
	}
	cs.Add("second run has fresh data", "static data of a kernel begin anew with every run", FreshData)
	cs.Add("other network", "a BRISC kernel may take either network", OtherNetwork)
	cs.Add("argument counts differ by core", "cores may have different numbers of arguments", differingArguments)
	cs.Add("five texts up to the limit", "five long kernels share the kernel-config memory",
		func(t *rig.T) { LongText(t, 1024, rig.Processors()) })
	cs.Add("text beyond the limit", "kernels that don't fit are a *ProgramError", func(t *rig.T) {
		for _, over := range []int{16, 64, 100_000, 1 << 20} {
			im := rig.Padded(t.Own("sum_text"), int(t.L1.KernelConfigSize)+over)
			wantProgramError(t, rig.OneKernel(reprise.Kernel{Name: "too long", Image: im, Processor: chip.BRISC,
				Cores: []chip.Range{t.Grid()}}))
		}
	})
	cs.Add("commands longer than a fetch entry", "a program's commands may span several entries", LongCommands)
	cs.Add("several kernel groups", "rows of cores run different kernels of one program", kernelGroups)
	cs.Add("pipeline over three compute processors", "circular buffers chain all five processors of a tile", func(t *rig.T) {
		KernelChain(t, []chip.Processor{chip.TRISC0, chip.TRISC1, chip.TRISC2}, 1024, 20, 2)
	})
	cs.Add("copy by one processor", "a data-movement kernel alone copies an interleaved buffer", CopyBuffer)
	cs.Add("chain through all cores", "a word handed from core to core passes each exactly once", Chain)
	cs.Add("sixteen semaphores", "all semaphores of a core are separate words with their initial values", sixteenSemaphores)
	cs.Add("config ring wraps", "programs of changing size follow each other around the kernel-config ring", func(t *rig.T) { ConfigRing(t, t.Size(400, 60)) })
	cs.Add("thousands of runs", "nothing runs out in thousands of runs without a wait", func(t *rig.T) {
		f := t.Follow()
		x := f.Load("again", 3, chip.Grid(2, 2))
		for range t.Size(t.More(2000, 100_000), 300) {
			f.Start(x)
		}
		f.Check("mixed")
	})
	cs.Add("close one of two", "closing a program frees its memory and leaves others as they are", closeOne)
	cs.Add("no kernel at all on a core", "cores without a kernel report completion too", EmptyCores)
	cs.Add("used after close", "a closed program isn't run", func(t *rig.T) {
		x := t.Load(t.BlankProgram("gone"))
		t.Release(x)
		_, captured := t.Record("t", rig.Running(x))
		t.AllFail(reprise.ErrReleased, map[string]error{"run": t.Queue.Run(t.Ctx, x), "release": x.Release(t.Ctx), "capture": captured},
			`"gone"`, "it has been released already")
	})
	return cs
}

func alone(t *rig.T, p chip.Processor) {
	b := t.PerWorker(64)
	prog := t.StoreProgram("alone", t.Grid(), b, 0x1000)
	prog.Kernels[0].Processor = p
	t.RunProgram(prog)
	t.WantWords("stored", b, 0, func(c chip.Core) uint32 { return 0x1000 + uint32(t.WorkerIndex(c)) })
}

// who runs the program that says who runs it, on all processors, and checks what it says.
func who(t *rig.T, noc chip.NOC, runs uint32) {
	b := t.PerWorker(64 * len(rig.Processors()))
	prog := &reprise.Program{Name: "who", Buffers: []*reprise.Buffer{b}}
	for _, p := range rig.Processors() {
		prog.Kernels = append(prog.Kernels, reprise.Kernel{
			Name: p.String(), Image: t.Own("who"), Processor: p, Cores: []chip.Range{t.Grid()}, NOC: noc,
			Args: rig.Args(b.Addr()),
		})
	}
	x := t.Load(prog)
	for range runs {
		t.Start(x)
	}
	for i, p := range rig.Processors() {
		want := func(k int, what string, word func(chip.Core) uint32) {
			t.WantWords(fmt.Sprintf("%v: %s", p, what), b, 16*i+k, word)
		}
		always := func(v uint32) func(chip.Core) uint32 { return func(chip.Core) uint32 { return v } }
		want(0, "number", always(uint32(p)))
		want(1, "x", func(c chip.Core) uint32 { return uint32(c.X) })
		want(2, "y", func(c chip.Core) uint32 { return uint32(c.Y) })
		first, second := t.Words(b, 16*i+3), t.Words(b, 16*i+4)
		seen := map[uint32]bool{}
		for k := range first {
			if first[k] != second[k] || seen[first[k]] {
				t.Errorf("%v of core %d: virtual coordinate %#x on one network, %#x on the other", p, k, first[k], second[k])
			}
			seen[first[k]] = true
		}
		if p <= chip.NCRISC {
			want(5, "network", always(uint32(noc)^uint32(p)))
		}
		want(6, "initialized data", always(0x600D600D))
		want(7, "cleared data", always(0))
		want(8, "runs", always(runs))
	}
}

func FreshData(t *rig.T) { who(t, 0, 9) }

func OtherNetwork(t *rig.T) { who(t, 1, 1) }

// KernelChain passes pages through processors that each add 1, on several cores.
func KernelChain(t *rig.T, via []chip.Processor, size, pages, depth int) {
	cores := chip.Grid(3, 2)
	in, out := t.DRAMBuffer(pages*cores.Size()*size, size), t.DRAMBuffer(pages*cores.Size()*size, size)
	data := t.Fill(in, size)
	on := []chip.Range{cores}
	first := func(c chip.Core) uint32 { return uint32((c.Y*3 + c.X) * pages) }
	cb := func(i int) uint32 {
		if i%2 == 0 {
			return uint32(i)
		}
		return uint32(t.CircularBuffers() - i)
	}
	prog := &reprise.Program{Name: "pipeline", Buffers: []*reprise.Buffer{in, out}}
	prog.Kernels = []reprise.Kernel{
		{Name: "reader", Image: t.Kernel(kernels.CopyReader), Processor: chip.BRISC, Cores: on, Args: func(c chip.Core) []uint32 {
			return []uint32{in.Addr(), first(c), uint32(pages), in.PageStride(), cb(0)}
		}},
		{Name: "writer", Image: t.Kernel(kernels.CopyWriter), Processor: chip.NCRISC, Cores: on, Args: func(c chip.Core) []uint32 {
			return []uint32{out.Addr(), first(c), uint32(pages), out.PageStride(), cb(len(via))}
		}},
	}
	for i := range len(via) + 1 {
		prog.CircularBuffers = append(prog.CircularBuffers,
			reprise.CircularBuffer{Index: int(cb(i)), Cores: on, PageSize: size, Pages: depth})
	}
	for i, p := range via {
		prog.Kernels = append(prog.Kernels, reprise.Kernel{Name: fmt.Sprintf("add %d", i), Image: t.Kernel(kernels.Add), Processor: p, Cores: on,
			Args: rig.Args(cb(i), cb(i+1), uint32(pages), 1)})
	}
	x := t.Load(prog)
	for range 2 {
		t.RunAndWait(x)
	}
	t.Holds(out, rig.MakeWords(len(data), func(i int) uint32 { return rig.Word(data[4*i:]) + uint32(len(via)) }), "through the pipeline")
}

func CopyBuffer(t *rig.T) {
	const size, pages = 512, 100
	in, out := t.DRAMBuffer(pages*size, size), t.DRAMBuffer(pages*size, size)
	room := t.PerWorker(size)
	data := t.Fill(in, 4)
	for _, p := range []chip.Processor{chip.BRISC, chip.NCRISC} {
		t.Clear(out)
		t.RunProgram(t.CopyProgram("copy", p, t.Grid().End, in, out, room))
		t.Holds(out, data, "copied by %v", p)
	}
}

func closeOne(t *rig.T) {
	f := t.Follow()
	a := f.Load("a", 1)
	before := t.Allocated()
	x := f.LoadLong("b", 2, 10_000)
	f.Start(x)
	t.Release(x)
	t.SameMemory(before)
	f.Start(a)
	f.Check("mixed")
}

func Arguments(t *rig.T, p chip.Processor, unique, common int) {
	b := t.PerWorker(4 * (unique + common))
	k := argsKernel(t, p)
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
	takesArguments(t, b, k)
}

// argsKernel is the kernel that writes its arguments, on all workers.
func argsKernel(t *rig.T, p chip.Processor) reprise.Kernel {
	return reprise.Kernel{Name: "args", Image: t.Own("args"), Processor: p, Cores: []chip.Range{t.Grid()}}
}

// takesArguments runs a kernel of argsKernel, and compares what it has written to a buffer.
func takesArguments(t *rig.T, b *reprise.Buffer, k reprise.Kernel) {
	t.RunProgram(rig.OneKernel(k, b))
	all := t.ReadAll(b)
	for c := range t.Grid().Cores() {
		args := append(k.Args(c), k.Common...)
		i := t.WorkerIndex(c) * b.PageSize()
		t.Same(rig.WordsOf(args...), all[i:i+4*len(args)], "core %v", c)
	}
}

func CommonOnly(t *rig.T, n int) {
	b := t.PerWorker(4 * n)
	k := reprise.Kernel{Name: "common", Image: t.Own("common"), Processor: chip.NCRISC, Cores: []chip.Range{t.Grid()},
		Common: []uint32{b.Addr(), uint32(n)}}
	for len(k.Common) < n {
		k.Common = append(k.Common, 0xAB0000+uint32(len(k.Common)))
	}
	t.RunProgram(rig.OneKernel(k, b))
	for _, i := range []int{0, 1, n / 2, n - 1} {
		t.WantWords(fmt.Sprintf("argument %d", i), b, i, func(chip.Core) uint32 { return k.Common[i] })
	}
}

func tooManyArguments(t *rig.T, n [2]int) {
	k := argsKernel(t, chip.BRISC)
	k.Common, k.Args = make([]uint32, n[1]), rig.Args(make([]uint32, n[0])...)
	wantProgramError(t, rig.OneKernel(k))
}

func differingArguments(t *rig.T) {
	b := t.PerWorker(4 * 64)
	k := argsKernel(t, chip.BRISC)
	k.Args = func(c chip.Core) []uint32 {
		n := 3 + (t.WorkerIndex(c)*7)%50
		a := []uint32{b.Addr(), uint32(n), 0}
		for len(a) < n {
			a = append(a, uint32(t.WorkerIndex(c)*100+len(a)))
		}
		return a
	}
	takesArguments(t, b, k)
}

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

func irregular(t *rig.T, s coreSet) {
	on := s.of(t.Grid())
	b := t.PerWorker(64)
	prog := t.StoreProgram(s.name, t.Grid(), b, 0x77000000)
	prog.Kernels[0].Cores = on
	x := t.Load(prog)
	n := len(pick(t.Grid(), func(x, y int) bool { return chip.Core{X: x, Y: y}.In(on) }))
	rig.Equal(t, x.Cores(), n, "cores of the program")
	for range 3 {
		t.RunAndWait(x)
	}
	t.WantWords(s.name, b, 0, func(c chip.Core) uint32 {
		if c.In(on) {
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
	t.RunProgram(prog)
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
		t.RunProgram(prog)
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
			t.RunProgram(prog)
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
		prog.Kernels = []reprise.Kernel{{Name: "wait", Image: t.Kernel(kernels.MulticastWait), Processor: chip.BRISC,
			Cores: []chip.Range{g},
			Args:  func(c chip.Core) []uint32 { return []uint32{b.Addr(), 4, uint32(id), b.Addr() + 4} }}}
		all := make([]byte, b.Size())
		for i := range g.Size() {
			rig.PutWord(all[i*b.PageSize():], uint32(i+id))
		}
		t.Write(b, all)
		t.RunProgram(prog)
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
