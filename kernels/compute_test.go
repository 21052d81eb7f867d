package kernels_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
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
	"github.com/reprise-tt/reprise/internal/expect"
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
// runs use one emulated architecture, short ones the other, and runs of hours both.
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
	effort.OneOf(t, t.Name(), 2, 4)
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
	dev := expect.Value(reprise.Open(ctx, card))(t)
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

var widths = []struct {
	name    string
	in, out kernels.Format
	wide    bool
}{
	{"bf16", bf16, bf16, false},
	{"bf16 and a wide Dst", bf16, fp32, true},
	{"fp32 and a wide Dst", fp32, fp32, true},
	{"bfp8", bfp8, bfp8, false},
	{"fp16", fp16, fp16, false},
	{"fp16 and a wide Dst", fp16, fp32, true},
}

func (b *bench) fpu(group, op int, w int, in []pages, n int) []byte {
	b.t.Helper()
	return b.run(source("fpu.cpp", widths[w].wide, fmt.Sprintf("OPERATIONS=%d", group)), in, widths[w].out, n, uint32(op), uint32(n))
}

var seen sync.Map // of results, by chip and what was computed

func (b *bench) everywhere(what string, got []byte) {
	b.t.Helper()
	before, _ := seen.LoadOrStore(fmt.Sprint(b.dev.Arch(), " ", what), got)
	if !bytes.Equal(before.([]byte), got) {
		b.t.Errorf("%s: not the result of another backend", what)
	}
}

func TestComputeElementwise(t *testing.T) {
	const n = 3
	names := []string{"add", "sub", "mul", "add to Dst", "copy", "transpose", "product with the transposed", "add, left in Dst",
		"sub, right in Dst", "mul, left in Dst"}
	do := func(op string, m arith.Math, dst *arith.DstTile, a, b *arith.SrcTile) {
		switch op {
		case "add", "add to Dst":
			m.AddTile(dst, a, b, op != "add")
		case "sub":
			m.SubTile(dst, a, b, false)
		case "mul":
			m.MulTile(dst, a, b, arith.HiFi4)
		case "copy":
			move(m, dst, a)
		case "transpose":
			move(m, dst, transposed(a))
		case "product with the transposed":
			m.A, m.B = m.B, m.A
			m.MatmulTile(dst, a, transposed(b), arith.HiFi4)
		case "add, left in Dst":
			m.A = inDst(m)
			m.AddTile(dst, a, b, false)
		case "sub, right in Dst":
			m.B = inDst(m)
			if m.Wide {
				m.A = m.B
			}
			m.SubTile(dst, b, a, false)
		case "mul, left in Dst":
			m.A = inDst(m)
			m.MulTile(dst, a, b, arith.HiFi4)
		}
	}
	onBackends(t, func(t *testing.T, b *bench) {
		for w, width := range widths {
			for i, op := range names {
				each := 1
				if op == "add to Dst" {
					each = 2
				}
				if width.in == fp16 && (i > 6 || width.wide && (i == 4 || i == 5)) {
					continue // moves between sources and Dst are of bf16 or tf32, whose exponents are not those of fp16
				}
				in := []pages{random(width.in, n*each, 1), random(width.in, n*each, 2)}
				got := b.fpu(0, i, w, in, n)
				var want []byte
				for r := range n {
					var dst arith.DstTile
					for k := range each {
						x, f := srcTile(b.arch(), in[0], r*each+k, width.wide)
						y, _ := srcTile(b.arch(), in[1], r*each+k, width.wide)
						do(op, arith.Math{Arch: b.arch(), A: f, B: f, Wide: width.wide}, &dst, x, y)
					}
					want = append(want, packed(&dst, width.out, width.wide)...)
				}
				b.same(width.name+", "+op, got, want, width.out)
			}
		}
	})
}

