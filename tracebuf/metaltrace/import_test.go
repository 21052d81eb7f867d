package metaltrace_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

func cards() []*sim.Card { return []*sim.Card{sim.Wormhole(), sim.Blackhole()} }

type cardMemory struct {
	dev *kmd.Device
	ch  *chip.Chip
}

func (m cardMemory) ReadDRAM(bank int, addr uint64, b []byte) error {
	k := &m.ch.DRAMBanks()[bank]
	return m.dev.Read(k.HostEndpoint, k.Offset+addr, b)
}

func openMemory(t *testing.T, target kmd.Target) cardMemory {
	t.Helper()
	dev, err := kmd.Open(t.Context(), target, kmd.WithoutPower(), kmd.WithoutWaiting())
	devtest.Must(t, err)
	t.Cleanup(func() { devtest.Must(t, dev.Close()) })
	h, err := dev.Harvesting(t.Context())
	devtest.Must(t, err)
	ch, err := chip.New(dev.Arch(), h)
	devtest.Must(t, err)
	return cardMemory{dev, ch}
}

func imported(t *testing.T, m cardMemory, trace *reprise.Trace, saved *tracebuf.File,
	find func(*metaltrace.Trace) error) (*metaltrace.Trace, []byte) {
	t.Helper()
	im := &saved.Image
	b := make([]byte, len(im.Bytes))
	devtest.Must(t, metaltrace.ReadInterleaved(m, len(m.ch.DRAMBanks()), trace.Parts()[0].Extents[0].Start, im.PageSize, 0, b))
	read := expect.Value(metaltrace.Read(m, len(m.ch.DRAMBanks()), im.Layout, b, cq.Pinned))(t)
	devtest.Must(t, find(read))
	f, err := read.File(metaltrace.FileOptions{Name: "imported", Target: saved.Target, Buffers: im.Buffers})
	devtest.Must(t, err)
	file := expect.Value(metaltrace.Write(f))(t)
	return read, file
}

func save(b *devtest.Bench, trace *reprise.Trace) *tracebuf.File {
	var file bytes.Buffer
	b.Must(trace.Save(b.Ctx, &file))
	f, err := tracebuf.Decode(&file)
	b.Must(err)
	return f
}

// chain is a trace that adds 12 in two programs.
type chain struct {
	*devtest.Bench
	memory       cardMemory
	in, mid, out *reprise.Buffer
	one, two     *reprise.Executable
	trace        *reprise.Trace
	saved        *tracebuf.File
}

// newChain's programs are on the last of the sub-devices, if there are any.
func newChain(t *testing.T, card *sim.Card, sets ...[]chip.Range) *chain {
	b := devtest.Open(t, card, reprise.WithStockWireFormat())
	c := &chain{Bench: b, memory: openMemory(t, card), in: b.Pages("in", 4), mid: b.Pages("mid", 4), out: b.Pages("out", 4)}
	c.one = b.Load(b.Adder("one", chip.Core{X: 1, Y: 2}, c.in, c.mid, 5))
	c.two = b.Load(b.Adder("two", chip.Core{X: 3, Y: 1}, c.mid, c.out, 7))
	runs := []*reprise.Executable{c.one, c.two}
	if sets != nil {
		s, err := b.Dev.NewSubDevices(0, sets...)
		b.Must(err)
		b.Must(s.Load(b.Ctx))
		runs = append(runs, b.Load(b.Adder("aside", chip.Core{}, c.in, c.in, 0)))
	}
	var err error
	c.trace, err = b.Queue.Capture(b.Ctx, "chain", func(_ context.Context, r *reprise.Recorder) error {
		var errs []error
		for range 5 { // more runs than there are launch messages
			for _, x := range runs {
				errs = append(errs, r.Run(x))
			}
		}
		return errors.Join(errs...)
	})
	b.Must(err)
	b.Must(b.Queue.Wait(b.Ctx)) // the commands are in DRAM
	c.saved = save(b, c.trace)
	return c
}

