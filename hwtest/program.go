package hwtest

import (
	"embed"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kernels"
)

//go:embed kernels/prebuilt
var prebuilt embed.FS

// own loads one of the suite's own kernels.
func (t *fixture) own(name string) *kernels.Image {
	t.Helper()
	file, err := prebuilt.ReadFile("kernels/prebuilt/" + t.dev.Arch().String() + "/" + name + ".elf")
	t.ok(err)
	im, err := kernels.Load(file)
	t.ok(err)
	return im
}

// processors are those of a worker.
func processors() []reprise.Processor {
	return []reprise.Processor{reprise.BRISC, reprise.NCRISC, reprise.TRISC0, reprise.TRISC1, reprise.TRISC2}
}

func programCases() []testCase {
	var cs []testCase
	for _, p := range processors() {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("%v alone", p),
			protects: "each processor runs a kernel while the others rest",
			fn:       func(t *fixture) { alone(t, p) },
		})
	}
	for _, a := range []struct{ unique, common int }{{3, 0}, {4, 0}, {5, 1}, {3, 338}, {341, 0}, {340, 1}, {339, 2}, {170, 171}, {64, 64}} {
		for _, p := range []reprise.Processor{reprise.BRISC, reprise.TRISC1} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("%d unique and %d common arguments on %v", a.unique, a.common, p),
				protects: "every core gets its own unique arguments and all get the common ones",
				fn:       func(t *fixture) { arguments(t, p, a.unique, a.common) },
			})
		}
	}
	for _, n := range []int{2, 3, 4, 5, 16, 340, 341} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("%d common arguments alone", n),
			protects: "a kernel may have common arguments only",
			fn:       func(t *fixture) { commonOnly(t, n) },
		})
	}
	for _, a := range []struct{ unique, common int }{{342, 0}, {0, 342}, {341, 1}, {1, 341}, {10000, 0}} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("%d unique and %d common arguments are refused", a.unique, a.common),
			protects: "more arguments than fit are a *ProgramError that names the kernel",
			fn:       func(t *fixture) { tooManyArguments(t, a.unique, a.common) },
		})
	}
	for name := range coreSets() {
		cs = append(cs, testCase{
			name:     "cores: " + name,
			protects: "a program runs on exactly its cores, whatever shape they make",
			fn:       func(t *fixture) { irregular(t, name) },
		})
	}
	for _, g := range []struct{ page, pages, depth int }{{64, 1, 1}, {64, 40, 2}, {1024, 33, 3}, {4096, 12, 8}, {2048, 100, 16}, {16384, 5, 2}} {
		for _, p := range []reprise.Processor{reprise.TRISC0, reprise.TRISC2} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("pipeline over %v, %d pages of %d, %d deep", p, g.pages, g.page, g.depth),
				protects: "circular buffers hand pages from reader to compute to writer, in order, whatever their depth",
				fn:       func(t *fixture) { pipeline(t, []reprise.Processor{p}, g.page, g.pages, g.depth) },
			})
		}
	}
	for _, bytes := range []int{16, 1024, 8192, 60000} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("kernel multicast of %d bytes", bytes),
			protects: "a kernel's multicast reaches all cores of its rectangle before its semaphore does",
			fn:       func(t *fixture) { kernelMulticast(t, bytes) },
		})
	}
	for _, turns := range []int{1, 2, 100} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("ping-pong of %d turns", turns),
			protects: "semaphores carry turns between the farthest cores",
			fn:       func(t *fixture) { pingPong(t, turns) },
		})
	}
	for _, free := range []int{0, 16, 4096, 60 << 10} {
		cs = append(cs, testCase{
			name:     fmt.Sprintf("kernel text %d bytes below the limit", free),
			protects: "kernels up to the whole of the kernel-config memory arrive whole",
			fn:       func(t *fixture) { longText(t, free, []reprise.Processor{reprise.BRISC}) },
		})
	}
	for _, e := range programErrors() {
		cs = append(cs, testCase{
			name:     "refused: " + e.name,
			protects: "a program that can't run is a *ProgramError before anything is allocated for good",
			fn:       func(t *fixture) { refused(t, e.change) },
		})
	}
	return append(cs, []testCase{
		{name: "all five processors at once", protects: "five kernels of one tile run beside each other", fn: allFive},
		{name: "who am I", protects: "every kernel finds its own coordinates, its network and fresh static data", fn: whoAmI},
		{name: "second run has fresh data", protects: "static data of a kernel begin anew with every run", fn: freshData},
		{name: "other network", protects: "a BRISC kernel may take either network", fn: otherNetwork},
		{name: "argument counts differ by core", protects: "cores may have different numbers of arguments", fn: differingArguments},
		{name: "five texts up to the limit", protects: "five long kernels share the kernel-config memory", fn: func(t *fixture) { longText(t, 1024, processors()) }},
		{name: "text beyond the limit", protects: "kernels that don't fit are a *ProgramError that says how much room there is", fn: textBeyond},
		{name: "commands longer than a fetch entry", protects: "a program's commands may span several entries", fn: longCommands},
		{name: "several kernel groups", protects: "rows of cores run different kernels of one program", fn: kernelGroups},
		{name: "pipeline over three compute processors", protects: "circular buffers chain all five processors of a tile", fn: func(t *fixture) {
			pipeline(t, []reprise.Processor{reprise.TRISC0, reprise.TRISC1, reprise.TRISC2}, 1024, 20, 2)
		}},
		{name: "copy by one processor", protects: "a data-movement kernel alone copies an interleaved buffer", fn: copyBuffer},
		{name: "chain through all cores", protects: "a word handed from core to core passes each exactly once", fn: chain},
		{name: "sixteen semaphores", protects: "all semaphores of a core are separate words with their initial values", fn: sixteenSemaphores},
		{name: "config ring wraps", protects: "programs of changing size follow each other around the kernel-config ring", fn: configRing},
		{name: "thousands of runs", protects: "nothing runs out in thousands of runs without a wait", fn: thousandsOfRuns},
		{name: "two programs alternate", protects: "each run takes its own program's kernels and arguments", fn: alternate},
		{name: "close one of two", protects: "closing a program leaves others as they are and gives its memory back", fn: closeOne},
		{name: "no kernel at all on a core", protects: "cores without a kernel report back all the same", fn: emptyCores},
		{name: "used after close", protects: "a closed program isn't run", fn: usedAfterClose},
	}...)
}