func TestComputeReconfigure(t *testing.T) {
	const n = 2
	onBackends(t, func(t *testing.T, b *bench) {
		for _, formats := range [][4]kernels.Format{
			{bf16, bf16, bfp8, bfp4},
			{bf16, fp32, fp32, bfp8},
		} {
			var in []pages
			for i, f := range formats {
				in = append(in, random(f, n, uint64(20+i)))
			}
			got := b.run(source("reconfig.cpp", true), in, fp32, 5*n, n)
			var want []byte
			for i := range n {
				for _, pair := range [][2]int{{0, 1}, {2, 1}, {2, 3}, {0, 1}, {3, 2}} {
					var dst arith.DstTile
					x, fx := srcTile(b.arch(), in[pair[0]], i, true)
					y, fy := srcTile(b.arch(), in[pair[1]], i, true)
					arith.Math{Arch: b.arch(), A: fx, B: fy, Wide: true}.AddTile(&dst, x, y, false)
					want = append(want, packed(&dst, fp32, true)...)
				}
			}
			b.same(fmt.Sprint(formats), got, want, fp32)
		}
	})
}

func inDst(m arith.Math) arith.Format {
	if m.Wide {
		return arith.TF32
	}
	return arith.BF16
}

func move(m arith.Math, dst *arith.DstTile, a *arith.SrcTile) {
	for r, row := range a {
		for c, v := range row {
			if m.Wide {
				v = arith.EncodeDst32(v)
				dst.Hi[r][c], dst.Lo[r][c] = uint16(v>>16), uint16(v)
			} else if m.A == arith.FP16 {
				dst.Hi[r][c] = arith.EncodeDstFP16(uint16(v>>16&0x8000 | v>>13&0x7FFF))
			} else {
				dst.Hi[r][c] = arith.EncodeDstBF16(uint16(v >> 16))
			}
		}
	}
}

func at(row, column int) (int, int) {
	i := arith.FaceOrder(row, column)
	return i / 16, i % 16
}

func remade(t *arith.SrcTile, from func(row, column int) (int, int)) *arith.SrcTile {
	var made arith.SrcTile
	for row := range 32 {
		for column := range 32 {
			r, c := at(row, column)
			fr, fc := at(from(row, column))
			made[r][c] = t[fr][fc]
		}
	}
	return &made
}

func transposed(t *arith.SrcTile) *arith.SrcTile {
	return remade(t, func(r, c int) (int, int) { return c, r })
}

func TestComputeBroadcast(t *testing.T) {
	const n = 2
	repeat := []func(r, c int) (int, int){
		func(_, c int) (int, int) { return 0, c },
		func(r, _ int) (int, int) { return r, 0 },
		func(_, _ int) (int, int) { return 0, 0 },
	}
	onBackends(t, func(t *testing.T, b *bench) {
		for w, width := range widths[:2] {
			in := []pages{random(width.in, n, 3), random(width.in, n, 4)}
			for op := range 9 {
				got := b.fpu(1, op, w, in, n)
				var want []byte
				for r := range n {
					var dst arith.DstTile
					x, f := srcTile(b.arch(), in[0], r, width.wide)
					y, _ := srcTile(b.arch(), in[1], r, width.wide)
					y = remade(y, repeat[op%3])
					m := arith.Math{Arch: b.arch(), A: f, B: f, Wide: width.wide}
					switch op / 3 {
					case 0:
						m.AddTile(&dst, x, y, false)
					case 1:
						m.SubTile(&dst, x, y, false)
					default:
						m.MulTile(&dst, x, y, arith.HiFi4)
					}
					want = append(want, packed(&dst, width.out, width.wide)...)
				}
				b.same(fmt.Sprint(width.name, ", operation ", op), got, want, width.out)
			}
		}
	})
}

func decode(f kernels.Format, tiles []byte) (values []float64) {
	n := f.TileBytes() / arith.TileData
	for t := 0; t < len(tiles); t += f.TileBytes() {
		for i := range arith.TileData {
			at := tiles[t+n*arith.FaceOrder(i/32, i%32):]
			if f == fp32 {
				values = append(values, float64(math.Float32frombits(binary.LittleEndian.Uint32(at))))
			} else {
				values = append(values, float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(at))<<16)))
			}
		}
	}
	return values
}

