package hwtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// path is the way of a tile: format in L1, in the sources, which Dst, as packers read it, and in L1 again.
type path struct {
	in, src  arith.Format
	wide     bool
	mid, out arith.Format
}

func (p path) String() string {
	dst := "16-bit"
	if p.wide {
		dst = "32-bit"
	}
	return fmt.Sprintf("%v by %v and a %s Dst to %v", p.in, p.src, dst, p.out)
}

// int8 reports whether the matrix unit computes with integers.
func (p path) int8() bool { return p.src == arith.INT8 }

// paths of the matrix unit's results.
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

// random returns random numbers that are the same in every run of a case.
func random(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

// numbers returns n numbers as bf16 patterns in fp32: of both signs, over some thirty powers of two, with a few zeros.
func numbers(rnd *rand.Rand, n int) []uint32 {
	list := make([]uint32, n)
	for i := range list {
		if rnd.IntN(16) != 0 {
			list[i] = rnd.Uint32()&0x807FFFFF | uint32(112+rnd.IntN(30))<<23
		}
	}
	return list
}

// randomTile returns a tile of a format as it is in L1.
func randomTile(rnd *rand.Rand, f arith.Format) []byte {
	b := make([]byte, f.TileBytes())
	values := numbers(rnd, arith.TileData)
	switch f {
	case arith.FP32, arith.TF32:
		for i, v := range values {
			binary.LittleEndian.PutUint32(b[4*i:], v)
		}
	case arith.BF16:
		for i, v := range values {
			binary.LittleEndian.PutUint16(b[2*i:], uint16(v>>16))
		}
	default: // any bits
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		if f.BFP() {
			for i := range 64 {
				b[i] = byte(120 + rnd.IntN(12))
			}
		}
	}
	return b
}

// operands is a run with two tiles in SrcA and SrcB, and what package arith says of them.
type operands struct {
	*engineRun
	path path
	a, b arith.SrcTile
	m    arith.Math
	at   int // of the result in the output
}

// operands begins a run that unpacks two tiles to SrcA and SrcB and packs a tile of Dst.
func (e *engines) operands(rnd *rand.Rand, p path) *operands {
	e.Helper()
	o := &operands{engineRun: e.newRun(), path: p}
	o.m = arith.Math{Arch: e.sort, A: p.src, B: p.src, Wide: p.wide, Int8: p.int8()}
	conversion := arith.Unpack{Arch: e.sort, In: p.in, Out: p.src}
	for unit, to := range []*arith.SrcTile{&o.a, &o.b} {
		data := randomTile(rnd, p.in)
		conversion.Tile(to, data)
		o.unpacker(source{unit: isa.Config(unit), in: p.in, out: p.src, addr: o.place(data)})
	}
	if p.wide {
		o.set(isa.Fp32Dst, 1)
		o.set(isa.Fp32SFPU, 1)
	}
	if p.int8() {
		o.set(isa.Int8Math, 1)
	}
	var addr uint32
	o.at, addr = o.reserve(p.out.TileBytes())
	o.packer(packer{p.mid, p.out, p.wide, addr})
	o.unpackTile(3, arith.TileData)
	return o
}

// pack returns a tile of Dst as the packers leave it in L1.
func (p path) pack(dst *arith.DstTile) []byte {
	b := make([]byte, p.out.TileBytes())
	(&arith.Pack{Mid: p.mid, Out: p.out, Wide: p.wide}).Tile(b, dst)
	return b
}

// want packs, runs, and compares the tile with one of Dst.
func (o *operands) want(what string, dst *arith.DstTile) {
	o.Helper()
	o.packTile()
	o.run()
	o.wantTile(what, o.at, o.path.pack(dst))
}

// wantTile compares part of the output with what a case that says something doesn't expect to be all the same.
func (r *engineRun) wantTile(what string, at int, want []byte) {
	r.Helper()
	if bytes.Count(want, want[:1]) == len(want) {
		r.Fatalf("%s: every byte would be %#x, which says nothing", what, want[0])
	}
	r.wantBytes(what, at, want)
}

func fidelities() []arith.Fidelity {
	return []arith.Fidelity{arith.LoFi, arith.HiFi2, arith.HiFi3, arith.HiFi4}
}

var fidelityNames = map[arith.Fidelity]string{arith.LoFi: "LoFi", arith.HiFi2: "HiFi2", arith.HiFi3: "HiFi3", arith.HiFi4: "HiFi4"}

func tensixMatrixCases() []testCase {
	var cs []testCase
	for _, p := range paths() {
		name := fmt.Sprintf("MVMUL of tiles, %v", p)
		cs = append(cs, testCase{
			name:     name,
			protects: "a product of tiles has the bits that package arith computes, in each fidelity",
			fn:       func(t *fixture) { products(t, name, p) },
		})
	}
	return cs
}

func products(t *fixture, name string, p path) {
	e, rnd := t.engines(), random(name)
	for _, f := range fidelities() {
		o := e.operands(rnd, p)
		o.matmul(f)
		var dst arith.DstTile
		o.m.MatmulTile(&dst, &o.b, &o.a, f)
		o.want(fidelityNames[f], &dst)
	}
}
