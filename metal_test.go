package reprise_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
	"github.com/reprise-tt/reprise/sim/waivers"
)

// Nothing of tt-metal's firmware is in this repository.
var metalDir = flag.String("metal", "", "`folder` with base firmware and kernels that tt-metal built, laid out as its kernel cache")

type metalBench struct {
	*bench
	cache    *metal.Cache
	firmware *metal.Firmware
}

// metalTile is the page size of readers and writers of tt-metal's examples.
const metalTile = 2048

// onMetal runs a test with each base firmware of the folder, on each chip with its banks.
func onMetal(t *testing.T, run func(*metalBench), opts ...reprise.Option) {
	if *metalDir == "" {
		t.Skip("no -metal DIR: a folder with base firmware and kernels that tt-metal built")
	}
	cache := value(metal.OpenCache(t.Context(), *metalDir))(t)
	for _, f := range cache.Firmware {
		name := fmt.Sprintf("%s/%v/%d banks", f.Layout.Revision.Name, f.Layout.Arch, f.L1Banks)
		for _, c := range []struct {
			name   string
			target func(t *testing.T) kmd.Target
		}{
			{"emulator", func(t *testing.T) kmd.Target { return emulatorWith(t, f) }},
			{"strict", func(t *testing.T) kmd.Target { return strictWith(t, f) }},
			{"ttsim", func(t *testing.T) kmd.Target { return ttsimWith(t, f) }},
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				if q := queueFirmware[f.Layout.Arch]; q != nil && (q.Base.Layout.Revision.Name != f.Layout.Revision.Name ||
					q.Base.L1Banks != f.L1Banks) {
					t.Skipf("-metal-queues names those of %v for %d workers", q.Base.Layout.Revision, q.Base.L1Banks)
				}
				target := c.target(t)
				run(&metalBench{open(t, target, append([]reprise.Option{reprise.WithFirmware(f.Dir)}, opts...)...), cache, f})
			})
		}
	}
}

var metalChips = []struct {
	arch     chip.Arch
	dram, l1 int
	chip.Harvesting
}{
	{chip.Blackhole, 8, 130, chip.Harvesting{}},
	{chip.Blackhole, 7, 110, chip.Harvesting{Tensix: 0x3, DRAM: 0x80}}, // p100a
	{chip.Wormhole, 12, 72, chip.Harvesting{}},
	{chip.Wormhole, 12, 64, chip.Harvesting{Tensix: 1 << 3}}, // n150
}

func strictWith(t *testing.T, f *metal.Firmware) kmd.Target {
	if testing.Short() {
		t.Skip("checks take time")
	}
	list := value(waivers.Metal(t.Context(), *metalDir))(t)
	if q := queueFirmware[f.Layout.Arch]; q != nil {
		more := value(waivers.Metal(t.Context(), q.Dir))(t)
		list = append(list, more...)
	}
	return emulatorWith(t, f, sim.Strict(1), sim.Waive(list...))
}

func emulatorWith(t *testing.T, f *metal.Firmware, opts ...sim.Option) kmd.Target {
	for _, c := range metalChips {
		if c.arch == f.Layout.Arch && c.dram == f.DRAMBanks && c.l1 == f.L1Banks {
			opts = append(opts, sim.Harvesting(c.Harvesting))
			if c.arch == chip.Wormhole {
				return sim.Wormhole(opts...)
			}
			return sim.Blackhole(opts...)
		}
	}
	t.Skipf("no chip of this test is a %v with %d DRAM banks and %d workers", f.Layout.Arch, f.DRAMBanks, f.L1Banks)
	return nil
}

func ttsimWith(t *testing.T, f *metal.Firmware) kmd.Target {
	for _, c := range metalChips {
		if c.arch == f.Layout.Arch && c.dram == f.DRAMBanks && c.l1 == f.L1Banks && c.Harvesting == (chip.Harvesting{}) {
			return ttsimtest.Card(t, map[chip.Arch]string{chip.Wormhole: ttsimtest.Wormhole, chip.Blackhole: ttsimtest.Blackhole}[c.arch])
		}
	}
	t.Skipf("the vendor's simulator is no %v with %d DRAM banks and %d workers", f.Layout.Arch, f.DRAMBanks, f.L1Banks)
	return nil
}

