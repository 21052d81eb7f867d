package tensix

import (
	"encoding/binary"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

func (r *engineRun) packConfig(p *arith.Pack) {
	r.set(isa.Relu, uint32(p.Relu))
	r.set(isa.ReluThreshold, uint32(p.Threshold))
	if p.Round10 {
		r.set(isa.PackRound10, 1)
	}
	if p.Unsigned {
		r.set(isa.PackReadUnsigned, 1)
	}
	if p.Accumulate {
		for i := range r.packers() {
			r.set(isa.PackAccumulate+i, 1)
		}
	}
	if p.Out == arith.LF8 {
		r.set(isa.PackFP8E4, 1)
	}
}

// inDst begins a run with any bits in Dst: from SrcA if Dst has 16 bits, else from the unpacker.
func (e *engines) inDst(p *arith.Pack) (r *engineRun, dst *arith.DstTile) {
	if p.Wide {
		r = e.newRun()
		data := e.anyBytes(4 * arith.TileData)
		if p.Mid == arith.INT8 {
			for i := range arith.TileData / 2 {
				rig.PutWord(data[8*i:], uint32(e.rnd.IntN(400))|e.rnd.Uint32()&signBit)
			}
		}
		r.fillDst(arith.INT32, data)
		dst = new(arith.DstTile)
		(&arith.Unpack{Arch: e.model, In: arith.INT32, Out: arith.INT32}).DstTile(dst, data)
		return r, dst
	}
	f := unpackFormat{in: arith.BF16, out: arith.BF16}
	if p.Mid == arith.FP16 && !p.Round10 || p.Mid == arith.BFP8A {
		f = unpackFormat{in: arith.FP16, out: arith.FP16}
	}
	r = e.newRun()
	data := e.anyBytes(f.in.TileBytes())
	r.unpacker(source{in: f.in, out: f.out, addr: r.place(data)})
	r.unpackTile(1, arith.TileData)
	r.math().moveA()
	r.math().freeSources(1)
	return r, f.moves().movedTile(f.tile(e, data), same)
}

// packing is inDst with packers that are configured for the tile, at a place in the output.
func (e *engines) packing(p *arith.Pack) (r *engineRun, dst *arith.DstTile, at int, addr uint32) {
	r, dst = e.inDst(p)
	at, addr = r.packer(p.Mid, p.Out, p.Wide)
	return r, dst, at, addr
}

func (e *engines) checkPack(p *arith.Pack, what string, args ...any) {
	r, dst, at, _ := e.packing(p)
	r.packConfig(p)
	want := make([]byte, p.Out.TileBytes())
	if p.Accumulate {
		copy(want, randomTile(e.rnd, p.Out))
		r.before[at] = append([]byte(nil), want...)
	}
	p.Tile(want, dst)
	r.finish(at, want, what, args...)
}

func packFormats() []arith.Pack {
	var list []arith.Pack
	add := func(wide bool, mid arith.Format, outs ...arith.Format) {
		for _, out := range outs {
			list = append(list, arith.Pack{Mid: mid, Out: out, Wide: wide})
		}
	}
	add(false, arith.FP16, arith.FP32, arith.FP16, arith.BF16)
	add(false, arith.BFP8A, arith.BFP8)
	add(false, arith.BF16, arith.FP32, arith.BF16, arith.BFP8, arith.BFP4, arith.BFP2)
	add(false, arith.BFP8, arith.FP32, arith.BF16, arith.BFP8, arith.BFP4)
	add(false, arith.INT16, arith.INT16)
	add(true, arith.FP32, arith.FP32, arith.FP16, arith.BFP8, arith.BFP4, arith.BFP2)
	add(true, arith.BF16, arith.BF16)
	add(true, arith.BFP8, arith.BFP8, arith.BFP4)
	add(true, arith.INT32, arith.INT32)
	add(true, arith.INT16, arith.INT16)
	add(true, arith.INT8, arith.INT8)
	return list
}

func width(wide bool) string {
	if wide {
		return "32-bit"
	}
	return "16-bit"
}

func packCases() rig.Table {
	var cs rig.Table
	add := adder(&cs)
	const converts, orders = "packers convert each format as package arith says, any bits",
		"packers put rows where configuration and counters say"
	for _, p := range packFormats() {
		add(fmt.Sprintf("PACR of %v from a %s Dst as %v", p.Mid, width(p.Wide), p.Out), converts, func(e *engines) {
			e.checkPack(&p, "tile")
		})
	}
	add("PACR of integers of 8 bits without a sign", converts, func(e *engines) {
		e.checkPack(&arith.Pack{Mid: arith.INT8, Out: arith.INT8, Wide: true, Unsigned: true}, "tile")
	})
	for _, p := range []arith.Pack{
		{Mid: arith.FP16, Out: arith.LF8}, {Mid: arith.FP16, Out: arith.FP16, Wide: true, Round10: true},
		{Mid: arith.FP16, Out: arith.LF8, Wide: true, Round10: true}, {Mid: arith.FP16, Out: arith.LF8, Round10: true},
	} {
		name := fmt.Sprintf("PACR of %v from a %s Dst as %v", p.Mid, width(p.Wide), p.Out)
		if p.Round10 {
			name += ", rounded to 10 bits"
		}
		add(name, converts, func(e *engines) {
			e.only(chip.Blackhole)
			e.checkPack(&p, "tile")
		})
	}
	for relu, what := range []string{arith.ReluZero: "negative numbers become zero", arith.ReluMin: "numbers up to a threshold become zero",
		arith.ReluMax: "numbers beyond a threshold become it"} {
		if relu == 0 {
			continue
		}
		add("ReLU: "+what, "packers apply ReLU as package arith says", func(e *engines) {
			for _, p := range []arith.Pack{
				{Mid: arith.BF16, Out: arith.BF16, Threshold: 0x3F80}, {Mid: arith.FP16, Out: arith.FP16, Threshold: 0x3C00},
				{Mid: arith.BF16, Out: arith.BF16, Wide: true, Threshold: 0x4000}, {Mid: arith.FP32, Out: arith.FP32, Wide: true, Threshold: 0x3F00},
			} {
				p.Relu = arith.Relu(relu)
				e.checkPack(&p, "%v from a %s Dst", p.Mid, width(p.Wide))
			}
		})
	}
	for _, p := range []arith.Pack{
		{Mid: arith.BF16, Out: arith.BF16}, {Mid: arith.FP16, Out: arith.FP16}, {Mid: arith.BF16, Out: arith.FP32}, {Mid: arith.FP32, Out: arith.FP32, Wide: true},
	} {
		p.Accumulate = true
		add(fmt.Sprintf("PACR adds %v to L1 from a %s Dst", p.Out, width(p.Wide)), "packers add to what L1 has, as package arith says",
			func(e *engines) {
				e.checkPack(&p, "tile")
			})
	}
	add("edge masks clear rows", "data beyond the edge of a face become zero", func(e *engines) {
		edges(e, 0, func(row, column int) bool { return row%16 < 5 })
	})
	add("edge masks clear columns", "data beyond the edge of a face become zero", func(e *engines) {
		edges(e, 1, func(row, column int) bool { return row%16 < 5 || column == 0 })
	})
	add("PACR untilizes", orders, untilized)
	add("PACR of some packers, or read interfaces", orders, partly)
	add("packers begin where the configuration says", orders, func(e *engines) {
		p := arith.Pack{Mid: arith.BF16, Out: arith.BF16}
		r, dst := e.inDst(&p)
		r.math().words = r.math().words[:0]
		m := r.math()
		m.do(isa.INCRWC{D: 8}, isa.INCRWC{D: 8}) // rows 16 on
		m.moveA()
		m.freeSources(1)
		at, _ := r.packer(p.Mid, p.Out, p.Wide)
		r.packFrom(16)
		r.finish(at, packedTile(&p, dst), "tile")
	})
	return cs
}

func (e *engines) only(a chip.Arch) {
	if e.arch != a {
		e.Skipf("only %v has this", a)
	}
}

// edges packs a tile: mask 0 keeps rows 0 to 4 of each face, mask 1 applies to the others.
func edges(e *engines, columns uint32, keep func(row, column int) bool) {
	for _, p := range []arith.Pack{{Mid: arith.BF16, Out: arith.BF16}, {Mid: arith.FP32, Out: arith.FP32, Wide: true}} {
		r, dst, at, _ := e.packing(&p)
		r.set(isa.EdgeMask+1, columns)
		for row := range isa.Config(32) {
			if row%16 >= 5 {
				r.set(isa.RowSets+row, 1)
			}
		}
		if !e.blackhole() {
			r.set(isa.EdgeRowSet, 0x44) // packers 1 and 3 by the second set
		}
		for row := range dst.Hi {
			for c := range dst.Hi[row] {
				if !keep(row, c) {
					dst.Hi[row][c], dst.Lo[row][c] = 0, 0
				}
			}
		}
		r.finish(at, packedTile(&p, dst), "%v", p.Mid)
	}
}

const (
	gprAddress = 4
	gprStep    = 8
)

// untilized packs a tile as a row-major matrix, one face's row to each packer or read interface.
func untilized(e *engines) {
	p := arith.Pack{Mid: arith.BF16, Out: arith.BF16}
	r, dst, at, addr := e.packing(&p)
	r.handOver()
	k := r.pack()
	const rowUnits = 64 / 16
	if e.blackhole() {
		r.set(isa.DstSwizzle, 1)
		r.set(isa.DstRemap, 1)
		r.set(isa.PackOutYStride, 64)
	} else {
		r.set(isa.PackOut+1, 2-1) // the right half of a row
		k.store(gpr(gprAddress), 1<<31|(addr>>4-1))
		k.store(gpr(gprStep), rowUnits)
		k.load(gpr(gprStep))
	}
	k.do(isa.SETADCXX{Units: 4, End: 15}, awaitDst)
	k.own(value{isa.ThreadPackModeYSrcIncrement, 1}, value{isa.ThreadPackModeYDstIncrement, e.by(0, 1)})
	for row := range uint32(32) {
		if row == 16 {
			k.do(isa.SETADC{Units: 4, Dimension: 1}, isa.SETADC{Units: 4, Dimension: 2, Value: 2}) // Y 0, Z 2: faces 2 and 3
		}
		if e.blackhole() {
			k.do(isa.PACR{Last: 1, Interfaces: 3, Strided: 1})
			continue
		}
		k.do(isa.PACR{Last: 1, Packers: 3},
			isa.ADDDMAREG{Dst: gprAddress, A: gprAddress, B: gprStep},
			isa.STALLWAIT{Block: stallConfig, Wait: r.waitPack() | waitThcon})
		word, _, err := isa.PackOut.Place(e.arch, 0)
		e.OK(err)
		k.do(isa.WRCFG{Word: word, Gpr: gprAddress}, isa.NOP{}, isa.DMANOP{})
	}
	k.packed()
	tile := packedTile(&p, dst)
	data, matrix := make([]uint16, arith.TileData), make([]uint16, arith.TileData)
	for i := range data {
		data[i] = binary.LittleEndian.Uint16(tile[2*i:])
	}
	arith.Untilize(matrix, data, 32)
	for i, v := range matrix {
		binary.LittleEndian.PutUint16(tile[2*i:], v)
	}
	r.output(at, tile, "matrix")
}

func partly(e *engines) {
	p := arith.Pack{Mid: arith.BF16, Out: arith.BF16}
	masks := by(e, []uint32{1, 3}, []uint32{1, 3, 5, 10})
	for _, mask := range masks {
		r, dst, at, _ := e.packing(&p)
		r.handOver()
		k := r.pack()
		k.do(isa.SETADCXX{Units: 4, End: e.by(255, 15)}, awaitDst)
		k.do(isa.PACR{Last: 1, Packers: e.by(mask, 0), Interfaces: e.by(0, mask)})
		k.packed()
		tile := packedTile(&p, dst)
		want := make([]byte, len(tile))
		for i := range want {
			want[i] = unwritten
		}
		if !e.blackhole() {
			copy(want, tile[:512*int(1+mask/3)])
		} else {
			rows := map[uint32][]int{1: {0}, 3: {0, 1}, 5: {0, 2}, 10: {1, 3}}[mask]
			for i, row := range rows {
				copy(want[32*i:], tile[32*row:][:32])
			}
		}
		r.output(at, want, "mask %#x", mask)
	}
}

const waitThcon = 1