func (c *chain) replays(t *testing.T, file []byte) {
	c.Must(errors.Join(c.trace.Release(c.Ctx), c.one.Release(c.Ctx), c.two.Release(c.Ctx)))
	loaded, err := c.Dev.LoadTrace(c.Ctx, bytes.NewReader(file), reprise.WithBuffers(c.in, c.mid, c.out))
	c.Must(err)
	for i := range uint32(3) {
		c.Must(c.Queue.Write(c.Ctx, c.in, 0, devtest.Words(c.in.Size(), 100*i)))
		c.Must(loaded.Replay(c.Ctx))
		got := make([]byte, c.out.Size())
		c.Must(c.Queue.Read(c.Ctx, c.out, 0, got))
		if want := devtest.Words(c.out.Size(), 100*i+12); !bytes.Equal(got, want) {
			t.Errorf("replay %d: % x..., want % x...", i, got[:8], want[:8])
		}
	}
	c.Must(loaded.Release(c.Ctx))
}

func TestImportComputesTheSame(t *testing.T) {
	for _, card := range cards() {
		t.Run(card.String(), func(t *testing.T) {
			for _, sets := range [][][]chip.Range{nil, {{chip.Single(0, 0)}, {{Start: chip.Core{Y: 1}, End: chip.Core{X: 3, Y: 2}}}}} {
				c := newChain(t, card, sets...)
				own := abi.Own(c.Dev.Arch())
				read, file := imported(t, c.memory, c.trace, c.saved, func(t *metaltrace.Trace) error { return t.FindLaunches(own) })
				if want := 10 + 5*min(len(sets), 1); len(read.Steps) != want || read.Steps[0].SubDevice != len(sets)/2 {
					t.Fatalf("%d steps, the first on sub-device %d", len(read.Steps), read.Steps[0].SubDevice)
				}
				c.replays(t, file)
				c.Must(c.Dev.Close(c.Ctx))
			}
		})
	}
}

func TestImportedParametersAreSet(t *testing.T) {
	for _, card := range cards() {
		t.Run(card.String(), func(t *testing.T) {
			b := devtest.Open(t, card, reprise.WithStockWireFormat())
			m := openMemory(t, card)
			b.Pages("low", 1024) // so that no other argument looks like an address
			in, out := b.Pages("in", 4), b.Pages("out", 4)
			x := b.Load(b.Adder("one", chip.Core{X: 1, Y: 2}, in, out, 5))
			trace, err := b.Queue.Capture(b.Ctx, "sum",
				func(_ context.Context, r *reprise.Recorder) error { return errors.Join(r.Run(x), r.Run(x)) })
			b.Must(err)
			b.Must(b.Queue.Wait(b.Ctx))
			saved := save(b, trace)
			im := &saved.Image
			commands := make([]byte, len(im.Bytes))
			b.Must(metaltrace.ReadInterleaved(m, len(m.ch.DRAMBanks()), trace.Parts()[0].Extents[0].Start, im.PageSize, 0, commands))
			read, err := metaltrace.Read(m, len(m.ch.DRAMBanks()), im.Layout, commands, cq.Pinned)
			b.Must(err)
			b.Must(read.FindLaunches(abi.Own(b.Dev.Arch())))
			var args []metaltrace.Argument
			for step := range read.Steps {
				for _, k := range read.Steps[step].Launches[0].Kernels {
					if k.Processor == chip.TRISC0 && (len(k.Args) < 4 || k.Args[3] != 5) {
						t.Errorf("program %d: %v has arguments %v, want 5 as the fourth", step, k.Processor, k.Args)
					}
				}
				args = append(args, metaltrace.Argument{Name: "addend", Step: step, Processor: chip.TRISC0, Index: 3},
					metaltrace.Argument{Name: "from", Step: step, Processor: chip.BRISC, Index: 0, Buffer: "in"},
					metaltrace.Argument{Name: "to", Step: step, Processor: chip.NCRISC, Index: 0, Buffer: "out"})
			}
			f, err := read.File(metaltrace.FileOptions{Name: "imported", Target: saved.Target, Buffers: im.Buffers, Arguments: args})
			b.Must(err)
			file, err := metaltrace.Write(f)
			b.Must(err)
			b.Must(trace.Release(b.Ctx))
			b.Must(x.Release(b.Ctx))
			loaded, err := b.Dev.LoadTrace(b.Ctx, bytes.NewReader(file))
			b.Must(err)
			buffers := map[string]*reprise.Buffer{}
			for _, buf := range loaded.Buffers() {
				buffers[buf.Name()] = buf
			}
			if buffers["in"].Addr() == in.Addr() || buffers["out"].Addr() == out.Addr() {
				t.Errorf("buffers at %#x and %#x, where others are", in.Addr(), out.Addr())
			}
			replay := func(addend uint32, to *reprise.Buffer) {
				t.Helper()
				b.Must(b.Queue.Write(b.Ctx, buffers["in"], 0, devtest.Words(in.Size(), 100)))
				b.Must(loaded.Replay(b.Ctx))
				got := make([]byte, to.Size())
				b.Must(b.Queue.Read(b.Ctx, to, 0, got))
				if want := devtest.Words(to.Size(), 100+addend); !bytes.Equal(got, want) {
					t.Errorf("with %d: % x..., want % x...", addend, got[:8], want[:8])
				}
			}
			replay(5, buffers["out"])
			b.Must(loaded.Set("addend", 77))
			replay(77, buffers["out"])
			b.Must(loaded.SetBuffer("to", out))
			replay(77, out)
			b.Must(loaded.Release(b.Ctx))
		})
	}
}