// With logs of compilers beside the kernels, the kernel is the one for the NoC.
func (b *metalBench) kernel(name string, p chip.Processor, noc chip.NOC) *kernels.Image {
	b.Helper()
	var found *kernels.Image
	for i := range b.cache.Kernels {
		k := &b.cache.Kernels[i]
		if k.Name != name || k.Processor != p {
			continue
		}
		im, err := k.Load()
		if err != nil || b.firmware.CheckProcessor(im, p) != nil {
			continue
		}
		if logs := logsIn(filepath.Dir(k.Path)); bytes.Contains(logs, []byte("NOC_INDEX=")) &&
			!bytes.Contains(logs, fmt.Appendf(nil, "NOC_INDEX=%d", noc)) {
			continue
		}
		found = im
	}
	if found == nil {
		b.Skipf("%s has no kernel %s for %v that was linked with %s", *metalDir, name, p, b.firmware.Dir)
	}
	return found
}

func logsIn(dir string) []byte {
	var all []byte
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	for _, log := range logs {
		text, _ := os.ReadFile(log)
		all = append(all, text...)
	}
	return all
}

func (b *metalBench) watched() bool {
	return bytes.Contains(logsIn(filepath.Join(b.firmware.Dir, "brisc")), []byte("-DWATCHER_ENABLED"))
}

func (b *metalBench) perWorker() *reprise.Buffer {
	g := b.Dev.Grid()
	l1 := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, Size: 16 * g.Size(), PageSize: 16, Name: "per worker"})
	b.zero(l1)
	return l1
}

func (b *metalBench) loopback(at chip.Core, in, out *reprise.Buffer, tiles uint32) *reprise.Program {
	on := []chip.Range{at.Range()}
	return &reprise.Program{
		Name: "loopback", Buffers: []*reprise.Buffer{in, out},
		Kernels: []reprise.Kernel{
			{Name: "reader", Image: b.kernel("reader_unary_8bank", chip.NCRISC, chip.NOC1), Processor: chip.NCRISC, Cores: on, Args: func(chip.Core) []uint32 { return []uint32{in.Addr(), 0, 0, tiles} }},
			{Name: "writer", Image: b.kernel("writer0", chip.BRISC, chip.NOC0), Processor: chip.BRISC, Cores: on, Args: func(chip.Core) []uint32 { return []uint32{out.Addr(), tiles} }},
		},
		CircularBuffers: []reprise.CircularBuffer{{Index: 0, Cores: on, PageSize: metalTile, Pages: 4}},
	}
}

func (b *metalBench) tiles(name string, n int) *reprise.Buffer {
	return b.Buffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: n * metalTile, PageSize: metalTile, Name: name})
}

func (b *metalBench) copies(in, out *reprise.Buffer, seed uint64, run func()) {
	b.Helper()
	data := make([]byte, in.Size())
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	b.Must(b.Queue.Write(b.Ctx, in, 0, data))
	run()
	if got := b.Read(out); !bytes.Equal(got, data) {
		b.Fatalf("round %d: the copy differs", seed)
	}
}

