package metaltrace_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
	"github.com/reprise-tt/reprise/tracebuf/metaltrace"
)

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
	library, err := metaltrace.NewLibrary(t.Context(), cache)
	devtest.Must(t, err)
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