func factors(f kernels.Format) pages {
	values := make([]float32, arith.TileData)
	for i := range values {
		if i%256 < 16 {
			values[i] = 1
		}
	}
	return pages{f, encode(f, values)}
}

func TestComputeReduce(t *testing.T) {
	const n, each = 2, 2
	onBackends(t, func(t *testing.T, b *bench) {
		for w, width := range widths[:3] {
			in := []pages{random(width.in, n*each, 5), factors(width.in)}
			for i, v := range in[0].data { // only negative numbers, so that a maximum with a zero is noticed
				if last := width.in.TileBytes() / arith.TileData; i%last == last-1 {
					in[0].data[i] = v | 0x80
				}
			}
			data := decode(width.in, in[0].data)
			for op := range 6 {
				what := fmt.Sprint(width.name, ", operation ", op)
				bits := b.fpu(2, op, w, in, n)
				b.everywhere("reduce "+what, bits)
				got := decode(width.out, bits)
				want, size := make([]float64, n*arith.TileData), make([]float64, n*arith.TileData)
				maximum := op >= 3
				for i, v := range data {
					tile, row, column := i/arith.TileData/each, i/32%32, i%32
					to := [3]int{row * 32, column, 0}[op%3] + tile*arith.TileData
					first := i/arith.TileData%each == 0 && [3]bool{column == 0, row == 0, row == 0 && column == 0}[op%3]
					switch {
					case !maximum:
						want[to] += v
						size[to] += math.Abs(v)
					case first:
						want[to] = v
					default:
						want[to] = max(want[to], v)
					}
				}
				for i, v := range got {
					bound := size[i] * 0.016 // Dst rounds after each product of 16
					if width.wide {
						bound = size[i] * 0x1p-10 // unpackers cut fp32 off to tf32
						if op%3 == 2 {
							bound = size[i] * 0x1p-9 // sums of columns become tf32, cut off
						}
					}
					if maximum {
						bound = math.Abs(want[i]) * 0x1p-10 // of fp32, 19 bits
					}
					if math.Abs(v-want[i]) > bound {
						t.Fatalf("%s: datum %d is %v, want %v within %v", what, i, v, want[i], bound)
					}
				}
			}
		}
	})
}

func random(f kernels.Format, n int, seed uint64) pages {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := pages{format: f}
	for range n {
		values := make([]float32, arith.TileData)
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		p.data = append(p.data, encode(f, values)...)
	}
	return p
}

func encode(f kernels.Format, values []float32) (tile []byte) {
	switch f {
	case fp32:
		for _, v := range values {
			tile = binary.LittleEndian.AppendUint32(tile, math.Float32bits(v))
		}
	case fp16:
		for _, v := range values {
			tile = binary.LittleEndian.AppendUint16(tile, arith.CutFP16(math.Float32bits(v)))
		}
	case int8s:
		for _, v := range values { // a third of the numbers that there are is one standard deviation
			magnitude := byte(min(math.Abs(float64(v))*42, 127))
			tile = append(tile, byte(math.Float32bits(v)>>31)<<7|magnitude)
		}
	case bf16:
		for _, v := range values {
			tile = binary.LittleEndian.AppendUint16(tile, uint16((math.Float32bits(v)+0x7FFF+math.Float32bits(v)>>16&1)>>16))
		}
	default:
		tile = make([]byte, f.TileBytes())
		format := arith.Format(f)
		for i := 0; i < len(values); i += 16 {
			var block arith.Row
			for c, v := range values[i : i+16] {
				block[c] = math.Float32bits(v) >> 16
			}
			tile[i/16] = format.StoreBlock(tile[64+i*format.Bits()/8:], &block)
		}
	}
	return tile
}