func TestMetalKernels(t *testing.T) {
	onMetal(t, func(b *metalBench) {
		g := b.Dev.Grid()
		for _, p := range []chip.Processor{chip.BRISC, chip.NCRISC} {
			noc := chip.NOC(p)
			l1 := b.perWorker()
			run := func(k reprise.Kernel) []byte {
				k.Processor, k.Cores = p, []chip.Range{g}
				x := b.Load(&reprise.Program{Name: k.Name, Kernels: []reprise.Kernel{k}, Buffers: []*reprise.Buffer{l1}})
				for range 10 {
					b.Execute(x)
				}
				out := b.Read(l1)
				b.Must(x.Release(b.Ctx))
				return out
			}
			run(reprise.Kernel{Name: "blank", Image: b.kernel("blank", p, noc)})
			out := run(reprise.Kernel{Name: "store", Image: b.kernel("store", p, noc),
				Args: func(c chip.Core) []uint32 { return []uint32{l1.Addr(), uint32(1000 + 100*c.Y + c.X)} }})
			i := 0
			for c := range g.Cores() {
				xy := value(b.Dev.Virtual(c))(b)
				want := []uint32{uint32(1000 + 100*c.Y + c.X), uint32(xy.X), uint32(xy.Y), uint32(c.X) | uint32(c.Y)<<16}
				if got := numbersOf(out[16*i:][:16]); !slices.Equal(got, want) {
					b.Errorf("%v of %v stores %v, want %v", p, c, got, want)
				}
				i++
			}
			out = run(reprise.Kernel{Name: "common", Image: b.kernel("common", p, noc), Common: []uint32{30, 12, 77},
				Args: func(chip.Core) []uint32 { return []uint32{l1.Addr()} }})
			for i := range g.Size() {
				if got, want := numbersOf(out[16*i:][:16]), []uint32{42, 77, 0x3333333A, 8}; !slices.Equal(got, want) {
					b.Fatalf("%v of worker %d: %#x, want %#x", p, i, got, want)
				}
			}
			for n, want := range [][]uint32{{111, ^uint32(100)}, {1302, 100 ^ 0x5A5A5A5A}, {(100 ^ 0xFF) - 1, ^uint32(100)},
				{800, 100 ^ 0x5A5A5A5A}} {
				out = run(reprise.Kernel{Name: "jump", Image: b.kernel("jump", p, noc),
					Args: func(chip.Core) []uint32 { return []uint32{l1.Addr(), uint32(n), 100} }})
				if got := numbersOf(out[16:][:12]); !slices.Equal(got, append(want, uint32(n))) {
					b.Errorf("%v jumps to %d: %v, want %v", p, n, got, want)
				}
			}
		}
	})
}

func numbersOf(b []byte) []uint32 {
	out := make([]uint32, len(b)/4)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return out
}

func TestMetalTrace(t *testing.T) {
	onMetal(t, func(b *metalBench) {
		const tiles = 16
		in, out := b.tiles("in", tiles), b.tiles("out", tiles)
		x := b.Load(b.loopback(chip.Core{X: 3, Y: 2}, in, out, tiles))
		b.copies(in, out, 1, func() { b.Execute(x) })
		trace := b.Capture("loop", x, x, x, x, x)
		for i := range 10 {
			b.copies(in, out, uint64(i+2), func() { b.Replay(trace) })
		}
		var file bytes.Buffer
		b.Must(trace.Save(b.Ctx, &file))
		b.Must(trace.Release(b.Ctx))
		b.Must(x.Release(b.Ctx))
		saved := file.Bytes()
		loaded, err := b.Dev.LoadTrace(b.Ctx, bytes.NewReader(saved), reprise.WithBuffers(in, out))
		b.Must(err)
		b.copies(in, out, 20, func() { b.Replay(loaded) })
		if _, emulated := b.targetOf(); !emulated {
			return
		}
		target, _ := b.targetOf()
		own := openAs(b.T, target)
		_, err = own.Dev.LoadTrace(b.Ctx, bytes.NewReader(saved))
		b.Says(err, "load trace", "base firmware of the workers", b.firmware.Layout.Revision.Name, "this runtime's own")
		b.fails("", err, reprise.ErrOtherTarget)
	})
}

func (b *metalBench) targetOf() (kmd.Target, bool) {
	if strings.HasSuffix(b.Name(), "/ttsim") {
		return nil, false
	}
	return emulatorWith(b.T, b.firmware), true
}