// metalDir names what tests on tt-metal's firmware run. Nothing of it is in this repository.
var metalDir = flag.String("metal", "", "`folder` with base firmware and kernels that tt-metal built, laid out as its kernel cache")

type metalChip struct {
	arch     chip.Arch
	dram, l1 int
	chip.Harvesting
}

var metalChips = []metalChip{
	{chip.Blackhole, 8, 130, chip.Harvesting{}},
	{chip.Wormhole, 12, 72, chip.Harvesting{}},
}

func metalCard(f *metal.Firmware) *sim.Card {
	for _, c := range metalChips {
		if c.arch == f.Layout.Arch && c.dram == f.DRAMBanks && c.l1 == f.L1Banks {
			if c.arch == chip.Wormhole {
				return sim.Wormhole(sim.Harvesting(c.Harvesting))
			}
			return sim.Blackhole(sim.Harvesting(c.Harvesting))
		}
	}
	return nil
}

func TestImportNamesKernels(t *testing.T) {
	if *metalDir == "" {
		t.Skip("no -metal DIR: a folder with base firmware and kernels that tt-metal built")
	}
	cache, err := metal.OpenCache(t.Context(), *metalDir)
	devtest.Must(t, err)
	library := expect.Value(metaltrace.NewLibrary(t.Context(), cache))(t)
	for _, f := range cache.Firmware {
		card := metalCard(f)
		if card == nil {
			continue
		}
		t.Run(fmt.Sprintf("%s/%v", f.Layout.Revision.Name, f.Layout.Arch), func(t *testing.T) {
			b := devtest.Open(t, card, reprise.WithFirmware(f.Dir), reprise.WithStockWireFormat())
			const tiles, tile = 8, 2048 // eltwise_copy was compiled for 8
			buffer := func(name string) *reprise.Buffer {
				buf, err := b.Dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: tiles * tile, PageSize: tile, Name: name})
				b.Must(err)
				return buf
			}
			in, mid, out := buffer("in"), buffer("mid"), buffer("out")
			on := []chip.Range{chip.Single(3, 2)}
			x := b.Load(&reprise.Program{
				Name: "loopback", Buffers: []*reprise.Buffer{in, mid},
				Kernels: []reprise.Kernel{
					{Name: "reader", Image: kernelOf(t, cache, f, "reader_unary_8bank", chip.NCRISC, chip.NOC1), Processor: chip.NCRISC, Cores: on, Args: func(chip.Core) []uint32 { return []uint32{in.Addr(), 0, 0, tiles} }},
					{Name: "writer", Image: kernelOf(t, cache, f, "writer0", chip.BRISC, chip.NOC0), Processor: chip.BRISC, Cores: on, Args: func(chip.Core) []uint32 { return []uint32{mid.Addr(), tiles} }},
				},
				CircularBuffers: []reprise.CircularBuffer{{Index: 0, Cores: on, PageSize: tile, Pages: 4}},
			})
			p := &reprise.Program{
				Name: "copy", Buffers: []*reprise.Buffer{mid, out},
				Kernels: []reprise.Kernel{
					{Name: "reader", Image: kernelOf(t, cache, f, "reader_unary_8bank", chip.NCRISC, chip.NOC0), Processor: chip.NCRISC, Cores: on, Args: func(chip.Core) []uint32 { return []uint32{mid.Addr(), 0, 0, tiles} }},
					{Name: "writer", Image: kernelOf(t, cache, f, "writer_unary_8bank", chip.BRISC, chip.NOC1), Processor: chip.BRISC, NOC: chip.NOC1, Cores: on, Args: func(chip.Core) []uint32 { return []uint32{out.Addr(), 0, tiles} }},
				},
			}
			for i, im := range computeOf(t, cache, f, "eltwise_copy") {
				proc := chip.TRISC0 + chip.Processor(i)
				p.Kernels = append(p.Kernels, reprise.Kernel{Name: proc.String(), Image: im, Processor: proc, Cores: on})
			}
			for _, index := range []int{0, 16} {
				p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: index, Cores: on, PageSize: tile, Pages: 2})
			}
			y := b.Load(p)
			trace, err := b.Queue.Capture(b.Ctx, "loop", func(_ context.Context, r *reprise.Recorder) error {
				return errors.Join(r.Run(x), r.Run(y), r.Run(x), r.Run(y))
			})
			b.Must(err)
			b.Must(b.Queue.Wait(b.Ctx))
			saved := save(b, trace)
			if sum, err := dispatch.HashFirmware(f.Layout.Arch, f.Segments()); err != nil || sum != saved.Target.Firmware {
				t.Errorf("the firmware's hash is %x, %v; the recorder writes %x", sum, err, saved.Target.Firmware)
			}
			read, file := imported(t, openMemory(t, card), trace, saved, func(tr *metaltrace.Trace) error {
				found, err := tr.FindFirmware(library)
				if errors.Is(err, metaltrace.ErrSeveral) {
					t.Log(err) // of two revisions that have the same kernels
					return tr.Identify(library, f)
				}
				if err == nil && found != f {
					t.Errorf("the firmware is %s, want %s", found.Dir, f.Dir)
				}
				return err
			})
			if got, want := read.Steps[2].Name(), "writer0 on BRISC, reader_unary_8bank on NCRISC"; got != want {
				t.Errorf("the kernels are %q, want %q", got, want)
			}
			if got, want := read.Steps[3].Name(), "writer_unary_8bank on BRISC, reader_unary_8bank on NCRISC, eltwise_copy on TRISC0, eltwise_copy on TRISC1, eltwise_copy on TRISC2"; got != want {
				t.Errorf("the kernels are %q, want %q", got, want)
			}
			if c := read.Steps[0].Launches[0].Circular; len(c) != 1 || c[0].Size != 4*tile {
				t.Errorf("circular buffers %+v, want one of %d B", c, 4*tile)
			}
			b.Must(trace.Release(b.Ctx))
			b.Must(errors.Join(x.Release(b.Ctx), y.Release(b.Ctx)))
			loaded, err := b.Dev.LoadTrace(b.Ctx, bytes.NewReader(file), reprise.WithBuffers(in, mid, out))
			b.Must(err)
			data, got := make([]byte, in.Size()), make([]byte, out.Size())
			r := rand.New(rand.NewPCG(1, 2))
			for range 3 {
				for i := 0; i < len(data); i += 2 {
					copy(data[i:], [][]byte{{0x80, 0xBF}, {0, 0}, {0x80, 0x3F}, {0x40, 0x40}}[r.IntN(4)]) // numbers in bfloat16
				}
				b.Must(b.Queue.Write(b.Ctx, in, 0, data))
				b.Must(loaded.Replay(b.Ctx))
				b.Must(b.Queue.Read(b.Ctx, out, 0, got))
				if !bytes.Equal(got, data) {
					t.Fatal("the copy differs")
				}
			}
		})
	}
}

