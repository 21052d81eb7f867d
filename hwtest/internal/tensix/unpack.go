package tensix

import (
	"fmt"

	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

type unpackFormat struct {
	in, out  arith.Format
	exp4     bool // LF8 with exponents of 4 bits
	unsigned bool // INT8 without a sign
	forced   bool // blocks with an exponent from the configuration
}

func (f unpackFormat) String() string {
	s := f.in.String()
	if f.out != f.in {
		s += " as " + f.out.String()
	}
	switch {
	case f.exp4:
		s += " with exponents of 4 bits"
	case f.unsigned:
		s += " without a sign"
	case f.forced:
		s += " with one exponent for all blocks"
	}
	return s
}

func unpackFormats() []unpackFormat {
	return []unpackFormat{
		{in: arith.BF16, out: arith.BF16},
		{in: arith.FP16, out: arith.FP16},
		{in: arith.FP32, out: arith.BF16},
		{in: arith.FP32, out: arith.TF32},
		{in: arith.FP32, out: arith.FP16},
		{in: arith.BFP8, out: arith.BFP8},
		{in: arith.BFP4, out: arith.BFP4},
		{in: arith.BFP2, out: arith.BFP2},
		{in: arith.BFP8, out: arith.BFP8, forced: true},
		{in: arith.LF8, out: arith.LF8},
		{in: arith.LF8, out: arith.LF8, exp4: true},
		{in: arith.INT8, out: arith.INT8},
		{in: arith.INT8, out: arith.INT8, unsigned: true},
		{in: arith.INT16, out: arith.INT16},
	}
}

const forcedExponent = 125

func (f unpackFormat) conversion(e *engines) arith.Unpack {
	return arith.Unpack{Arch: e.model, In: f.in, Out: f.out, Exp4: f.exp4, Unsigned: f.unsigned, Forced: f.forced,
		SharedExponent: forcedExponent}
}

// moves is the path that shows a source's bits.
func (f unpackFormat) moves() path {
	switch f.out {
	case arith.TF32:
		return path{f.in, f.out, true, arith.FP32, arith.FP32}
	case arith.FP16, arith.LF8, arith.INT8:
		return path{f.in, arith.FP16, false, arith.FP16, arith.FP16}
	}
	return path{f.in, arith.BF16, false, arith.BF16, arith.BF16}
}

func (f unpackFormat) anyTile(e *engines) []byte {
	b := randomTile(e.rnd, f.in)
	if f.in == arith.BF16 || f.in == arith.FP32 {
		b = e.anyBytes(len(b))
	}
	if f.forced {
		b = b[64:]
	}
	return b
}

type unpacking struct {
	*engineRun
	format unpackFormat
	unit   isa.Config
	path   path
	data   []byte
	at     int
}

func (e *engines) unpacked(f unpackFormat, unit isa.Config) *unpacking {
	return e.unpackedData(f, unit, f.anyTile(e))
}

func (e *engines) unpackedData(f unpackFormat, unit isa.Config, data []byte) *unpacking {
	p := f.moves()
	r := &unpacking{engineRun: e.newRun(), format: f, unit: unit, path: p, data: data}
	r.unpacker(source{unit: unit, in: f.in, out: f.out, addr: r.place(data)})
	moved := f.out
	switch f.out {
	case arith.LF8, arith.INT8:
		moved = arith.FP16
	case arith.BFP2:
		moved = arith.BF16
	}
	r.set(isa.SrcAFormat, uint32(moved)) // moves of either source go by that of SrcA
	r.set(isa.SrcBFormat, uint32(moved))
	if f.exp4 {
		r.set(isa.UnpackFP8E4+unit, 1)
	}
	if f.unsigned {
		r.set(isa.SrcUnsigned+unit, 1)
	}
	if f.forced {
		r.set(isa.UnpackForceExponent+unit, 1)
		r.set(isa.UnpackExponent, forcedExponent)
	}
	if p.wide {
		r.set(isa.Fp32Dst, 1)
	}
	r.at, _ = r.packer(p.mid, p.out, p.wide)
	return r
}

func (r *unpacking) wantSource(tile *arith.SrcTile, from func(int) int, what string, args ...any) {
	r.show(r.unit)
	r.finish(r.at, r.path.pack(r.path.movedTile(tile, from)), what, args...)
}

func (r *unpacking) wantData(from func(int) int, what string) {
	r.wantSource(r.format.tile(r.engines, r.data), from, "%s", what)
}

// show moves a source to Dst and frees it. Blackhole's moves use the unpacked format unless told.
func (r *engineRun) show(unit isa.Config) {
	m := r.math()
	if r.blackhole() {
		m.set(isa.ThreadExplicitSrcA, 1)
		m.set(isa.ThreadExplicitSrcB, 1)
	}
	if unit == 0 {
		m.moveA()
	} else {
		m.moveB()
	}
	m.freeSources(1 << unit)
}

func unpackCases() rig.Table {
	var cs rig.Table
	add := adder(&cs)
	const converts, finds = "unpackers convert each format as package arith does, any bits",
		"unpackers find data where configuration and counters say"
	find := func(name string, fn func(*unpacking, *engineThread)) {
		add(name, finds, func(e *engines) {
			r := e.unpacked(unpackFormats()[0], 0)
			fn(r, r.unpack())
		})
	}
	faces := func(name string, fn func(*unpacking, *engineThread)) {
		find(name, func(r *unpacking, u *engineThread) {
			r.set(isa.UnpackZStride, 512) // a face in SrcA, in bytes
			u.do(isa.SETADCXX{Units: 1, End: 255})
			fn(r, u)
		})
	}
	for _, f := range unpackFormats() {
		for unit := range isa.Config(2) {
			if f.forced && unit == 1 {
				continue // the exponent is one of unpacker 0
			}
			add(fmt.Sprintf("UNPACR of %v to %s", f, sourceNames[unit]), converts, func(e *engines) {
				if f.exp4 && !e.blackhole() {
					e.Skip("Wormhole has exponents of 5 bits only")
				}
				r := e.unpacked(f, unit)
				r.unpackTile(1<<unit, arith.TileData)
				r.wantData(same, "tile")
			})
		}
	}
	for _, f := range []unpackFormat{{in: arith.FP32, out: arith.FP32}, {in: arith.INT32, out: arith.INT32}} {
		add(fmt.Sprintf("UNPACR of %s to Dst", f), converts, func(e *engines) {
			r := e.newRun()
			data := e.anyBytes(4 * arith.TileData)
			r.fillDst(f.in, data)
			at, _ := r.packer(arith.INT32, arith.INT32, true)
			r.finish(at, data, "tile")
		})
	}
	add("UNPACR transposes faces", finds, func(e *engines) {
		for _, f := range []unpackFormat{unpackFormats()[0], unpackFormats()[3], unpackFormats()[5]} {
			r := e.unpacked(f, 0)
			r.set(isa.UnpackHaloize, 1)
			r.unpackTile(1, arith.TileData)
			straight, turned := f.tile(e, r.data), new(arith.SrcTile)
			for i := range turned {
				for c := range turned[i] {
					turned[i][c] = straight[i&^15+c][i&15]
				}
			}
			r.wantSource(turned, same, "%v", f)
		}
	})
	add("UNPACR tilizes rows", finds, tilized)
	add("UNPACR takes part of a tile", finds, func(e *engines) {
		f := unpackFormats()[0]
		for _, n := range []uint32{16, 256, 512, 768} {
			r := e.unpacked(f, 0)
			r.unpackTile(1, arith.TileData)
			other := f.anyTile(e)
			base := r.place(other)
			u := r.unpack()
			// The rest keeps the bank's data of two tiles before.
			u.do(unpacr(0, 1), isa.SETADCXX{Units: 1, End: n - 1})
			u.rebase(0, base)
			u.do(unpacr(0, 1))
			m := r.math()
			for range 2 {
				m.do(isa.STALLWAIT{Block: stallMath, Wait: r.waitSource(0)})
				m.freeSources(1)
			}
			tile := *f.tile(e, r.data)
			copy(tile[:n/16], f.tile(e, other)[:n/16])
			r.wantSource(&tile, same, "%d data", n)
		}
	})
	faces("counters of channel 0 choose a face in L1", func(r *unpacking, u *engineThread) {
		u.do(isa.SETADCZW{Units: 1, Mask: 1, X0: 3}) // Z of channel 0: face 3
		for i := range uint32(4) {                   // in Dst's order: face 3, 2, 1, 0
			u.do(isa.SETADC{Units: 1, Channel: 1, Dimension: 2, Value: i})
			u.do(unpacr(0, i/3))
			if i < 3 {
				u.do(isa.SETADC{Units: 1, Channel: 0, Dimension: 2, Value: 2 - i})
			}
		}
		r.wantData(func(i int) int { return 48 - i&^15 + i&15 }, "faces in reverse")
	})
	faces("UNPACR advances counters by its address mode", func(r *unpacking, u *engineThread) {
		for i := range uint32(4) {
			u.do(isa.UNPACR{Last: 1, Valid: i / 3, Override: 1, Mode: 1 | 1<<4}) // Z of both channels
		}
		r.wantData(same, "face by face")
	})
	faces("INCADCZW and ADDRCRZW move counters", func(r *unpacking, u *engineThread) {
		u.do(unpacr(0, 0))
		u.do(isa.INCADCZW{Units: 1, X0: 2, X1: 1}) // Z 2 to 1
		u.do(unpacr(0, 0))
		u.do(isa.ADDRCRZW{Units: 1, Mask: 5, X0: 1, X1: 2}) // from 0: Z 1 to 2
		u.do(unpacr(0, 0))
		u.do(isa.ADDRCRZW{Units: 1, Mask: 5, X0: 2, X1: 1}) // from there: Z 3 to 3
		u.do(unpacr(0, 1))
		order := []int{0, 2, 1, 3}
		r.wantData(func(i int) int { return 16*order[i/16] + i%16 }, "faces")
	})
	find("SETADCXY, INCADCXY and ADDRCRXY move counters", func(r *unpacking, u *engineThread) {
		r.set(isa.UnpackDescriptor1, 1<<16|4) // Z 1, Y 4: a face is a step of Y
		r.set(isa.UnpackYStride, 512)
		u.do(isa.SETADCXX{Units: 1, End: 255})
		u.do(isa.SETADCXY{Units: 1, Mask: 10, Y0: 1, Y1: 0}) // 1 to 0
		u.do(unpacr(0, 0))
		u.do(isa.INCADCXY{Units: 1, Y0: 1, Y1: 1}) // 2 to 1
		u.do(unpacr(0, 0))
		u.do(isa.ADDRCRXY{Units: 1, Mask: 10, Y0: 2, Y1: 2}) // from 1 and 0: 3 to 2
		u.do(unpacr(0, 0))
		u.do(isa.SETADCXY{Units: 1, Mask: 10, Y0: 0, Y1: 3}) // 0 to 3
		u.do(unpacr(0, 1))
		r.wantData(func(i int) int { return 16*((i/16+1)%4) + i%16 }, "faces")
	})
	find("an unpacker has two contexts", func(r *unpacking, u *engineThread) {
		other := r.format.anyTile(r.engines)
		r.set(isa.UnpackBase+1, r.place(other)>>4-1)
		u.set(isa.ThreadUnpackContext, 1)
		r.unpackTile(1, arith.TileData)
		r.wantSource(r.format.tile(r.engines, other), same, "the second context's tile")
	})
	find("an offset is added to the address of data", func(r *unpacking, _ *engineThread) {
		other := r.format.anyTile(r.engines)
		r.place(other)
		r.set(isa.UnpackOffset, uint32(len(r.data))/16)
		r.unpackTile(1, arith.TileData)
		r.wantSource(r.format.tile(r.engines, other), same, "the tile after the first")
	})
	add("unpackers fill one bank while the other is in use", "banks go back and forth between unpackers and matrix unit",
		func(e *engines) {
			f := unpackFormats()[0]
			const n = 6
			r := e.newRun()
			r.sources() // each tile is rebased to
			m := arith.Math{Arch: e.model, A: f.in, B: f.in}
			var dst arith.DstTile
			u := r.unpack()
			u.do(isa.SETADCXX{Units: 3, End: arith.TileData - 1})
			for i := range n {
				tiles := [2]*arith.SrcTile{}
				for unit := range isa.Config(2) {
					data := randomTile(e.rnd, f.in)
					tiles[unit] = f.tile(e, data)
					u.rebase(unit, r.place(data))
					u.do(unpacr(uint32(unit), 1))
				}
				r.eight(isa.ELWADD{Accumulate: min(1, uint32(i))})
				r.math().freeSources(3)
				m.AddTile(&dst, tiles[0], tiles[1], i > 0)
			}
			at, _ := r.packer(arith.BF16, arith.BF16, false)
			r.finish(at, paths()[0].pack(&dst), "sum of all")
		})
	return cs
}

func (f unpackFormat) tile(e *engines, data []byte) *arith.SrcTile {
	c := f.conversion(e)
	var tile arith.SrcTile
	if f.forced {
		data = append(make([]byte, 64), data...)
	}
	c.Tile(&tile, data)
	return &tile
}

// rebase changes the address after the unpacker's instructions.
func (th *engineThread) rebase(unit isa.Config, addr uint32) {
	word, v, err := (isa.UnpackBase + 2*unit).Place(th.r.arch, addr>>4-1)
	th.r.OK(err)
	th.do(isa.STALLWAIT{Block: stallTDMA, Wait: th.r.waitUnpack()})
	th.sync() // the core's store must not pass them
	th.store(config(word), v)
	th.do(isa.STALLWAIT{Block: stallUnpack, Wait: th.r.waitStores()})
}

func tilized(e *engines) {
	const columns = 64
	for _, f := range []unpackFormat{unpackFormats()[0], unpackFormats()[3]} {
		size := f.in.Bits() / 8
		matrix := encoded(f.in, numbers(e.rnd, columns*columns))
		r := e.unpackedData(f, 0, matrix)
		r.set(isa.UnpackTilize, 1)
		stride := uint32(columns * size)
		r.set(isa.UnpackShift0, stride>>4&15)
		r.set(isa.UnpackShift1, stride>>8&15)
		r.set(isa.UnpackShift2, stride>>12&15)
		r.unpackTile(1, arith.TileData)
		// Wormhole takes 16 data of each row, Blackhole 32.
		width := by(e, 16, 32)
		rows := make([]byte, 0, f.in.TileBytes())
		for i := range arith.TileData / width {
			rows = append(rows, matrix[i*int(stride):][:width*size]...)
			if len(rows) == f.in.TileBytes() {
				break
			}
		}
		r.wantSource(f.tile(e, rows), same, "%v", f)
	}
}