func TestMetalMulticast(t *testing.T) {
	onMetal(t, func(b *metalBench) {
		in := b.tiles("in", 1)
		g := b.Dev.Grid()
		dst := b.Buffer(reprise.BufferConfig{Kind: allocator.L1, Size: metalTile * g.Size(), PageSize: metalTile, Name: "to"})
		data := bytes.Repeat([]byte("multicast"), metalTile/9+1)[:metalTile]
		b.Must(b.Queue.Write(b.Ctx, in, 0, data))
		b.zero(dst)
		to := chip.Range{Start: chip.Core{X: 1, Y: 1}, End: chip.Core{X: 4, Y: 5}}
		rect := value(b.Dev.Multicast(to))(b)
		x := b.Load(&reprise.Program{Name: "multicast", Buffers: []*reprise.Buffer{in, dst}, Kernels: []reprise.Kernel{{
			Name: "multicast", Image: b.kernel("dram_to_l1_multicast", chip.BRISC, chip.NOC0), Processor: chip.BRISC,
			Cores: []chip.Range{chip.Single(0, 0)},
			Args: func(chip.Core) []uint32 {
				return []uint32{in.Addr(), 0, metalTile, dst.Addr(), dst.Addr(), uint32(rect.Start.X), uint32(rect.Start.Y), uint32(rect.End.X),
					uint32(rect.End.Y), 20}
			},
		}}})
		b.Execute(x)
		out, i := b.Read(dst), 0
		for c := range g.Cores() {
			want := to.Contains(c) || c == chip.Core{}
			equal(b, bytes.Equal(out[metalTile*i:][:metalTile], data), want, "%v has the data", c)
			i++
		}
	})
}

type compute [3]*kernels.Image

func (b *metalBench) computeKernels(name string) iter.Seq2[string, compute] {
	b.Helper()
	all := map[string]compute{}
	for i := range b.cache.Kernels {
		k := &b.cache.Kernels[i]
		if k.Name != name || k.Processor < chip.TRISC0 {
			continue
		}
		im, err := k.Load()
		if err != nil || b.firmware.CheckProcessor(im, k.Processor) != nil {
			continue
		}
		c := all[k.Hash]
		c[k.Processor-chip.TRISC0] = im
		all[k.Hash] = c
	}
	maps.DeleteFunc(all, func(_ string, c compute) bool { return slices.Contains(c[:], nil) })
	b.Logf("%s: %d compute kernels", name, len(all))
	return func(yield func(string, compute) bool) {
		for _, hash := range slices.Sorted(maps.Keys(all)) {
			if !yield(hash, all[hash]) {
				return
			}
		}
	}
}

func (b *metalBench) computes(name string, kernel compute, args []uint32, reader string, readerArgs []uint32, out *reprise.Buffer,
	bufs ...*reprise.Buffer) *reprise.Executable {
	b.Helper()
	on := []chip.Range{chip.Single(1, 1)}
	tiles := uint32(out.Size() / metalTile)
	p := &reprise.Program{Name: name, Buffers: append(bufs, out), Kernels: []reprise.Kernel{
		{Name: "reader", Image: b.kernel(reader, chip.NCRISC, chip.NOC0), Processor: chip.NCRISC, Cores: on, Args: func(chip.Core) []uint32 { return readerArgs }},
		{Name: "writer", Image: b.kernel("writer_unary_8bank", chip.BRISC, chip.NOC1), Processor: chip.BRISC, NOC: chip.NOC1, Cores: on, Args: func(chip.Core) []uint32 { return []uint32{out.Addr(), 0, tiles} }},
	}}
	for i, im := range kernel {
		p.Kernels = append(p.Kernels, reprise.Kernel{Name: fmt.Sprintf("compute %d", i), Image: im, Processor: chip.TRISC0 + chip.Processor(i),
			Cores: on,
			Args:  func(chip.Core) []uint32 { return args }})
	}
	for _, index := range []int{0, 1, 16} {
		p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: index, Cores: on, PageSize: metalTile, Pages: 8})
	}
	return b.Load(p)
}

func smallTiles(n int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 7))
	out := make([]byte, 0, n*metalTile)
	for range n * metalTile / 2 {
		out = binary.LittleEndian.AppendUint16(out, []uint16{0xBF80, 0, 0x3F80}[r.IntN(3)])
	}
	return out
}

// inTiles returns an element of tiles of 32 by 32, with four faces of 16 by 16.
func inTiles(b []byte, wide, row, column int) float64 {
	face := row/16%2*2 + column/16%2
	at := ((row/32*wide+column/32)*4+face)*256 + row%16*16 + column%16
	return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*at:])) << 16))
}

