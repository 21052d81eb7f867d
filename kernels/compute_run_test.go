package kernels_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/effort"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/ttsim/ttsimtest"
)

func TestMain(m *testing.M) { ttsimtest.Main(m) }

const (
	bf16, fp32, fp16       = kernels.BF16, kernels.FP32, kernels.FP16
	bfp8, bfp4             = kernels.BFP8, kernels.BFP4
	int8s, int32s, uint16s = kernels.Int8, kernels.Int32, kernels.Uint16
)

type backend struct {
	name string
	arch chip.Arch
	card func(t *testing.T) kmd.Target
}

// turn reports whether a test runs on the backend. Kernels take longer to compile than to run, so
// short runs use one emulated architecture, another in CI, and long runs both.
func (b *backend) turn(test string) bool {
	sum := 0
	for _, c := range []byte(test) {
		sum += int(c)
	}
	return effort.Hours || strings.HasPrefix(b.name, "ttsim") || (sum%2 == 0 != testing.Short()) == (b.arch == chip.Wormhole)
}

var harvested = map[chip.Arch]sim.Option{
	chip.Wormhole:  sim.Harvesting(chip.Harvesting{Tensix: 0x3FC}),
	chip.Blackhole: sim.Harvesting(chip.Harvesting{Tensix: 0x3FFC}),
}

func backends(harvested map[chip.Arch]sim.Option) []backend {
	emulated := map[chip.Arch]func(...sim.Option) *sim.Card{chip.Wormhole: sim.Wormhole, chip.Blackhole: sim.Blackhole}
	var all []backend
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		for _, kind := range []struct {
			name string
			opts []sim.Option
		}{{"emulator", nil}, {"strict", []sim.Option{sim.Strict(1)}}} {
			all = append(all, backend{kind.name + " " + arch.String(), arch, func(*testing.T) kmd.Target {
				return emulated[arch](append(kind.opts, harvested[arch])...)
			}})
		}
	}
	if testing.Short() {
		return slices.DeleteFunc(all, func(b backend) bool { return strings.HasPrefix(b.name, "strict") })
	}
	for arch, variable := range map[chip.Arch]string{chip.Wormhole: ttsimtest.Wormhole, chip.Blackhole: ttsimtest.Blackhole} {
		all = append(all, backend{"ttsim " + arch.String(), arch, func(t *testing.T) kmd.Target { return ttsimtest.Card(t, variable) }})
	}
	return all
}

func onBackends(t *testing.T, f func(t *testing.T, b *bench)) {
	onBackendsWith(t, harvested, f)
}

func onBackendsWith(t *testing.T, harvested map[chip.Arch]sim.Option, f func(t *testing.T, b *bench)) {
	kernels.NeedCompiler(t)
	for _, b := range backends(harvested) {
		if !b.turn(t.Name()) {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			f(t, open(t, b))
		})
	}
}

type bench struct {
	t   *testing.T
	ctx context.Context
	dev *reprise.Device
	emu *sim.Card // nil for ttsim
}

func open(t *testing.T, b backend) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	card := b.card(t)
	dev, err := reprise.Open(ctx, card)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			if err := dev.Close(context.Background()); err != nil { // t.Context ends before this
				t.Error(err)
			}
		}
	})
	emu, _ := card.(*sim.Card)
	return &bench{t: t, ctx: ctx, dev: dev, emu: emu}
}

func (b *bench) arch() arith.Arch {
	if b.dev.Arch() == chip.Wormhole {
		return arith.Wormhole
	}
	return arith.Blackhole
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil && b.emu != nil && b.emu.Chip() != nil && b.emu.Chip().Fault() != nil {
		b.t.Log(b.emu.Chip().Fault())
	}
	devtest.Must(b.t, err)
}

var compiled sync.Map // of functions, by what is compiled

func compileOnce[T any](b *bench, src any, compile func() (T, error)) T {
	b.t.Helper()
	f, _ := compiled.LoadOrStore(fmt.Sprintf("%+v", src), sync.OnceValues(compile))
	v, err := f.(func() (T, error))()
	b.must(err)
	return v
}

