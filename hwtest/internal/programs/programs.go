// Package programs has the cases of programs: kernels, arguments, circular buffers, semaphores.
package programs

import (
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/kernels"
)

// Cases are the cases of layer programs.
func Cases() (cs rig.Table) {
	rig.Each(&cs, "%v alone", "each processor runs a kernel while the others rest", alone, rig.Processors()...)
	rig.Pairs(&cs, "%d unique and %d common arguments on %v", "every core gets its own unique arguments and all get the common ones",
		func(t *rig.T, n [2]int, p chip.Processor) { Arguments(t, p, n[0], n[1]) },
		[][2]int{{3, 0}, {4, 0}, {5, 1}, {3, 338}, {341, 0}, {340, 1}, {339, 2}, {170, 171}, {64, 64}}, []chip.Processor{chip.BRISC, chip.TRISC1})
	rig.Each(&cs, "%d common arguments alone", "a kernel may have common arguments only", CommonOnly, 2, 3, 4, 5, 16, 340, 341)
	rig.Each(&cs, "%d unique and %d common arguments are refused", "more arguments than fit are a *ProgramError that names the kernel",
		tooManyArguments, [][2]int{{342, 0}, {0, 342}, {341, 1}, {1, 341}, {10000, 0}}...)
	for _, s := range coreSets() {
		cs.Add("cores: "+s.name, "a program runs on exactly its cores, whatever shape they make", func(t *rig.T) { irregular(t, s) })
	}
	rig.Pairs(&cs, "pipeline over %[4]v, %[1]d pages of %[2]d, %[3]d deep", "circular buffers hand on pages in order, whatever their depth",
		func(t *rig.T, n [3]int, p chip.Processor) { KernelChain(t, []chip.Processor{p}, n[1], n[0], n[2]) },
		[][3]int{{1, 64, 1}, {40, 64, 2}, {33, 1024, 3}, {12, 4096, 8}, {100, 2048, 16}, {5, 16384, 2}}, []chip.Processor{chip.TRISC0, chip.TRISC2})
	rig.Each(&cs, "kernel multicast of %d bytes", "a kernel's multicast reaches all cores before its semaphore does",
		KernelMulticast, 16, 1024, 8192, 60000)
	rig.Each(&cs, "ping-pong of %d turns", "semaphores carry turns between the farthest cores", PingPong, 1, 2, 100)
	rig.Each(&cs, "kernel text %d bytes below the limit", "kernels up to the whole of the kernel-config memory arrive whole",
		func(t *rig.T, free int) { LongText(t, free, []chip.Processor{chip.BRISC}) }, 0, 16, 4096, 60<<10)
	for _, e := range programErrors() {
		cs.Add("refused: "+e.name, "a program that can't run is a *ProgramError, and nothing stays allocated",
			func(t *rig.T) { refused(t, e.change) })
	}
	cs.Add("second run has fresh data", "static data of a kernel begin anew with every run", FreshData)
	cs.Add("other network", "a BRISC kernel may take either network", OtherNetwork)
	cs.Add("argument counts differ by core", "cores may have different numbers of arguments", differingArguments)
	cs.Add("five texts up to the limit", "five long kernels share the kernel-config memory",
		func(t *rig.T) { LongText(t, 1024, rig.Processors()) })
	cs.Add("text beyond the limit", "kernels that don't fit are a *ProgramError", textBeyond)
	cs.Add("commands longer than a fetch entry", "a program's commands may span several entries", LongCommands)
	cs.Add("several kernel groups", "rows of cores run different kernels of one program", kernelGroups)
	cs.Add("pipeline over three compute processors", "circular buffers chain all five processors of a tile", func(t *rig.T) {
		KernelChain(t, []chip.Processor{chip.TRISC0, chip.TRISC1, chip.TRISC2}, 1024, 20, 2)
	})
	cs.Add("copy by one processor", "a data-movement kernel alone copies an interleaved buffer", CopyBuffer)
	cs.Add("chain through all cores", "a word handed from core to core passes each exactly once", Chain)
	cs.Add("sixteen semaphores", "all semaphores of a core are separate words with their initial values", sixteenSemaphores)
	cs.Add("config ring wraps", "programs of changing size follow each other around the kernel-config ring", func(t *rig.T) { ConfigRing(t, t.Size(400, 60)) })
	cs.Add("thousands of runs", "nothing runs out in thousands of runs without a wait", thousandsOfRuns)
	cs.Add("close one of two", "closing a program frees its memory and leaves others as they are", closeOne)
	cs.Add("no kernel at all on a core", "cores without a kernel report completion too", EmptyCores)
	cs.Add("used after close", "a closed program isn't run", usedAfterClose)
	return cs
}

func alone(t *rig.T, p chip.Processor) {
	b := t.PerWorker(64)
	prog := t.StoreProgram("alone", t.Grid(), b, 0x1000)
	prog.Kernels[0].Processor = p
	t.RunAndWait(t.Load(prog))
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
		t.RunAndWait(t.Load(t.CopyProgram("copy", p, t.Grid().End, in, out, room)))
		t.Holds(out, data, "copied by %v", p)
	}
}

func thousandsOfRuns(t *rig.T) {
	f := t.Follow()
	x := f.Load("again", 3, chip.Grid(2, 2))
	for range t.Size(t.More(2000, 100_000), 300) {
		f.Start(x)
	}
	f.Check("mixed")
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

func usedAfterClose(t *rig.T) {
	x := t.Load(t.BlankProgram("gone"))
	t.Release(x)
	_, captured := t.Record("t", rig.Running(x))
	for op, err := range map[string]error{"run": t.Queue.Run(t.Ctx, x), "close": x.Release(t.Ctx), "capture": captured} {
		t.Fails(op, err, reprise.ErrReleased)
		t.Says(err, `"gone"`, "it has been released already")
	}
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
	t.RunAndWait(t.Load(rig.OneKernel(k, b)))
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
	t.RunAndWait(t.Load(rig.OneKernel(k, b)))
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