func kernelOf(t *testing.T, c *metal.Cache, f *metal.Firmware, name string, p chip.Processor, noc chip.NOC) *kernels.Image {
	t.Helper()
	for i := range c.Kernels {
		k := &c.Kernels[i]
		if k.Name != name || k.Processor != p {
			continue
		}
		if log, err := os.ReadFile(strings.TrimSuffix(k.Path, ".elf") + ".log"); err == nil && bytes.Contains(log, []byte("NOC_INDEX=")) &&
			!bytes.Contains(log, fmt.Appendf(nil, "NOC_INDEX=%d", noc)) {
			continue
		}
		if im, err := k.Load(); err == nil && f.CheckProcessor(im, p) == nil {
			return im
		}
	}
	t.Skipf("%s has no kernel %s for %v that was linked with %s", *metalDir, name, p, f.Dir)
	return nil
}

func computeOf(t *testing.T, c *metal.Cache, f *metal.Firmware, name string) [3]*kernels.Image {
	t.Helper()
	byHash := map[string]*[3]*kernels.Image{}
	for i := range c.Kernels {
		k := &c.Kernels[i]
		if k.Name != name || k.Processor < chip.TRISC0 {
			continue
		}
		im, err := k.Load()
		if err != nil || f.CheckProcessor(im, k.Processor) != nil {
			continue
		}
		all := byHash[k.Hash]
		if all == nil {
			all = new([3]*kernels.Image)
			byHash[k.Hash] = all
		}
		if all[k.Processor-chip.TRISC0] = im; !slices.Contains(all[:], nil) {
			return *all
		}
	}
	t.Skipf("%s has no compute kernel %s that was linked with %s", *metalDir, name, f.Dir)
	return [3]*kernels.Image{}
}

