package tensix

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// path is a tile's formats: in L1, in the sources, in Dst, as packers read Dst, and in L1 again.
type path struct {
	in, src  arith.Format
	wide     bool
	mid, out arith.Format
}

func (p path) String() string {
	return fmt.Sprintf("%v by %v and a %s Dst to %v", p.in, p.src, width(p.wide), p.out)
}

func paths() []path {
	return []path{
		{arith.BF16, arith.BF16, false, arith.BF16, arith.BF16},
		{arith.BF16, arith.BF16, true, arith.FP32, arith.FP32},
		{arith.FP32, arith.TF32, false, arith.BF16, arith.BF16},
		{arith.FP32, arith.TF32, true, arith.FP32, arith.FP32},
		{arith.FP16, arith.FP16, false, arith.FP16, arith.FP16},
		{arith.FP16, arith.FP16, true, arith.FP32, arith.FP32},
		{arith.BFP8, arith.BFP8, false, arith.BFP8, arith.BFP8},
		{arith.BFP4, arith.BFP4, false, arith.BF16, arith.BFP4},
		{arith.LF8, arith.LF8, false, arith.FP16, arith.FP16},
		{arith.INT8, arith.INT8, true, arith.INT32, arith.INT32},
	}
}

// numbers returns bf16 patterns in fp32: both signs, some thirty powers of two, a few zeros.
func numbers(rnd *rand.Rand, n int) []uint32 {
	list := make([]uint32, n)
	for i := range list {
		if rnd.IntN(16) != 0 {
			list[i] = rnd.Uint32()&0x807FFFFF | uint32(112+rnd.IntN(30))<<23
		}
	}
	return list
}

func randomTile(rnd *rand.Rand, f arith.Format) []byte {
	values := numbers(rnd, arith.TileData)
	if f == arith.FP32 || f == arith.TF32 || f == arith.BF16 {
		return encoded(f, values)
	}
	b := make([]byte, f.TileBytes())
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	if f.BFP() {
		for i := range 64 {
			b[i] = byte(120 + rnd.IntN(12))
		}
	}
	return b
}

// encoded has numbers as bf16 or in 32 bits.
func encoded(f arith.Format, values []uint32) (b []byte) {
	for _, v := range values {
		if f == arith.BF16 {
			b = binary.LittleEndian.AppendUint16(b, uint16(v>>16))
		} else {
			b = rig.AppendWord(b, v)
		}
	}
	return b
}

type operands struct {
	*engineRun
	path path
	a, b arith.SrcTile
	m    arith.Math
	at   int
}

func (e *engines) operands(p path) *operands {
	return e.operandsOf(p, randomTile(e.rnd, p.in), randomTile(e.rnd, p.in))
}

func (e *engines) operandsOf(p path, dataA, dataB []byte) *operands {
	o := &operands{engineRun: e.newRun(), path: p}
	o.m = arith.Math{Arch: e.model, A: p.src, B: p.src, Wide: p.wide, Int8: p.src == arith.INT8}
	conversion := arith.Unpack{Arch: e.model, In: p.in, Out: p.src}
	for unit, data := range [][]byte{dataA, dataB} {
		to := []*arith.SrcTile{&o.a, &o.b}[unit]
		conversion.Tile(to, data)
		o.unpacker(source{unit: isa.Config(unit), in: p.in, out: p.src, addr: o.place(data)})
	}
	if p.wide {
		o.set(isa.Fp32Dst, 1)
		o.set(isa.Fp32SFPU, 1)
	}
	if p.src == arith.INT8 {
		o.set(isa.Int8Math, 1)
	}
	o.at, _ = o.packer(p.mid, p.out, p.wide)
	o.unpackTile(3, arith.TileData)
	// Instructions wait only for the sources that they read, but freeSources frees both.
	o.math().do(isa.STALLWAIT{Block: stallMath, Wait: e.waitValid()})
	return o
}

func (p path) pack(dst *arith.DstTile) []byte {
	return packedTile(&arith.Pack{Mid: p.mid, Out: p.out, Wide: p.wide}, dst)
}

