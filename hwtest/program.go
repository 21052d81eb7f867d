package hwtest

import (
	"embed"
	"encoding/binary"
	"fmt"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/images"
	"github.com/reprise-tt/reprise/kernels"
)

//go:embed kernels/prebuilt
var archives embed.FS

var prebuilt = images.New(archives, "kernels/prebuilt")

// own loads one of the suite's own kernels.
func (t *fixture) own(name string) *kernels.Image {
	t.Helper()
	file, err := prebuilt.ELF(t.dev.Arch(), name)
	t.ok(err)
	im, err := kernels.Load(file)
	t.ok(err)
	return im
}

// processors are those of a worker.
func processors() []chip.Processor {
	return []chip.Processor{chip.BRISC, chip.NCRISC, chip.TRISC0, chip.TRISC1, chip.TRISC2}
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
		for _, p := range []chip.Processor{chip.BRISC, chip.TRISC1} {
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
	for _, g := range []struct{ page, pages, depth int }{{64, 1, 1}, {64, 40, 2}, {1024, 33, 3}, {4096, 12, 8}, {2048, 100, 16},
		{16384, 5, 2}} {
		for _, p := range []chip.Processor{chip.TRISC0, chip.TRISC2} {
			cs = append(cs, testCase{
				name:     fmt.Sprintf("pipeline over %v, %d pages of %d, %d deep", p, g.pages, g.page, g.depth),
				protects: "circular buffers hand pages from reader to compute to writer, in order, whatever their depth",
				fn:       func(t *fixture) { kernelChain(t, []chip.Processor{p}, g.page, g.pages, g.depth) },
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
			fn:       func(t *fixture) { longText(t, free, []chip.Processor{chip.BRISC}) },
		})
	}
	for _, e := range programErrors() {
		cs = append(cs, testCase{
			name:     "refused: " + e.name,
			protects: "a program that can't run is a *ProgramError, and nothing stays allocated",
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
			kernelChain(t, []chip.Processor{chip.TRISC0, chip.TRISC1, chip.TRISC2}, 1024, 20, 2)
		}},
		{name: "copy by one processor", protects: "a data-movement kernel alone copies an interleaved buffer", fn: copyBuffer},
		{name: "chain through all cores", protects: "a word handed from core to core passes each exactly once", fn: chain},
		{name: "sixteen semaphores", protects: "all semaphores of a core are separate words with their initial values", fn: sixteenSemaphores},
		{name: "config ring wraps", protects: "programs of changing size follow each other around the kernel-config ring", fn: configRing},
		{name: "thousands of runs", protects: "nothing runs out in thousands of runs without a wait", fn: thousandsOfRuns},
		{name: "two programs alternate", protects: "each run takes its own program's kernels and arguments", fn: alternate},
		{name: "close one of two", protects: "closing a program frees its memory and leaves others as they are", fn: closeOne},
		{name: "no kernel at all on a core", protects: "cores without a kernel report completion too", fn: emptyCores},
		{name: "used after close", protects: "a closed program isn't run", fn: usedAfterClose},
	}...)
}

// runAndWait runs a program to its end.
func (t *fixture) runAndWait(x *reprise.Executable) {
	t.Helper()
	t.ok(t.rq.Run(t.ctx, x))
	t.ok(t.rq.Wait(t.ctx))
}

func alone(t *fixture, p chip.Processor) {
	b := t.perWorker(64)
	prog := t.storeProgram("alone", t.grid(), b, 0x1000)
	prog.Kernels[0].Processor = p
	t.runAndWait(t.load(prog))
	t.wantWords("stored", b, 0, func(c chip.Core) uint32 { return 0x1000 + uint32(t.workerIndex(c)) })
}

func allFive(t *fixture) {
	b := t.perWorker(64)
	prog := &reprise.Program{Name: "five", Buffers: []*reprise.Buffer{b}}
	for i, p := range processors() {
		prog.Kernels = append(prog.Kernels, reprise.Kernel{
			Name: p.String(), Image: t.kernel(kernels.Store), Processor: p, Cores: []chip.Range{t.grid()}, Common: []uint32{uint32(i) << 16},
			Args: func(c chip.Core) []uint32 { return []uint32{b.Addr() + uint32(4*i), 1, uint32(t.workerIndex(c))} },
		})
	}
	t.runAndWait(t.load(prog))
	for i := range processors() {
		t.wantWords(processors()[i].String(), b, i, func(c chip.Core) uint32 { return uint32(i)<<16 + uint32(t.workerIndex(c)) })
	}
}

// whoProgram runs the who kernel on all processors of all cores.
func (t *fixture) whoProgram(b *reprise.Buffer, noc chip.NOC) *reprise.Program {
	prog := &reprise.Program{Name: "who", Buffers: []*reprise.Buffer{b}}
	for _, p := range processors() {
		prog.Kernels = append(prog.Kernels, reprise.Kernel{
			Name: p.String(), Image: t.own("who"), Processor: p, Cores: []chip.Range{t.grid()}, NOC: noc,
			Args: func(chip.Core) []uint32 { return []uint32{b.Addr()} },
		})
	}
	return prog
}

func (t *fixture) checkWho(b *reprise.Buffer, noc chip.NOC, runs uint32) {
	t.Helper()
	for i, p := range processors() {
		word := func(k int) int { return 16*i + k }
		t.wantWords(fmt.Sprintf("%v number", p), b, word(0), func(chip.Core) uint32 { return uint32(p) })
		t.wantWords(fmt.Sprintf("%v x", p), b, word(1), func(c chip.Core) uint32 { return uint32(c.X) })
		t.wantWords(fmt.Sprintf("%v y", p), b, word(2), func(c chip.Core) uint32 { return uint32(c.Y) })
		first, second := t.words(b, word(3)), t.words(b, word(4))
		seen := map[uint32]bool{}
		for k := range first {
			if first[k] != second[k] || seen[first[k]] {
				t.Errorf("%v of core %d: virtual coordinate %#x on one network, %#x on the other", p, k, first[k], second[k])
			}
			seen[first[k]] = true
		}
		if p <= chip.NCRISC {
			t.wantWords(fmt.Sprintf("%v network", p), b, word(5), func(chip.Core) uint32 { return uint32(noc) ^ uint32(p) })
		}
		t.wantWords(fmt.Sprintf("%v initialized data", p), b, word(6), func(chip.Core) uint32 { return 0x600D600D })
		t.wantWords(fmt.Sprintf("%v cleared data", p), b, word(7), func(chip.Core) uint32 { return 0 })
		t.wantWords(fmt.Sprintf("%v runs", p), b, word(8), func(chip.Core) uint32 { return runs })
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
	t.ok(t.rq.Wait(t.ctx))
	t.checkWho(b, 0, 9)
}

func otherNetwork(t *fixture) {
	b := t.perWorker(64 * len(processors()))
	t.runAndWait(t.load(t.whoProgram(b, 1)))
	t.checkWho(b, 1, 1)
}

// kernelChain passes pages through a circular buffer, some compute processors that each add 1, and others back to DRAM, on
// several cores at once.
func kernelChain(t *fixture, via []chip.Processor, size, pages, depth int) {
	cores := chip.Range{End: chip.Core{X: 2, Y: 1}}
	per := pages
	in, out := t.buffer(allocator.DRAM, per*cores.Size()*size, size), t.buffer(allocator.DRAM, per*cores.Size()*size, size)
	data := pattern(uint32(size), in.Size())
	t.ok(t.rq.Write(t.ctx, in, 0, data))
	on := []chip.Range{cores}
	first := func(c chip.Core) uint32 { return uint32((c.Y*3 + c.X) * per) }
	cb := func(i int) uint32 { // in turn from the first and from the last that a core has
		if i%2 == 0 {
			return uint32(i)
		}
		return uint32(t.circularBuffers() - i)
	}
	prog := &reprise.Program{Name: "pipeline", Buffers: []*reprise.Buffer{in, out}}
	prog.Kernels = []reprise.Kernel{
		{Name: "reader", Image: t.kernel(kernels.CopyReader), Processor: chip.BRISC, Cores: on, Args: func(c chip.Core) []uint32 {
			return []uint32{in.Addr(), first(c), uint32(per), in.PageStride(), cb(0)}
		}},
		{Name: "writer", Image: t.kernel(kernels.CopyWriter), Processor: chip.NCRISC, Cores: on, Args: func(c chip.Core) []uint32 {
			return []uint32{out.Addr(), first(c), uint32(per), out.PageStride(), cb(len(via))}
		}},
	}
	prog.CircularBuffers = append(prog.CircularBuffers, reprise.CircularBuffer{Index: int(cb(0)), Cores: on, PageSize: size, Pages: depth})
	for i, p := range via {
		prog.Kernels = append(prog.Kernels, reprise.Kernel{Name: fmt.Sprintf("add %d", i), Image: t.kernel(kernels.Add), Processor: p, Cores: on,
			Args: func(chip.Core) []uint32 { return []uint32{cb(i), cb(i + 1), uint32(per), 1} }})
		prog.CircularBuffers = append(prog.CircularBuffers, reprise.CircularBuffer{Index: int(cb(i + 1)), Cores: on, PageSize: size,
			Pages: depth})
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
	in, out := t.buffer(allocator.DRAM, pages*size, size), t.buffer(allocator.DRAM, pages*size, size)
	room := t.perWorker(size)
	data := pattern(4, in.Size())
	t.ok(t.rq.Write(t.ctx, in, 0, data))
	for _, p := range []chip.Processor{chip.BRISC, chip.NCRISC} {
		t.ok(t.rq.Write(t.ctx, out, 0, make([]byte, out.Size())))
		t.runAndWait(t.load(&reprise.Program{Name: "copy", Buffers: []*reprise.Buffer{in, out, room}, Kernels: []reprise.Kernel{{
			Name: "copy", Image: t.kernel(kernels.Copy), Processor: p, Cores: []chip.Range{t.grid().End.Range()},
			Args: func(chip.Core) []uint32 {
				return []uint32{in.Addr(), out.Addr(), 0, pages, in.PageStride(), room.Addr()}
			},
		}}}))
		t.same(fmt.Sprintf("copied by %v", p), data, t.readAll(out))
	}
}