func TestMain(m *testing.M) { ttsimtest.Main(m) }

// recorded is a trace of y = a*b + a that a ttnn wheel recorded on an emulated chip.
type recorded struct {
	Wheel    string            `json:"ttnn"`
	Arch     string            `json:"arch"`
	Address  uint64            `json:"address"`
	Pages    int               `json:"pages"`
	PageSize int               `json:"page_size"`
	Buffers  map[string]uint64 `json:"buffers"`
	Bytes    int               `json:"buffer_bytes"`
	Page     int               `json:"buffer_page_size"`
}

// recordedMemory is DRAM in blocks of 1 KiB; the rest is zero.
type recordedMemory map[[2]uint64][]byte

const recordedBlock = 1024

func (m recordedMemory) ReadDRAM(bank int, addr uint64, p []byte) error {
	for n := 0; n < len(p); {
		at, off := (addr+uint64(n))/recordedBlock, (addr+uint64(n))%recordedBlock
		block := m[[2]uint64{uint64(bank), at}]
		if block == nil {
			block = make([]byte, recordedBlock)
		}
		n += copy(p[n:], block[off:])
	}
	return nil
}

func readRecordedMemory(t *testing.T, path string) recordedMemory {
	b := expect.Value(os.ReadFile(path))(t)
	m, le := recordedMemory{}, binary.LittleEndian
	for len(b) > 0 {
		bank, n, addr := le.Uint32(b), le.Uint32(b[4:]), le.Uint64(b[8:])
		for i := uint64(0); i < uint64(n); i += recordedBlock {
			m[[2]uint64{uint64(bank), addr/recordedBlock + i/recordedBlock}] = b[16+i : 16+min(i+recordedBlock, uint64(n))]
		}
		b = b[16+n:]
	}
	return m
}