func (o *operands) want(dst *arith.DstTile, what string, args ...any) {
	o.finish(o.at, o.path.pack(dst), what, args...)
}

// wantAny is want for bytes that may be equal.
func (o *operands) wantAny(want []byte, what string, args ...any) {
	o.packTile()
	o.output(o.at, want, what, args...)
}

func (o *operands) done(dst *arith.DstTile, what string, args ...any) {
	o.math().freeSources(3)
	o.want(dst, what, args...)
}

func matrixCases() rig.Table {
	var cs rig.Table
	add := adder(&cs)
	for _, p := range paths() {
		add(fmt.Sprintf("MVMUL of tiles, %v", p), "a product of tiles has package arith's bits in each fidelity",
			func(e *engines) { e.eachFidelity(p, products) })
		add(fmt.Sprintf("ELWMUL of tiles, %v", p), "products of data have package arith's bits in each fidelity",
			func(e *engines) { e.eachFidelity(p, elementwiseProducts) })
	}
	for _, p := range append(paths(), path{arith.BFP2, arith.BFP2, false, arith.BF16, arith.BF16}) {
		add(fmt.Sprintf("ELWADD and ELWSUB of tiles, %v", p), "sums and differences have package arith's bits, and add to Dst if asked",
			func(e *engines) { sums(e, p) })
	}
	for mod, what := range []string{1: "a column", 2: "a row", 3: "one datum"} {
		if mod == 0 {
			continue
		}
		add("SrcB broadcast from "+what, "elementwise instructions repeat what they are told of SrcB",
			func(e *engines) { broadcasts(e, uint32(mod)) })
	}
	for _, p := range paths()[:4] {
		add(fmt.Sprintf("GAPOOL, %v", p), "a product with four rows of SrcB has package arith's bits",
			func(e *engines) { e.eachFidelity(p, averages) })
		add(fmt.Sprintf("GMPOOL, %v", p), "maxima of columns are taken over rows of SrcA and what Dst has",
			func(e *engines) { maxima(e, p) })
	}
	add("products add to what Dst has", "a product of several tiles along K is accumulated in Dst", accumulated)
	add("denormals of SrcB count if asked", "the configuration says whether denormals of SrcB are numbers",
		denormals)
	return cs
}

// eachFidelity compares what instructions leave in Dst with a model's.
func (e *engines) eachFidelity(p path, run func(o *operands, dst *arith.DstTile, f arith.Fidelity)) {
	for _, f := range []arith.Fidelity{arith.LoFi, arith.HiFi2, arith.HiFi3, arith.HiFi4} {
		o := e.operands(p)
		var dst arith.DstTile
		run(o, &dst, f)
		o.want(&dst, "fidelity %d", f)
	}
}

func products(o *operands, dst *arith.DstTile, f arith.Fidelity) {
	o.matmul(f)
	o.m.MatmulTile(dst, &o.b, &o.a, f)
}

func elementwiseProducts(o *operands, dst *arith.DstTile, f arith.Fidelity) {
	o.elementwise(isa.ELWMUL{}, f)
	o.m.MulTile(dst, &o.a, &o.b, f)
}

func sums(e *engines, p path) {
	for _, twice := range []bool{false, true} {
		o := e.operands(p)
		var dst arith.DstTile
		o.m.AddTile(&dst, &o.a, &o.b, false)
		if twice {
			o.eight(isa.ELWADD{})
			o.eight(isa.ELWSUB{Accumulate: 1})
			o.m.SubTile(&dst, &o.a, &o.b, true)
		} else {
			o.eight(isa.ELWADD{})
		}
		o.done(&dst, "difference added: %v", twice)

		o = e.operands(p)
		o.elementwise(isa.ELWSUB{}, 1)
		dst = arith.DstTile{}
		o.m.SubTile(&dst, &o.a, &o.b, false)
		o.want(&dst, "difference")
	}
}