func (b *bench) compute(src kernels.ComputeSource) *kernels.Compute {
	b.t.Helper()
	src.Arch = b.dev.Arch()
	return compileOnce(b, src, func() (*kernels.Compute, error) { return kernels.CompileCompute(context.Background(), src) })
}

func (b *bench) single(path string) *kernels.Image {
	b.t.Helper()
	src := kernels.Source{Path: path, Arch: b.dev.Arch()}
	return compileOnce(b, src, func() (*kernels.Image, error) { return kernels.Compile(context.Background(), src) })
}

func source(name string, wide bool, defines ...string) kernels.ComputeSource {
	return kernels.ComputeSource{Source: kernels.Source{Path: "testdata/compute/" + name, Defines: defines}, WideDst: wide}
}

type pages struct {
	format kernels.Format
	data   []byte
}

func (p pages) tiles() int { return len(p.data) / p.format.TileBytes() }

func (b *bench) run(src kernels.ComputeSource, in []pages, out kernels.Format, n int, args ...uint32) []byte {
	b.t.Helper()
	src.Formats = map[int]kernels.Format{16: out, 24: out}
	for i, p := range in {
		src.Formats[i] = p.format
	}
	return b.runFormats(src, in, out, n, args...)
}

// buffer makes a buffer of pages in DRAM for a program.
func (b *bench) buffer(p *reprise.Program, name string, page, n int) *reprise.Buffer {
	b.t.Helper()
	buf, err := b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: n * page, PageSize: page, Name: name})
	b.must(err)
	p.Buffers = append(p.Buffers, buf)
	return buf
}

func (b *bench) load(p *reprise.Program) *reprise.Executable {
	b.t.Helper()
	x, err := b.dev.Load(b.ctx, p)
	b.must(err)
	return x
}

func (b *bench) prebuilt(name string) *kernels.Image {
	b.t.Helper()
	im, err := kernels.Prebuilt(b.dev.Arch(), name)
	b.must(err)
	return im
}

func kernel(name string, im *kernels.Image, on chip.Processor, cores []chip.Range, args ...uint32) reprise.Kernel {
	return reprise.Kernel{Name: name, Image: im, Processor: on, Cores: cores, Args: func(chip.Core) []uint32 { return args }}
}

func (b *bench) runFormats(src kernels.ComputeSource, in []pages, out kernels.Format, n int, args ...uint32) []byte {
	b.t.Helper()
	core := []chip.Range{chip.Single(0, 0)}
	p := &reprise.Program{Name: src.Path}
	q := b.dev.Queue(0)
	circular := func(i int, f kernels.Format, n int) {
		p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: i, Cores: core, PageSize: f.TileBytes(), Pages: n})
	}
	words := []uint32{uint32(len(in))}
	for i, pages := range in {
		buf := b.buffer(p, fmt.Sprint("in ", i), pages.format.TileBytes(), pages.tiles())
		b.must(q.Write(b.ctx, buf, 0, pages.data))
		words = append(words, buf.Addr(), uint32(pages.tiles()))
		circular(i, pages.format, min(pages.tiles(), 32))
	}
	to := b.buffer(p, "out", out.TileBytes(), n)
	circular(16, out, min(n, 16))
	circular(24, out, 4)
	p.Kernels = []reprise.Kernel{
		kernel("reader", b.single("testdata/compute/reader.cpp"), chip.BRISC, core, words...),
		kernel("writer", b.prebuilt(kernels.CopyWriter), chip.NCRISC, core, to.Addr(), 0, uint32(n), uint32(out.TileBytes()), 16),
	}
	for i, im := range b.compute(src).Images() {
		p.Kernels = append(p.Kernels, kernel(fmt.Sprint("compute ", i), im, chip.TRISC0+chip.Processor(i), core, args...))
	}
	x := b.load(p)
	b.must(q.Run(b.ctx, x))
	result := make([]byte, n*out.TileBytes())
	b.must(q.Read(b.ctx, to, 0, result))
	b.must(x.Release(b.ctx))
	for _, buf := range p.Buffers {
		b.must(buf.Release())
	}
	return result
}