func srcTile(arch arith.Arch, p pages, i int, wide bool) (*arith.SrcTile, arith.Format) {
	u := arith.Unpack{Arch: arch, In: arith.Format(p.format), Out: arith.Format(p.format)}
	if u.In == arith.FP32 {
		u.Out = arith.BF16
		if wide {
			u.Out = arith.TF32
		}
	}
	var t arith.SrcTile
	u.Tile(&t, p.data[i*p.format.TileBytes():])
	return &t, u.Out
}

func packed(dst *arith.DstTile, out kernels.Format, wide bool) []byte {
	p := arith.Pack{Mid: arith.BF16, Out: arith.Format(out), Wide: wide}
	switch {
	case out == int32s || out == int8s || out == fp16 && !wide:
		p.Mid = p.Out
	case wide && out != bf16:
		p.Mid = arith.FP32
	}
	l1 := make([]byte, out.TileBytes())
	p.Tile(l1, dst)
	return l1
}

func (b *bench) same(what string, got, want []byte, f kernels.Format) {
	b.t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	for i := range got {
		if got[i] != want[i] {
			b.t.Errorf("%s: byte %d of tile %d is %#x, want %#x", what, i%f.TileBytes(), i/f.TileBytes(), got[i], want[i])
			return
		}
	}
}

func TestComputeMatmul(t *testing.T) {
	onBackends(t, func(t *testing.T, b *bench) {
		for i, tt := range []struct {
			name           string
			in0, in1, out  kernels.Format
			fidelity       kernels.Fidelity
			wide           bool
			rows, inner, n int
		}{
			{"bf16", bf16, bf16, bf16, kernels.HiFi4, false, 1, 1, 1},
			{"several tiles", bf16, bf16, bf16, kernels.HiFi2, false, 2, 3, 2},
			{"LoFi bfp8", bfp8, bfp8, bfp8, kernels.LoFi, false, 1, 2, 3},
			{"wide", bf16, bf16, fp32, kernels.HiFi4, true, 1, 4, 3},
			{"tf32", fp32, fp32, fp32, kernels.HiFi3, true, 1, 2, 2},
			{"mixed", bf16, bfp4, bf16, kernels.HiFi4, true, 1, 2, 2},
			{"fp32 in a Dst of 16 bits", fp32, bfp8, fp32, kernels.HiFi4, false, 1, 2, 2},
			{"fp16", fp16, fp16, fp16, kernels.HiFi4, false, 2, 3, 2},
			{"fp16 and a wide Dst", fp16, fp16, fp32, kernels.HiFi3, true, 1, 3, 2},
			{"fp16 from a wide Dst", fp16, fp16, fp16, kernels.LoFi, true, 1, 2, 2},
			{"int8", int8s, int8s, int32s, kernels.HiFi4, true, 2, 3, 2},
			{"int8 to int8", int8s, int8s, int8s, kernels.HiFi4, true, 1, 1, 2},
			{"to bfp4", bf16, bf16, bfp4, kernels.HiFi4, false, 1, 2, 1},
		} {
			results := tt.rows * tt.n
			left, right := random(tt.in0, results*tt.inner, uint64(i)), random(tt.in1, results*tt.inner, uint64(100+i))
			got := b.run(kernels.ComputeSource{
				Source:   kernels.Source{Path: "testdata/compute/matmul.cpp", CompileArgs: []uint32{uint32(tt.rows), uint32(tt.inner), uint32(tt.n)}},
				Fidelity: tt.fidelity, WideDst: tt.wide,
			}, []pages{left, right}, tt.out, results)
			fidelity := map[kernels.Fidelity]arith.Fidelity{kernels.LoFi: arith.LoFi, kernels.HiFi2: arith.HiFi2, kernels.HiFi3: arith.HiFi3,
				kernels.HiFi4: arith.HiFi4}[tt.fidelity]
			var want []byte
			for r := range results {
				var dst arith.DstTile
				for k := range tt.inner {
					l, lf := srcTile(b.arch(), left, r*tt.inner+k, tt.wide)
					r, rf := srcTile(b.arch(), right, r*tt.inner+k, tt.wide)
					arith.Math{Arch: b.arch(), A: rf, B: lf, Wide: tt.wide, Int8: tt.in0 == int8s}.MatmulTile(&dst, l, r, fidelity)
				}
				want = append(want, packed(&dst, tt.out, tt.wide)...)
			}
			b.same(tt.name, got, want, tt.out)
		}
	})
}