// runAndWait runs a program to its end.
func (t *fixture) runAndWait(x *reprise.Executable) {
	t.Helper()
	t.ok(t.rq.Run(t.ctx, x))
	t.ok(t.rq.Finish(t.ctx))
}

func alone(t *fixture, p reprise.Processor) {
	b := t.perWorker(64)
	prog := t.storeProgram("alone", t.grid(), b, 0x1000)
	prog.Kernels[0].Processor = p
	t.runAndWait(t.load(prog))
	t.wantWords("stored", b, 0, func(c reprise.Core) uint32 { return 0x1000 + uint32(t.workerIndex(c)) })
}

func allFive(t *fixture) {
	b := t.perWorker(64)
	prog := &reprise.Program{Name: "five", Buffers: []*reprise.Buffer{b}}
	for i, p := range processors() {
		prog.Kernels = append(prog.Kernels, reprise.Kernel{
			Name: p.String(), Image: t.kernel(kernels.Store), Processor: p, Cores: []reprise.Range{t.grid()}, Common: []uint32{uint32(i) << 16},
			Args: func(c reprise.Core) []uint32 { return []uint32{b.Addr() + uint32(4*i), 1, uint32(t.workerIndex(c))} },
		})
	}
	t.runAndWait(t.load(prog))
	for i := range processors() {
		t.wantWords(processors()[i].String(), b, i, func(c reprise.Core) uint32 { return uint32(i)<<16 + uint32(t.workerIndex(c)) })
	}
}

// whoProgram runs the who kernel on all processors of all cores.
func (t *fixture) whoProgram(b *reprise.Buffer, noc reprise.NOC) *reprise.Program {
	prog := &reprise.Program{Name: "who", Buffers: []*reprise.Buffer{b}}
	for _, p := range processors() {
		prog.Kernels = append(prog.Kernels, reprise.Kernel{
			Name: p.String(), Image: t.own("who"), Processor: p, Cores: []reprise.Range{t.grid()}, NOC: noc,
			Args: func(reprise.Core) []uint32 { return []uint32{b.Addr()} },
		})
	}
	return prog
}

func (t *fixture) checkWho(b *reprise.Buffer, noc reprise.NOC, runs uint32) {
	t.Helper()
	for i, p := range processors() {
		word := func(k int) int { return 16*i + k }
		t.wantWords(fmt.Sprintf("%v number", p), b, word(0), func(reprise.Core) uint32 { return uint32(p) })
		t.wantWords(fmt.Sprintf("%v x", p), b, word(1), func(c reprise.Core) uint32 { return uint32(c.X) })
		t.wantWords(fmt.Sprintf("%v y", p), b, word(2), func(c reprise.Core) uint32 { return uint32(c.Y) })
		first, second := t.words(b, word(3)), t.words(b, word(4))
		seen := map[uint32]bool{}
		for k := range first {
			if first[k] != second[k] || seen[first[k]] {
				t.Errorf("%v of core %d: virtual coordinate %#x on one network, %#x on the other", p, k, first[k], second[k])
			}
			seen[first[k]] = true
		}
		if p <= reprise.NCRISC {
			t.wantWords(fmt.Sprintf("%v network", p), b, word(5), func(reprise.Core) uint32 { return uint32(noc) ^ uint32(p) })
		}
		t.wantWords(fmt.Sprintf("%v initialized data", p), b, word(6), func(reprise.Core) uint32 { return 0x600D600D })
		t.wantWords(fmt.Sprintf("%v cleared data", p), b, word(7), func(reprise.Core) uint32 { return 0 })
		t.wantWords(fmt.Sprintf("%v runs", p), b, word(8), func(reprise.Core) uint32 { return runs })
	}
}