func unpackCache(t *testing.T, path, dir string) {
	xz := exec.CommandContext(t.Context(), "xz", "-dc", path)
	out, err := xz.StdoutPipe()
	devtest.Must(t, err)
	devtest.Must(t, xz.Start())
	for r := tar.NewReader(out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		devtest.Must(t, err)
		if h.Typeflag != tar.TypeReg {
			continue
		}
		b := expect.Value(io.ReadAll(r))(t)
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		devtest.Must(t, errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, b, 0o644)))
	}
	devtest.Must(t, xz.Wait())
}

// Traces that wheels recorded are found, read, loaded and replayed, with the result that TT-NN had.
func TestRecorded(t *testing.T) {
	root := cmp.Or(os.Getenv("REPRISE_TTNN_TRACES"), "../../../shared/ttnn/traces")
	found, err := filepath.Glob(filepath.Join(root, "*", "meta.json"))
	if err != nil || len(found) == 0 {
		t.Skip("no traces that TT-NN recorded: REPRISE_TTNN_TRACES names their folder")
	}
	if _, err := exec.LookPath("xz"); err != nil {
		t.Skip("no xz, which unpacks the kernels: ", err)
	}
	for _, path := range found {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			text := expect.Value(os.ReadFile(path))(t)
			var r recorded
			devtest.Must(t, json.Unmarshal(text, &r))
			r.replay(t, dir)
		})
	}
}

func (r *recorded) card() *sim.Card {
	switch {
	case r.Arch == "wh":
		return sim.Wormhole()
	case r.Wheel >= "0.80":
		return sim.Blackhole(sim.Harvesting(chip.Harvesting{Ethernet: 1<<12 | 1<<13}))
	}
	return sim.Blackhole()
}