func (b *bench) rows(action int, in pages, out kernels.Format, wide bool, n int, args ...uint32) []byte {
	b.t.Helper()
	src := source("rows.cpp", wide, fmt.Sprintf("ACTION=%d", action))
	src.Formats = map[int]kernels.Format{0: in.format, 16: out}
	if wide && in.format == fp32 {
		src.UnpackToDst = []int{0}
	}
	return b.runFormats(src, []pages{in}, out, n, args...)
}

func TestComputeTilize(t *testing.T) {
	onBackends(t, func(t *testing.T, b *bench) {
		for _, tt := range []struct {
			format      kernels.Format
			wide        bool
			rows, tiles int
		}{
			{bf16, false, 1, 1},
			{bf16, false, 2, 3},
			{bf16, false, 1, 8},
			{fp16, false, 2, 3},
			{fp32, true, 2, 3},
		} {
			n := tt.rows * tt.tiles
			in := random(tt.format, n, 11)
			size, columns := tt.format.TileBytes()/arith.TileData, tt.tiles*arith.TileSide
			data := make([]string, len(in.data)/size) // a datum each
			for i := range data {
				data[i] = string(in.data[i*size : (i+1)*size])
			}
			tiled, matrix := make([]string, len(data)), make([]string, len(data))
			arith.Tilize(tiled, data, columns)
			arith.Untilize(matrix, data, columns)
			for action, want := range map[int][]string{0: tiled, 1: matrix, 3: matrix} {
				if action == 3 && tt.tiles != 3 {
					continue
				}
				got := b.rows(action, in, tt.format, tt.wide, n, uint32(tt.rows), uint32(tt.tiles))
				var all []byte
				for _, datum := range want {
					all = append(all, datum...)
				}
				b.same(fmt.Sprintf("action %d of %d by %d tiles of %v", action, tt.rows, tt.tiles, tt.format), got, all, tt.format)
			}
		}
	})
}

func TestComputePackAccumulate(t *testing.T) {
	const rows, tiles = 2, 3
	onBackends(t, func(t *testing.T, b *bench) {
		for _, tt := range []struct {
			format kernels.Format
			wide   bool
			bound  float64
		}{{bf16, false, 0x1p-7}, {fp32, true, 0x1p-22}} {
			in := random(tt.format, rows*tiles, 12)
			bits := b.rows(2, in, tt.format, tt.wide, rows, rows, tiles)
			b.everywhere(fmt.Sprint("sums in L1 of ", tt.format), bits)
			values, got := plain(tt.format, in.data), plain(tt.format, bits)
			for i, v := range got {
				want := 0.0
				for k := range tiles {
					want += max(0, values[(i/arith.TileData*tiles+k)*arith.TileData+i%arith.TileData])
				}
				if math.Abs(v-want) > want*tt.bound {
					t.Fatalf("%v: datum %d is %v, want %v", tt.format, i, v, want)
				}
			}
		}
	})
}