func whoAmI(t *fixture) {
	b := t.perWorker(64 * len(processors()))
	t.runAndWait(t.load(t.whoProgram(b, 0)))
	t.checkWho(b, 0, 1)
}

func freshData(t *fixture) {
	b := t.perWorker(64 * len(processors()))
	x := t.load(t.whoProgram(b, 0))
	for range 9 {
		t.ok(t.rq.Run(t.ctx, x))
	}
	t.ok(t.rq.Finish(t.ctx))
	t.checkWho(b, 0, 9)
}

func otherNetwork(t *fixture) {
	b := t.perWorker(64 * len(processors()))
	t.runAndWait(t.load(t.whoProgram(b, 1)))
	t.checkWho(b, 1, 1)
}

func arguments(t *fixture, p reprise.Processor, unique, common int) {
	b := t.perWorker(4 * (unique + common))
	k := reprise.Kernel{Name: "args", Image: t.own("args"), Processor: p, Cores: []reprise.Range{t.grid()}}
	for i := range common {
		k.Common = append(k.Common, 0xC0000000+uint32(i))
	}
	k.Args = func(c reprise.Core) []uint32 {
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
	k := reprise.Kernel{Name: "common", Image: t.own("common"), Processor: reprise.NCRISC, Cores: []reprise.Range{t.grid()}, Common: []uint32{b.Addr(), uint32(n)}}
	for len(k.Common) < n {
		k.Common = append(k.Common, 0xAB0000+uint32(len(k.Common)))
	}
	t.runAndWait(t.load(&reprise.Program{Name: "common", Kernels: []reprise.Kernel{k}, Buffers: []*reprise.Buffer{b}}))
	for _, i := range []int{0, 1, n / 2, n - 1} {
		t.wantWords(fmt.Sprintf("argument %d", i), b, i, func(reprise.Core) uint32 { return k.Common[i] })
	}
}

// wantProgramError loads a program that must be refused, and checks that nothing stays allocated.
func (t *fixture) wantProgramError(p *reprise.Program) {
	t.Helper()
	before := t.allocated()
	x, err := t.dev.Load(t.ctx, p)
	if err == nil {
		t.ok(x.Close(t.ctx))
		t.Fatal("it was loaded")
	}
	var perr *reprise.ProgramError
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

func tooManyArguments(t *fixture, unique, common int) {
	k := reprise.Kernel{Name: "args", Image: t.own("args"), Processor: reprise.BRISC, Cores: []reprise.Range{t.grid()}, Common: make([]uint32, common)}
	k.Args = func(reprise.Core) []uint32 { return make([]uint32, unique) }
	t.wantProgramError(&reprise.Program{Name: "too many", Kernels: []reprise.Kernel{k}})
}

func differingArguments(t *fixture) {
	b := t.perWorker(4 * 64)
	k := reprise.Kernel{Name: "args", Image: t.own("args"), Processor: reprise.BRISC, Cores: []reprise.Range{t.grid()}}
	k.Args = func(c reprise.Core) []uint32 {
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

// coreSets are shapes of sets of cores.
func coreSets() map[string]func(reprise.Range) []reprise.Range {
	return map[string]func(reprise.Range) []reprise.Range{
		"one": func(g reprise.Range) []reprise.Range { return []reprise.Range{chip.Single(g.End)} },
		"corners": func(g reprise.Range) []reprise.Range {
			return pick(g, func(x, y int) bool { return (x == 0 || x == g.End.X) && (y == 0 || y == g.End.Y) })
		},
		"diagonal": func(g reprise.Range) []reprise.Range {
			return pick(g, func(x, y int) bool { return x == y })
		},
		"checkerboard": func(g reprise.Range) []reprise.Range { return pick(g, func(x, y int) bool { return (x+y)%2 == 0 }) },
		"ring": func(g reprise.Range) []reprise.Range {
			return pick(g, func(x, y int) bool { return x == 0 || y == 0 || x == g.End.X || y == g.End.Y })
		},
		"L": func(g reprise.Range) []reprise.Range {
			return []reprise.Range{rectangle(g, "column"), {Start: chip.Core{X: 1, Y: g.End.Y}, End: g.End}}
		},
		"odd columns": func(g reprise.Range) []reprise.Range { return pick(g, func(x, y int) bool { return x%2 == 1 }) },
		"all but one": func(g reprise.Range) []reprise.Range { return pick(g, func(x, y int) bool { return x != 3 || y != 4 }) },
	}
}

// pick makes a range of each core of a grid that a predicate names.
func pick(g reprise.Range, in func(x, y int) bool) []reprise.Range {
	var out []reprise.Range
	for c := range g.Cores() {
		if in(c.X, c.Y) {
			out = append(out, chip.Single(c))
		}
	}
	return out
}

func contains(rs []reprise.Range, c reprise.Core) bool {
	for _, r := range rs {
		if r.Contains(c) {
			return true
		}
	}
	return false
}

func irregular(t *fixture, name string) {
	on := coreSets()[name](t.grid())
	b := t.perWorker(64)
	prog := t.storeProgram(name, t.grid(), b, 0x77000000)
	prog.Kernels[0].Cores = on
	x := t.load(prog)
	n := 0
	for c := range t.grid().Cores() {
		if contains(on, c) {
			n++
		}
	}
	if x.Cores() != n {
		t.Errorf("the program says that it runs on %d cores, want %d", x.Cores(), n)
	}
	for range 3 {
		t.runAndWait(x)
	}
	t.wantWords(name, b, 0, func(c reprise.Core) uint32 {
		if contains(on, c) {
			return 0x77000000 + uint32(t.workerIndex(c))
		}
		return 0
	})
}

func kernelGroups(t *fixture) {
	b := t.perWorker(64)
	prog := &reprise.Program{Name: "groups", Buffers: []*reprise.Buffer{b}}
	g := t.grid()
	// Row y runs the store kernel on processor y mod 5 with a number of its own; odd columns another one on the next.
	for y := range g.End.Y + 1 {
		row := reprise.Range{Start: chip.Core{Y: y}, End: chip.Core{X: g.End.X, Y: y}}
		prog.Kernels = append(prog.Kernels, reprise.Kernel{
			Name: fmt.Sprintf("row %d", y), Image: t.kernel(kernels.Store), Processor: processors()[y%5], Cores: []reprise.Range{row}, Common: []uint32{uint32(y) << 8},
			Args: func(c reprise.Core) []uint32 { return []uint32{b.Addr(), 1, uint32(c.X)} },
		}, reprise.Kernel{
			Name: fmt.Sprintf("odd %d", y), Image: t.own("mix"), Processor: processors()[(y+1)%5], Common: []uint32{5},
			Cores: pick(row, func(x, _ int) bool { return x%2 == 1 }),
			Args:  func(c reprise.Core) []uint32 { return []uint32{b.Addr() + 4, uint32(c.X)} },
		})
	}
	t.runAndWait(t.load(prog))
	t.wantWords("by row", b, 0, func(c reprise.Core) uint32 { return uint32(c.Y<<8 + c.X) })
	t.wantWords("odd columns", b, 1, func(c reprise.Core) uint32 {
		if c.X%2 == 1 {
			return uint32(c.X) + 5
		}
		return 0
	})
}

// pipeline passes pages through a circular buffer, some compute processors that each add 1, and others back to DRAM, on
// several cores at once.
func pipeline(t *fixture, via []reprise.Processor, size, pages, depth int) {
	cores := reprise.Range{End: chip.Core{X: 2, Y: 1}}
	per := pages
	in, out := t.buffer(reprise.DRAM, per*cores.Size()*size, size), t.buffer(reprise.DRAM, per*cores.Size()*size, size)
	data := pattern(uint32(size), in.Size())
	t.ok(t.rq.Write(t.ctx, in, 0, data))
	on := []reprise.Range{cores}
	first := func(c reprise.Core) uint32 { return uint32((c.Y*3 + c.X) * per) }
	prog := &reprise.Program{Name: "pipeline", Buffers: []*reprise.Buffer{in, out}}
	prog.Kernels = []reprise.Kernel{
		{Name: "reader", Image: t.kernel(kernels.CopyReader), Processor: reprise.BRISC, Cores: on, Args: func(c reprise.Core) []uint32 {
			return []uint32{in.Addr(), first(c), uint32(per), in.PageStride(), 0}
		}},
		{Name: "writer", Image: t.kernel(kernels.CopyWriter), Processor: reprise.NCRISC, Cores: on, Args: func(c reprise.Core) []uint32 {
			return []uint32{out.Addr(), first(c), uint32(per), out.PageStride(), uint32(len(via))}
		}},
	}
	prog.CircularBuffers = append(prog.CircularBuffers, reprise.CircularBuffer{Index: 0, Cores: on, PageSize: size, Pages: depth})
	for i, p := range via {
		prog.Kernels = append(prog.Kernels, reprise.Kernel{Name: fmt.Sprintf("add %d", i), Image: t.kernel(kernels.Add), Processor: p, Cores: on,
			Args: func(reprise.Core) []uint32 { return []uint32{uint32(i), uint32(i + 1), uint32(per), 1} }})
		prog.CircularBuffers = append(prog.CircularBuffers, reprise.CircularBuffer{Index: i + 1, Cores: on, PageSize: size, Pages: depth})
	}
	x := t.load(prog)
	for range 2 {
		t.runAndWait(x)
	}
	want := make([]byte, 0, len(data))
	for i := 0; i < len(data); i += 4 {
		want = binary.LittleEndian.AppendUint32(want, binary.LittleEndian.Uint32(data[i:])+uint32(len(via)))
	}
	t.same("through the pipeline", want, t.readAll(out))
}

func copyBuffer(t *fixture) {
	const size, pages = 512, 100
	in, out := t.buffer(reprise.DRAM, pages*size, size), t.buffer(reprise.DRAM, pages*size, size)
	room := t.perWorker(size)
	data := pattern(4, in.Size())
	t.ok(t.rq.Write(t.ctx, in, 0, data))
	for _, p := range []reprise.Processor{reprise.BRISC, reprise.NCRISC} {
		t.ok(t.rq.Write(t.ctx, out, 0, make([]byte, out.Size())))
		t.runAndWait(t.load(&reprise.Program{Name: "copy", Buffers: []*reprise.Buffer{in, out, room}, Kernels: []reprise.Kernel{{
			Name: "copy", Image: t.kernel(kernels.Copy), Processor: p, Cores: []reprise.Range{chip.Single(t.grid().End)},
			Args: func(reprise.Core) []uint32 {
				return []uint32{in.Addr(), out.Addr(), 0, pages, in.PageStride(), room.Addr()}
			},
		}}}))
		t.same(fmt.Sprintf("copied by %v", p), data, t.readAll(out))
	}
}

// xy is a core's virtual coordinate.
func (t *fixture) xy(c reprise.Core) (x, y uint32) {
	t.Helper()
	if t.ch == nil {
		// What a device without harvesting would need isn't enough: ask the device's own kernels.
		t.learnCoordinates()
	}
	v := t.virtual(c)
	return uint32(v.X), uint32(v.Y)
}

// learnCoordinates finds out the chip's harvesting by its grid: virtual coordinates depend on nothing else.
func (t *fixture) learnCoordinates() {
	t.Helper()
	g := t.grid()
	for n := range 6 {
		ch, err := chip.New(t.dev.Arch(), chip.Harvesting{Tensix: 1<<n - 1})
		t.ok(err)
		w, h := ch.Grid()
		if (t.dev.Arch() == chip.Wormhole && h-2 == g.End.Y) || (t.dev.Arch() == chip.Blackhole && w-2 == g.End.X) {
			t.ch = ch
			return
		}
	}
	t.Fatalf("no %v has a grid of %v", t.dev.Arch(), g)
}

func kernelMulticast(t *fixture, bytes int) {
	g := t.grid()
	b, sum := t.perWorker((bytes+15)&^15), t.perWorker(16)
	data := pattern(uint32(bytes), bytes&^3)
	for _, sender := range []reprise.Core{g.Start, g.End, {X: 3, Y: 4}} {
		all := make([]byte, b.Size())
		copy(all[t.workerIndex(sender)*b.PageSize():], data)
		t.ok(t.rq.Write(t.ctx, b, 0, all))
		x0, y0 := t.xy(g.Start)
		x1, y1 := t.xy(g.End)
		prog := &reprise.Program{Name: "multicast", Buffers: []*reprise.Buffer{b, sum}, Semaphores: []reprise.Semaphore{{ID: 3, Cores: []reprise.Range{g}}}}
		prog.Kernels = []reprise.Kernel{
			{Name: "send", Image: t.kernel(kernels.MulticastSend), Processor: reprise.BRISC, Cores: []reprise.Range{chip.Single(sender)},
				Args: func(reprise.Core) []uint32 {
					return []uint32{x0, y0, x1, y1, uint32(g.Size()), b.Addr(), uint32(len(data)), 3}
				}},
			{Name: "wait", Image: t.kernel(kernels.MulticastWait), Processor: reprise.NCRISC, Cores: []reprise.Range{g},
				Args: func(reprise.Core) []uint32 { return []uint32{b.Addr(), uint32(len(data)), 3, sum.Addr()} }},
		}
		t.runAndWait(t.load(prog))
		var want uint32
		for i := 0; i < len(data); i += 4 {
			want += binary.LittleEndian.Uint32(data[i:])
		}
		t.wantWords(fmt.Sprintf("from %v", sender), sum, 0, func(reprise.Core) uint32 { return want })
	}
}

func pingPong(t *fixture, turns int) {
	b := t.perWorker(16)
	all := t.corners()
	for _, pair := range [][2]reprise.Core{{all[0], all[3]}, {all[1], all[2]}, {all[0], {X: 1}}} {
		for _, p := range []reprise.Processor{reprise.BRISC, reprise.NCRISC} {
			prog := &reprise.Program{Name: "ping-pong", Buffers: []*reprise.Buffer{b},
				Semaphores: []reprise.Semaphore{{ID: 7, Cores: []reprise.Range{chip.Single(pair[0]), chip.Single(pair[1])}}}}
			for i, c := range pair {
				x, y := t.xy(pair[1-i])
				prog.Kernels = append(prog.Kernels, reprise.Kernel{Name: fmt.Sprint(c), Image: t.kernel(kernels.PingPong), Processor: p, Cores: []reprise.Range{chip.Single(c)},
					Args: func(reprise.Core) []uint32 { return []uint32{x, y, 7, uint32(turns), uint32(1 - i), b.Addr()} }})
			}
			t.ok(t.rq.Write(t.ctx, b, 0, make([]byte, b.Size())))
			t.runAndWait(t.load(prog))
			t.wantWords("turns", b, 0, func(c reprise.Core) uint32 {
				if c == pair[0] || c == pair[1] {
					return uint32(turns)
				}
				return 0
			})
		}
	}
}

func chain(t *fixture) {
	b := t.perWorker(16)
	g := t.grid()
	var order []reprise.Core // row by row, there and back
	for y := range g.End.Y + 1 {
		for x := range g.End.X + 1 {
			if y%2 == 1 {
				x = g.End.X - x
			}
			order = append(order, reprise.Core{X: x, Y: y})
		}
	}
	next := map[reprise.Core]reprise.Core{}
	for i := range order[1:] {
		next[order[i]] = order[i+1]
	}
	x := t.load(&reprise.Program{Name: "chain", Buffers: []*reprise.Buffer{b}, Semaphores: []reprise.Semaphore{{ID: 0, Cores: []reprise.Range{g}}}, Kernels: []reprise.Kernel{{
		Name: "relay", Image: t.own("relay"), Processor: reprise.BRISC, Cores: []reprise.Range{g},
		Args: func(c reprise.Core) []uint32 {
			nx, ny := t.xy(next[c])
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
	for round := range t.size(5, 2) {
		t.ok(t.rq.Write(t.ctx, b, 0, make([]byte, b.Size())))
		t.runAndWait(x)
		got := t.words(b, 0)
		for i, c := range order {
			if got[t.workerIndex(c)] != uint32(i+1) {
				t.Fatalf("round %d: core %v, number %d of the chain, has %d", round, c, i, got[t.workerIndex(c)])
			}
		}
	}
}

// sixteenSemaphores has a kernel look at the semaphores as memory: they lie where the launch message says, 16 B apart.
func sixteenSemaphores(t *fixture) {
	b := t.perWorker(16)
	g := t.grid()
	for _, id := range []int{0, 1, 15} {
		prog := &reprise.Program{Name: "semaphores", Buffers: []*reprise.Buffer{b}}
		for i := range dispatch.MaxSemaphores {
			v := uint32(0)
			if i == id {
				v = 1 // the others' waiters would hang
			}
			prog.Semaphores = append(prog.Semaphores, reprise.Semaphore{ID: i, Cores: []reprise.Range{g}, Initial: v})
		}
		prog.Kernels = []reprise.Kernel{{Name: "wait", Image: t.kernel(kernels.MulticastWait), Processor: reprise.BRISC, Cores: []reprise.Range{g},
			Args: func(c reprise.Core) []uint32 { return []uint32{b.Addr(), 4, uint32(id), b.Addr() + 4} }}}
		all := make([]byte, b.Size())
		for i := range g.Size() {
			binary.LittleEndian.PutUint32(all[i*b.PageSize():], uint32(i+id))
		}
		t.ok(t.rq.Write(t.ctx, b, 0, all))
		t.runAndWait(t.load(prog))
		t.wantWords("sum", b, 1, func(c reprise.Core) uint32 { return uint32(t.workerIndex(c) + id) })
	}
}

// padded is an image made longer by text that is never run.
func padded(im *kernels.Image, n int) *kernels.Image {
	out := *im
	out.Text = append(append([]byte(nil), im.Text...), pattern(uint32(n), n-len(im.Text))...)
	return &out
}

func longText(t *fixture, free int, on []reprise.Processor) {
	b := t.perWorker(64)
	// Beside the texts there are two unique arguments each, and alignment.
	limit := int(t.p.L1.KernelConfigSize) - 64*((16*len(on)+63)/64)
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
		prog.Kernels = append(prog.Kernels, reprise.Kernel{Name: p.String(), Image: im, Processor: p, Cores: []reprise.Range{chip.Single(t.grid().Start), chip.Single(t.grid().End)},
			Args: func(reprise.Core) []uint32 { return []uint32{b.Addr() + uint32(4*i), uint32(len(im.Text) / 4)} }})
	}
	x := t.load(prog)
	for range 3 {
		t.runAndWait(x)
	}
	for i, p := range on {
		got := t.words(b, i)
		for _, c := range []reprise.Core{t.grid().Start, t.grid().End} {
			if g := got[t.workerIndex(c)]; g != want[i] {
				t.Errorf("%v of core %v: sum %#x, want %#x", p, c, g, want[i])
			}
		}
	}
}

func textBeyond(t *fixture) {
	for _, over := range []int{16, 64, 100_000, 1 << 20} {
		im := padded(t.own("sum_text"), int(t.p.L1.KernelConfigSize)+over)
		t.wantProgramError(&reprise.Program{Name: "too long", Kernels: []reprise.Kernel{{Name: "k", Image: im, Processor: reprise.BRISC, Cores: []reprise.Range{t.grid()}}}})
	}
}

func longCommands(t *fixture) {
	b := t.perWorker(64 * len(processors()))
	prog := &reprise.Program{Name: "long commands", Buffers: []*reprise.Buffer{b}}
	for i, p := range processors() {
		prog.Kernels = append(prog.Kernels, reprise.Kernel{Name: p.String(), Image: t.kernel(kernels.Store), Processor: p, Cores: []reprise.Range{t.grid()}, Common: []uint32{0},
			Args: func(c reprise.Core) []uint32 {
				a := []uint32{b.Addr() + uint32(64*i), 16}
				for len(a) < 340 {
					a = append(a, uint32(t.workerIndex(c))<<12+uint32(i)<<8+uint32(len(a)))
				}
				return a
			}})
	}
	x := t.load(prog)
	if x.CommandBytes() > 64<<10 {
		t.Fatalf("the commands have %d bytes: the arguments don't lie beside the kernels", x.CommandBytes())
	}
	t.ok(t.rq.Run(t.ctx, x))
	// Once arguments have changed, they all are among the commands.
	t.ok(x.SetArgs(processors()[0].String(), func(_ reprise.Core, args []uint32) { args[339]++ }))
	if x.CommandBytes() < 256<<10 {
		t.Fatalf("the commands have %d bytes: not more than an entry", x.CommandBytes())
	}
	for range 4 {
		t.ok(t.rq.Run(t.ctx, x))
	}
	t.ok(t.rq.Finish(t.ctx))
	for i := range processors() {
		for _, w := range []int{0, 15} {
			t.wantWords(fmt.Sprintf("%v word %d", processors()[i], w), b, 16*i+w, func(c reprise.Core) uint32 {
				return uint32(t.workerIndex(c))<<12 + uint32(i)<<8 + uint32(2+w)
			})
		}
	}
}

// mixProgram mixes a number of its own into a word of some cores, and has kernels of a given length.
func (t *fixture) mixProgram(name string, on reprise.Range, b *reprise.Buffer, number uint32, size int) *reprise.Program {
	t.Helper()
	im := t.own("mix")
	if size > len(im.Text) {
		im = padded(im, size)
	}
	return &reprise.Program{Name: name, Buffers: []*reprise.Buffer{b}, Kernels: []reprise.Kernel{{
		Name: "mix", Image: im, Processor: reprise.BRISC, Cores: []reprise.Range{on}, Common: []uint32{number},
		Args: func(c reprise.Core) []uint32 { return []uint32{b.Addr(), uint32(t.workerIndex(c))} },
	}}}
}

// mixed is what mixProgram does to a word.
func mixed(v, number uint32, index int) uint32 { return v*1664525 + uint32(index) + number }

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
	t.ok(t.rq.Finish(t.ctx))
	t.wantWords("mixed", b, 0, func(c reprise.Core) uint32 { return want[t.workerIndex(c)] })
}

func thousandsOfRuns(t *fixture) {
	b := t.perWorker(16)
	one := reprise.Range{End: chip.Core{X: 1, Y: 1}}
	x := t.load(t.mixProgram("again", one, b, 3, 0))
	n := t.size(t.more(2000, 100_000), 300)
	want := make([]uint32, t.grid().Size())
	for range n {
		t.ok(t.rq.Run(t.ctx, x))
		for c := range one.Cores() {
			i := t.workerIndex(c)
			want[i] = mixed(want[i], 3, i)
		}
	}
	t.ok(t.rq.Finish(t.ctx))
	t.wantWords("mixed", b, 0, func(c reprise.Core) uint32 { return want[t.workerIndex(c)] })
}

func alternate(t *fixture) {
	b := t.perWorker(16)
	xs := []*reprise.Executable{t.load(t.mixProgram("a", t.grid(), b, 1000, 0)), t.load(t.mixProgram("b", rectangle(t.grid(), "inner"), b, 77, 0))}
	want := make([]uint32, t.grid().Size())
	for i := range 30 {
		k := i % 2
		t.ok(t.rq.Run(t.ctx, xs[k]))
		on := t.grid()
		if k == 1 {
			on = rectangle(t.grid(), "inner")
		}
		for c := range on.Cores() {
			j := t.workerIndex(c)
			want[j] = mixed(want[j], []uint32{1000, 77}[k], j)
		}
	}
	t.ok(t.rq.Finish(t.ctx))
	t.wantWords("mixed", b, 0, func(c reprise.Core) uint32 { return want[t.workerIndex(c)] })
}

func closeOne(t *fixture) {
	b := t.perWorker(16)
	a := t.load(t.mixProgram("a", t.grid(), b, 1, 0))
	before := t.allocated()
	x, err := t.dev.Load(t.ctx, t.mixProgram("b", t.grid(), b, 2, 10_000))
	t.ok(err)
	t.ok(t.rq.Run(t.ctx, x))
	t.ok(x.Close(t.ctx))
	if after := t.allocated(); after != before {
		t.Errorf("allocated before %v, after %v", before, after)
	}
	t.runAndWait(a)
	t.wantWords("mixed", b, 0, func(c reprise.Core) uint32 {
		i := t.workerIndex(c)
		return mixed(mixed(0, 2, i), 1, i)
	})
}

func emptyCores(t *fixture) {
	// A circular buffer and a semaphore where no kernel runs.
	x := t.load(&reprise.Program{Name: "empty",
		Kernels:         []reprise.Kernel{{Name: "blank", Image: t.kernel(kernels.Blank), Processor: reprise.TRISC1, Cores: []reprise.Range{chip.Single(t.grid().End)}}},
		CircularBuffers: []reprise.CircularBuffer{{Index: 31, Cores: []reprise.Range{rectangle(t.grid(), "row")}, PageSize: 16, Pages: 1}},
		Semaphores:      []reprise.Semaphore{{ID: 15, Cores: []reprise.Range{rectangle(t.grid(), "column")}, Initial: 9}},
	})
	for range 20 {
		t.ok(t.rq.Run(t.ctx, x))
	}
	t.ok(t.rq.Finish(t.ctx))
}

func usedAfterClose(t *fixture) {
	x, err := t.dev.Load(t.ctx, &reprise.Program{Name: "gone", Kernels: []reprise.Kernel{{Name: "blank", Image: t.kernel(kernels.Blank), Processor: reprise.BRISC, Cores: []reprise.Range{t.grid()}}}})
	t.ok(err)
	t.ok(x.Close(t.ctx))
	if err := t.rq.Run(t.ctx, x); !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("run: error %v, want ErrReleased", err)
	}
	if err := x.Close(t.ctx); !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("close: error %v, want ErrReleased", err)
	}
	if _, err := t.rq.Capture(t.ctx, "t", func(r *reprise.Recorder) error { return r.Run(x) }); !errors.Is(err, reprise.ErrReleased) {
		t.Errorf("capture: error %v, want ErrReleased", err)
	}
}

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
			p.Kernels[0].Cores = []reprise.Range{{End: chip.Core{X: t.grid().End.X + 1}}}
		}},
		{"negative cores", func(_ *fixture, p *reprise.Program) {
			p.Kernels[0].Cores = []reprise.Range{{Start: chip.Core{X: -1}, End: chip.Core{X: 1}}}
		}},
		{"empty range", func(_ *fixture, p *reprise.Program) {
			p.Kernels[0].Cores = []reprise.Range{{Start: chip.Core{X: 2}, End: chip.Core{X: 1}}}
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
			p.Semaphores = []reprise.Semaphore{{ID: 16, Cores: []reprise.Range{t.grid()}}}
		}},
		{"semaphore -1", func(t *fixture, p *reprise.Program) {
			p.Semaphores = []reprise.Semaphore{{ID: -1, Cores: []reprise.Range{t.grid()}}}
		}},
		{"semaphore twice", func(t *fixture, p *reprise.Program) {
			p.Semaphores = []reprise.Semaphore{{Cores: []reprise.Range{t.grid()}}, {Cores: []reprise.Range{chip.Single(t.grid().End)}}}
		}},
	}
}

func addCB(t *fixture, p *reprise.Program, index, size, pages int) {
	p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: index, Cores: []reprise.Range{t.grid()}, PageSize: size, Pages: pages})
}

func refused(t *fixture, change func(*fixture, *reprise.Program)) {
	p := &reprise.Program{Name: "bad", Kernels: []reprise.Kernel{{Name: "blank", Image: t.kernel(kernels.Blank), Processor: reprise.BRISC, Cores: []reprise.Range{t.grid()}}}}
	change(t, p)
	t.wantProgramError(p)
}