func TestMetalCompute(t *testing.T) {
	onMetal(t, func(b *metalBench) {
		const tiles = 8
		in, out := b.tiles("A", tiles), b.tiles("C", tiles)
		data := smallTiles(tiles, 1)
		b.Must(b.Queue.Write(b.Ctx, in, 0, data))
		for hash, kernel := range b.computeKernels("eltwise_copy") {
			b.zero(out)
			b.Execute(b.computes("copy", kernel, nil, "reader_unary_8bank", []uint32{in.Addr(), 0, 0, tiles}, out, in))
			if !bytes.Equal(b.Read(out), data) {
				b.Errorf("eltwise_copy/%s differs", hash)
			}
		}
		for _, kernel := range b.computeKernels("bmm") {
			b.multiplies(kernel)
		}
	})
}

func (b *metalBench) multiplies(kernel compute) {
	b.Helper()
	const m, k, n = 2, 3, 2 // tiles
	in0, in1, out := b.tiles("A", m*k), b.tiles("B", k*n), b.tiles("C", m*n)
	x := b.computes("bmm", kernel, nil, "reader_mm", []uint32{in0.Addr(), in1.Addr(), m, k, n}, out, in0, in1)
	trace := b.Capture("matmul", x, x)
	for seed := range uint64(3) {
		data0, data1 := smallTiles(m*k, 2*seed+10), smallTiles(k*n, 2*seed+11)
		b.Must(b.Queue.Write(b.Ctx, in0, 0, data0))
		b.Must(b.Queue.Write(b.Ctx, in1, 0, data1))
		b.Replay(trace)
		got := b.Read(out)
		for row := range 32 * m {
			for column := range 32 * n {
				want := 0.0
				for i := range 32 * k {
					want += inTiles(data0, k, row, i) * inTiles(data1, n, i, column)
				}
				if v := inTiles(got, n, row, column); v != want {
					b.Fatalf("row %d, column %d is %v, want %v", row, column, v, want)
				}
			}
		}
	}
}

func TestMetalQueues(t *testing.T) {
	top, rest := chip.Range{End: chip.Core{X: 3, Y: 1}}, chip.Range{Start: chip.Core{X: 0, Y: 2}, End: chip.Core{X: 5, Y: 5}}
	onMetal(t, func(b *metalBench) {
		const tiles = 8
		var first, second = b.Dev.Queue(0), b.Dev.Queue(1)
		in, mid, out := b.tiles("in", tiles), b.tiles("between", tiles), b.tiles("out", tiles)
		x := b.Load(b.loopback(chip.Core{X: 1, Y: 1}, in, mid, tiles))
		y := b.Load(b.loopback(chip.Core{X: 2, Y: 4}, mid, out, tiles))
		done := b.Dev.NewEvent("done")
		for i := range 5 {
			data := smallTiles(tiles, uint64(i))
			b.Must(first.Write(b.Ctx, in, 0, data))
			b.Must(first.Run(b.Ctx, x))
			b.Must(first.Record(b.Ctx, done))
			b.Must(second.WaitEvent(b.Ctx, done))
			b.Must(second.Run(b.Ctx, y))
			got := make([]byte, out.Size())
			b.Must(second.Read(b.Ctx, out, 0, got))
			if !bytes.Equal(got, data) {
				b.Errorf("round %d differs", i)
			}
		}
	}, reprise.WithQueues(2), reprise.WithQueueWorkers(0, top), reprise.WithQueueWorkers(1, rest))
}

func TestMetalLongTrace(t *testing.T) {
	onMetal(t, func(b *metalBench) {
		const tiles, programs = 4, 100
		in, out := b.tiles("in", tiles), b.tiles("out", tiles)
		blank := b.kernel("blank", chip.BRISC, chip.NOC0)
		var xs []*reprise.Executable
		for i := range programs - 1 {
			on := chip.Range{End: chip.Core{X: i % 7, Y: i / 7 % 6}}
			if i%10 == 9 {
				on = b.Dev.Grid()
			}
			xs = append(xs, b.Load(&reprise.Program{Name: fmt.Sprint("blank ", i),
				Kernels: []reprise.Kernel{{Name: "blank", Image: blank, Processor: chip.BRISC, Cores: []chip.Range{on}}}}))
		}
		trace := b.Capture("100 programs", append(xs, b.Load(b.loopback(chip.Core{X: 3, Y: 2}, in, out, tiles)))...)
		for i := range uint64(6) {
			if i == 3 {
				b.Must(b.Dev.Recover(b.Ctx))
			}
			b.copies(in, out, i, func() { b.Replay(trace) })
		}
	})
}