func TestStrict(t *testing.T) {
	effort.Long(t)
	kernels.NeedCompiler(t)
	const n = 2
	in := []pages{random(bf16, 2*n, 17), random(bf16, 2*n, 18), random(bf16, 2*n, 19)}
	triple, ints := random(bf16, 3, 24), random(int8s, n, 25)
	mixed := []pages{random(bf16, 1, 26), random(bf16, 1, 27), random(bfp8, 1, 28), random(bfp4, 1, 29)}
	for arch, card := range map[chip.Arch]func(...sim.Option) *sim.Card{chip.Wormhole: sim.Wormhole, chip.Blackhole: sim.Blackhole} {
		for seed := range effort.Of[uint64](2, 2, 1000) {
			name := fmt.Sprintf("%v, seed %d", arch, seed)
			ok := t.Run(name, func(t *testing.T) {
				b := open(t, backend{name, arch, func(*testing.T) kmd.Target { return card(sim.Strict(seed), harvested[arch]) }})
				for op := range 10 {
					b.everywhere(fmt.Sprint("seeds, matrix unit ", op), b.fpu(0, op, 0, in[:2], n))
				}
				for op := range 6 {
					b.everywhere(fmt.Sprint("seeds, reduction ", op), b.fpu(2, op, 0, []pages{in[0], factors(bf16)}, n))
				}
				for f := range inexact {
					b.everywhere(fmt.Sprint("seeds, function ", f), b.sfpu(0, f, false, in[:1], bf16))
				}
				b.everywhere("seeds, three tiles", b.sfpu(2, 6, false, in, bf16))
				for action := range 2 {
					b.everywhere(fmt.Sprint("seeds, rows ", action), b.rows(action, in[0], bf16, false, 2*n, n, 2))
				}
				b.everywhere("seeds, packed rows", b.rows(3, triple, bf16, false, 3, 1, 3))
				b.everywhere("seeds, other formats", b.run(source("reconfig.cpp", true), mixed, fp32, 5, 1))
				b.everywhere("seeds, integers", b.run(kernels.ComputeSource{
					Source: kernels.Source{Path: "testdata/compute/matmul.cpp", CompileArgs: []uint32{1, n, 1}}, WideDst: true,
				}, []pages{ints, ints}, int32s, 1))
				b.everywhere("seeds, sums in L1", b.rows(2, in[0], bf16, false, n, n, 2))
			})
			if !ok {
				return
			}
		}
	}
}

func TestComputeHeaders(t *testing.T) {
	kernels.NeedCompiler(t)
	var text strings.Builder
	n := 0
	err := fs.WalkDir(kernels.Sources(), "include/api/compute", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name := strings.TrimPrefix(path, "include/api/compute/")
			earlier := "compute_kernel_api/" + name
			if name == "compute_kernel_api.h" {
				earlier = name
			}
			fmt.Fprintf(&text, "#include \"api/compute/%s\"\n#include %q\n", name, earlier)
			n++
		}
		return err
	})
	expect.Must(t, err)
	if n < 30 {
		t.Errorf("only %d headers", n)
	}
	text.WriteString("void kernel_main() {}\n")
	for _, arch := range []chip.Arch{chip.Wormhole, chip.Blackhole} {
		var warnings bytes.Buffer
		src := kernels.ComputeSource{Source: kernels.Source{Path: "all.cpp", Text: text.String(), Arch: arch, Warnings: &warnings},
			WideDst: true}
		expect.Value(kernels.CompileCompute(t.Context(), src))(t)
		if warnings.Len() > 0 {
			t.Error(warnings.String())
		}
	}
}

func TestComputeRefused(t *testing.T) {
	src := kernels.Source{Path: "k.cpp", Text: "void kernel_main() {}", Arch: chip.Wormhole}
	for says, s := range map[string]kernels.ComputeSource{
		"circular buffer 32":       {Source: src, Formats: map[int]kernels.Format{32: bf16}},
		"no such format: format 3": {Source: src, Formats: map[int]kernels.Format{0: 3}},
		"fidelity 4":               {Source: src, Fidelity: 4},
		"can't be unpacked to Dst": {Source: src, UnpackToDst: []int{0}},
	} {
		expect.Says(t, expect.ErrOf(kernels.CompileCompute(t.Context(), s)), nil, says)
	}
}