func (r *recorded) replay(t *testing.T, dir string) {
	m, cache, card := readRecordedMemory(t, filepath.Join(dir, "dram.pages")), t.TempDir(), r.card()
	unpackCache(t, filepath.Join(dir, "cache.tar.xz"), cache)
	ch := openMemory(t, card).ch
	layout, banks := cq.Layout(ch.Arch()), len(ch.DRAMBanks())
	candidates, _, err := metaltrace.Scan(t.Context(), m, banks, layout, ch.DRAMBanks()[0].Size, 64<<20)
	devtest.Must(t, err)
	if len(candidates) != 1 || candidates[0].Addr != r.Address || candidates[0].Pages != r.Pages || candidates[0].PageSize != r.PageSize {
		t.Fatalf("found %+v, want %d pages of %d B at %#x", candidates, r.Pages, r.PageSize, r.Address)
	}
	commands := make([]byte, r.Pages*r.PageSize)
	devtest.Must(t, metaltrace.ReadInterleaved(m, banks, r.Address, r.PageSize, 0, commands))
	trace := expect.Value(metaltrace.Read(m, banks, layout, commands, ""))(t)
	opened, err := metal.OpenCache(t.Context(), cache)
	devtest.Must(t, err)
	library := expect.Value(metaltrace.NewLibrary(t.Context(), opened))(t)
	f, err := trace.FindFirmware(library)
	devtest.Must(t, err)
	if wheels := f.Layout.Wheels(); !strings.Contains(" "+strings.Join(wheels, " ")+" ", " "+r.Wheel+" ") {
		t.Errorf("the firmware is of %v, want %s among them", wheels, r.Wheel)
	}
	target := tracebuf.Target{Arch: ch.Arch(), Harvesting: ch.Harvesting(), Banks: banks, Revision: cq.Pinned,
		Layout: f.Layout.Revision.Name}
	target.Workers, target.Dispatch, err = dispatch.DefaultQueue(ch)
	devtest.Must(t, err)
	target.Firmware, err = dispatch.HashFirmware(ch.Arch(), f.Segments())
	devtest.Must(t, err)
	options := metaltrace.FileOptions{Name: "recorded", Target: target}
	inputs := map[string][]byte{}
	for _, name := range []string{"a", "b", "y"} {
		options.Buffers = append(options.Buffers, tracebuf.Buffer{Name: name, Kind: tracebuf.KindDRAM, Addr: r.Buffers[name], Size: r.Bytes,
			PageSize: r.Page, Stride: r.Page})
		inputs[name] = make([]byte, r.Bytes)
		devtest.Must(t, metaltrace.ReadInterleaved(m, banks, r.Buffers[name], r.Page, 0, inputs[name]))
	}
	// a*b lies between b and y.
	between := r.Buffers["b"] + uint64(r.Page)
	options.Buffers = append(options.Buffers, tracebuf.Buffer{Name: "a*b", Kind: tracebuf.KindDRAM, Addr: between,
		Size: int(r.Buffers["y"]-between) * banks, PageSize: r.Page, Stride: r.Page})
	write := func(h chip.Harvesting) []byte {
		options.Target.Harvesting = h
		saved, err := trace.File(options)
		devtest.Must(t, err)
		file := expect.Value(metaltrace.Write(saved))(t)
		return file
	}

	t.Run("emulator", func(t *testing.T) { r.runs(t, card, f, &options, write(target.Harvesting), inputs) })
	t.Run("ttsim", func(t *testing.T) {
		variable, h := ttsimtest.Wormhole, target.Harvesting
		if r.Arch == "bh" {
			variable, h = ttsimtest.Blackhole, chip.Harvesting{Ethernet: 1<<12 | 1<<13} // which no program uses
		}
		r.runs(t, ttsimtest.Card(t, variable), f, &options, write(h), inputs)
	})
}

func (r *recorded) runs(t *testing.T, card kmd.Target, f *metal.Firmware, options *metaltrace.FileOptions, file []byte,
	inputs map[string][]byte) {
	b := devtest.Open(t, card, reprise.WithFirmware(f.Dir, f.Layout.Revision.Name))
	var buffers []*reprise.Buffer
	for _, x := range options.Buffers {
		buf, err := b.Dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: x.Size, PageSize: x.PageSize, Name: x.Name,
			Addr: uint32(x.Addr)})
		b.Must(err)
		buffers = append(buffers, buf)
	}
	loaded, err := b.Dev.LoadTrace(b.Ctx, bytes.NewReader(file), reprise.WithBuffers(buffers...))
	b.Must(err)
	b.Must(errors.Join(b.Queue.Write(b.Ctx, buffers[0], 0, inputs["a"]), b.Queue.Write(b.Ctx, buffers[1], 0, inputs["b"])))
	got := make([]byte, r.Bytes)
	for range 3 {
		b.Must(b.Queue.Write(b.Ctx, buffers[2], 0, make([]byte, r.Bytes)))
		b.Must(loaded.Replay(b.Ctx))
		b.Must(b.Queue.Read(b.Ctx, buffers[2], 0, got))
		if sum := sha256.Sum256(got); !bytes.Equal(got, inputs["y"]) || hex.EncodeToString(sum[:8]) != "9d29e8ef51672fd0" {
			t.Fatalf("y has the digest %x, TT-NN had another result", sum[:8])
		}
	}
}