func TestMetalRecovers(t *testing.T) {
	onMetal(t, func(b *metalBench) {
		if strings.HasSuffix(b.Name(), "/strict") {
			b.Skip("checks make processors slower than this test's time for hangs allows")
		}
		const tiles = 16
		in, out := b.tiles("in", tiles), b.tiles("out", tiles)
		at := chip.Core{X: 2, Y: 1}
		x := b.Load(b.loopback(at, in, out, tiles))
		trace := b.Capture("loop", x, x)
		p := b.loopback(at, in, out, tiles)
		p.Name, p.Kernels = "no writer", p.Kernels[:1]
		b.Execute(b.Load(p))
		h := b.hang(b.Queue.Wait(b.Ctx))
		reader := "runs a kernel"
		if b.watched() {
			reader = "waits for room in a circular buffer"
		}
		for _, c := range h.Cores {
			if want := c.Core == at; c.Kind == "worker" && c.Busy() != want {
				b.Errorf("%v, busy: %v, want %v", c, c.Busy(), want)
			} else if want && (c.Firmware != b.firmware.Layout.Revision.Name || c.Explain(chip.NCRISC) != reader ||
				c.Explain(chip.TRISC1) != "waits for work") {
				b.Errorf("%v: NCRISC %s, TRISC1 %s", c, c.Explain(chip.NCRISC), c.Explain(chip.TRISC1))
			}
			if c.Kind != "worker" && b.watched() && c.Firmware != "" {
				kernels := map[chip.Processor]string{chip.BRISC: "waits for an entry in the prefetch queue"}
				if c.Kind == "dispatch" {
					kernels = map[chip.Processor]string{chip.BRISC: "waits for workers, or for a word of its L1 to reach a value",
						chip.NCRISC: "waits for commands from the prefetcher"}
				}
				for p, want := range kernels {
					if c.Busy() && c.Explain(p) != want {
						b.Errorf("%v: %v %s, want %s", c, p, c.Explain(p), want)
					}
				}
			}
		}
		b.Must(b.Dev.Recover(b.Ctx))
		b.copies(in, out, 1, func() { b.Execute(x) })
		b.copies(in, out, 2, func() { b.Replay(trace) })
	}, reprise.WithHangTimeout(2*time.Second))
}

func TestMetalRefusals(t *testing.T) {
	onMetal(t, func(b *metalBench) {
		target, emulated := b.targetOf()
		if !emulated {
			b.Skip("the same on the emulator")
		}
		program := func(im *kernels.Image, p chip.Processor) *reprise.Program {
			return &reprise.Program{Name: "refused", Kernels: []reprise.Kernel{{Name: "kernel", Image: im, Processor: p,
				Cores: []chip.Range{chip.Single(0, 0)}}}}
		}
		_, err := b.Dev.Load(b.Ctx, program(b.Image(kernels.Blank), chip.BRISC))
		b.fails("an own kernel", err, metal.ErrNotMetal)
		blank := b.kernel("blank", chip.BRISC, chip.NOC0)
		var processor *metal.ProcessorError
		if _, err = b.Dev.Load(b.Ctx, program(blank, chip.NCRISC)); !errors.As(err, &processor) {
			b.Errorf("BRISC's kernel on NCRISC: %v", err)
		}
		own := openAs(b.T, target)
		if _, err = own.Dev.Load(b.Ctx, program(blank, chip.BRISC)); !errors.Is(err, metal.ErrOwnFirmware) {
			b.Errorf("a kernel of tt-metal on this runtime's own firmware: %v", err)
		}
		var wrong *dispatch.ProgramError
		if !errors.As(err, &wrong) || wrong.Part != `kernel "kernel"` {
			b.Errorf("%v names no kernel", err)
		}
		for i := range b.cache.Kernels {
			k := &b.cache.Kernels[i]
			im, err := k.Load()
			if err != nil || k.Processor > chip.NCRISC {
				continue
			}
			if _, err := b.firmware.Processor(im); err == nil {
				continue
			}
			var mismatch *metal.MismatchError
			if _, err = b.Dev.Load(b.Ctx, program(im, k.Processor)); !errors.As(err, &mismatch) {
				b.Errorf("%s: %v", k.Path, err)
			}
		}
		for _, f := range b.cache.Firmware {
			if f.Layout.Arch == b.firmware.Layout.Arch && f.DRAMBanks == b.firmware.DRAMBanks && f.L1Banks == b.firmware.L1Banks {
				continue
			}
			d, err := reprise.Open(b.Ctx, emulatorWith(b.T, b.firmware), reprise.WithFirmware(f.Dir))
			var refused *dispatch.FirmwareError
			if !errors.As(err, &refused) {
				b.Errorf("firmware in %s: %v", f.Dir, err)
			}
			if err == nil {
				b.Must(d.Close(context.Background()))
			}
		}
	})
}

