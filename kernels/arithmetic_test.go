package kernels_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kernels"
)

// Both are structures of testdata/arithmetic.c.
type (
	operands struct {
		A, B float64
		M, N uint64
		X, Y float32
	}
	results struct {
		Sum, Difference, Product, Quotient, Widened, Converted float64
		Times, Over, Rest, Whole                               uint64
		Less                                                   int64
		Total, Rate, Share, Narrowed                           float32
	}
)

func (o *operands) results() results {
	r := results{
		o.A + o.B, o.A - o.B, o.A * o.B, o.A / o.B, float64(o.X), float64(o.M),
		o.M * o.N, o.M / o.N, o.M % o.N, 0,
		int64(o.M) / int64(o.N),
		o.X + o.Y, o.X * o.Y, o.X / o.Y, float32(o.A),
	}
	if o.A > 0 && o.A < 1e18 {
		r.Whole = uint64(o.A)
	}
	if o.A < o.B {
		r.Less--
	}
	return r
}

func TestArithmetic(t *testing.T) {
	kernels.NeedCompiler(t)
	r := rand.New(rand.NewPCG(1, 2))
	odd := []float64{0, math.Copysign(0, -1), 1, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, math.SmallestNonzeroFloat64,
		math.MaxFloat32, math.SmallestNonzeroFloat32, 0x1p-1022, 0x1p-126}
	var all []operands
	for i := range 200 {
		number := func(k int) float64 {
			if i < len(odd)*len(odd) {
				return odd[k%len(odd)]
			}
			return r.NormFloat64() * math.Ldexp(1, r.IntN(120)-60)
		}
		a, b := number(i), number(i/len(odd))
		all = append(all, operands{a, b, r.Uint64() >> r.IntN(64), r.Uint64()>>r.IntN(64) | 1, float32(a), float32(b)})
	}
	var in bytes.Buffer
	devtest.Must(t, binary.Write(&in, binary.LittleEndian, all))
	var want []results
	for i := range all {
		want = append(want, all[i].results())
	}
	size := binary.Size(want)
	same := cmp.Options{
		cmp.Comparer(func(x, y float64) bool { return x != x && y != y || math.Float64bits(x) == math.Float64bits(y) }),
		cmp.Comparer(func(x, y float32) bool { return x != x && y != y || math.Float32bits(x) == math.Float32bits(y) }),
	}
	for _, k := range backends(harvested) {
		t.Run(k.name, func(t *testing.T) {
			b := open(t, k)
			core := []chip.Range{chip.Single(0, 0)}
			page := in.Len() + size
			buf, err := b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, PageSize: page, Sharding: &allocator.ShardSpec{
				Layout: allocator.HeightSharded, Tensor: []int{1, 1}, Shard: []int{1, 1}, Cores: core}})
			b.must(err)
			for p := chip.BRISC; p <= chip.TRISC2; p++ {
				b.must(b.dev.Queue(0).Write(b.ctx, buf, 0, append(bytes.Clone(in.Bytes()), make([]byte, size)...)))
				x := b.load(&reprise.Program{Name: "arithmetic", Buffers: []*reprise.Buffer{buf}, Kernels: []reprise.Kernel{
					kernel("arithmetic", b.single("testdata/arithmetic.c"), p, core, buf.Addr(), uint32(len(all)))}})
				b.must(b.dev.Queue(0).Run(b.ctx, x))
				out, got := make([]byte, page), make([]results, len(all))
				b.must(b.dev.Queue(0).Read(b.ctx, buf, 0, out))
				_, err := binary.Decode(out[in.Len():], binary.LittleEndian, got)
				b.must(err)
				for i := range got {
					if diff := cmp.Diff(want[i], got[i], same); diff != "" {
						t.Fatalf("%v of %+v:\n%s", p, all[i], diff)
					}
				}
				b.must(x.Release(b.ctx))
			}
		})
	}
}