func broadcasts(e *engines, mod uint32) {
	for i, in := range []isa.Instruction{isa.ELWADD{Mod: mod}, isa.ELWSUB{Mod: mod}, isa.ELWMUL{Mod: mod}} {
		o := e.operands(paths()[i%2])
		o.elementwise(in, 1)
		repeated := o.b
		for row := range repeated {
			if mod&2 != 0 {
				repeated[row] = o.b[row&^7]
			}
			if mod&1 != 0 {
				for c := range repeated[row] {
					repeated[row][c] = repeated[row][0]
				}
			}
		}
		var dst arith.DstTile
		switch i {
		case 0:
			o.m.AddTile(&dst, &o.a, &repeated, false)
		case 1:
			o.m.SubTile(&dst, &o.a, &repeated, false)
		case 2:
			o.m.MulTile(&dst, &o.a, &repeated, arith.LoFi)
		}
		o.want(&dst, "%T", in)
	}
}

func averages(o *operands, dst *arith.DstTile, f arith.Fidelity) {
	m := o.math()
	m.mode(0, steps{a: 16})
	for n := range uint32(f) {
		last := o.phase(n)
		for face := range uint32(4) {
			mode := uint32(0)
			if face == 3 {
				mode = last
			}
			m.do(isa.GAPOOL{Dst: 4 * face, Mode: mode, Mod: 1})
		}
		m.do(rowCounters)
		o.m.Phase = uint8(n)
		var right [4]arith.MatrixA
		var left [4]arith.RowB
		o.m.DecodeRows(left[:], o.b[:4])
		for face := range right {
			o.m.DecodeA(&right[face], (*[16]arith.Row)(o.a[16*face:]))
			o.m.MulRows(dst.Hi[4*face:], dst.Lo[4*face:], &right[face], left[:])
		}
	}
	m.freeSources(3)
}

// maxima takes the columns' maxima of faces 0 and 1 into row 0, of 2 and 3 into row 4. SrcB holds
// ones.
func maxima(e *engines, p path) {
	ones := slices.Repeat([]uint32{fp32One}, arith.TileData)
	o := e.operandsOf(p, randomTile(e.rnd, p.in), encoded(p.in, ones))
	m := o.math()
	m.mode(0, steps{a: 16})
	var dst arith.DstTile
	for face := range uint32(4) {
		row := 4 * (face / 2)
		m.do(isa.GMPOOL{Dst: row, Mod: 1})
		low := (*arith.DstRow)(nil)
		if p.wide {
			low = &dst.Lo[row]
		}
		if face%2 == 0 { // less than all numbers, as a cleared row
			for c := range dst.Hi[row] {
				dst.Hi[row][c], dst.Lo[row][c] = 0xFFFF, 0xFFFF
			}
		}
		o.m.MaxPool(&dst.Hi[row], low, (*[16]arith.Row)(o.a[16*face:]))
	}
	o.done(&dst, "maxima")
}

func accumulated(e *engines) {
	for _, p := range paths()[:2] {
		o := e.operands(p)
		var dst arith.DstTile
		products(o, &dst, arith.LoFi)
		o.unpackTile(3, arith.TileData)
		m := o.math()
		m.do(mvmuls(0)...)
		m.do(rowCounters)
		m.freeSources(3)
		o.m.MatmulTile(&dst, &o.b, &o.a, arith.LoFi)
		o.want(&dst, "%v", p)
	}
}

// Only denormals of SrcB count, and only if asked.
func denormals(e *engines) {
	for keep := range uint32(2) {
		data := func() []byte {
			b := make([]byte, arith.BF16.TileBytes())
			for i := range arith.TileData {
				binary.LittleEndian.PutUint16(b[2*i:], uint16(e.rnd.Uint32())&0x81FF)
			}
			return b
		}
		o := e.operandsOf(paths()[0], data(), data())
		o.set(isa.KeepDenormals, keep)
		o.m.KeepDenormalsB = keep != 0
		o.elementwise(isa.ELWADD{}, 1)
		var dst arith.DstTile
		o.m.AddTile(&dst, &o.a, &o.b, false)
		o.want(&dst, "keep %d", keep)
	}
}