func TestWithFirmwareRefuses(t *testing.T) {
	dir := t.TempDir()
	_, err := reprise.Open(t.Context(), sim.Blackhole(), reprise.WithFirmware(dir))
	var firmware *metal.FirmwareError
	if !errors.As(err, &firmware) || firmware.Dir != dir {
		t.Errorf("an empty folder: %v", err)
	}
	b := open(t, sim.Blackhole())
	im := *b.Image(kernels.Blank)
	im.Metal = &kernels.MetalKernel{}
	_, err = b.Dev.Load(b.Ctx, &reprise.Program{Name: "of tt-metal",
		Kernels: []reprise.Kernel{{Name: "kernel", Image: &im, Processor: chip.BRISC, Cores: []chip.Range{chip.Single(0, 0)}}}})
	b.fails("a kernel of tt-metal", err, metal.ErrOwnFirmware)
	b.Says(err, "of tt-metal", `kernel "kernel"`, "built by tt-metal", "own base firmware")
}

func TestQueueFirmware(t *testing.T) {
	if len(queueFirmware) == 0 {
		t.Skip("no -metal-queues DIR: folders with command-queue firmware of two queues that tt-metal built")
	}
	for arch, q := range queueFirmware {
		if q.Base.Layout.L1.Go != abi.Own(arch).L1.Go {
			t.Skipf("queues of %v don't drive this runtime's own workers", q.Base.Layout.Revision)
		}
	}
	onAll(t, func(b *bench) {
		const programs = 100
		in, out, copied := b.Pages("in", 8), b.Pages("out", 8), b.Pages("copied", 8)
		var xs []*reprise.Executable
		for i := range programs - 1 {
			x, y := i%7, i/7%6
			xs = append(xs, b.Load(b.blank(fmt.Sprint("blank ", i), chip.Range{End: chip.Core{X: x, Y: y}})))
		}
		trace := b.Capture("100 programs", append(xs, b.Load(b.Adder("last", chip.Core{X: 3, Y: 2}, in, out, 7)))...)
		other, after := b.Dev.Queue(1), b.Load(b.Adder("after", chip.Core{X: 1}, out, copied, 100))
		done := b.Dev.NewEvent("done")
		for round := range uint32(2) {
			for i := range uint32(3) {
				b.Write(in, 10*i+round)
				b.Replay(trace)
				b.Must(b.Queue.Record(b.Ctx, done))
				b.Must(other.WaitEvent(b.Ctx, done))
				b.Must(other.Run(b.Ctx, after))
				b.Must(other.Wait(b.Ctx))
				b.Holds(out, 10*i+round+7)
				b.Holds(copied, 10*i+round+107)
			}
			if round == 0 {
				b.Must(b.Dev.Recover(context.WithoutCancel(b.Ctx)))
			}
		}
	}, reprise.WithQueues(2))
}
