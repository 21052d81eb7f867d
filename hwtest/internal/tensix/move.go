package tensix

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/hwtest/rig"
	"github.com/reprise-tt/reprise/sim/emu/tensix/arith"
	"github.com/reprise-tt/reprise/sim/emu/tensix/isa"
)

// toDst converts a row of a source to Dst as a move does: denormals become zero.
func (p path) toDst(hi, lo *arith.DstRow, row *arith.Row) {
	for c, v := range row {
		if v&0x7F800000 == 0 {
			v = 0
		}
		switch p.src {
		case arith.TF32:
			v = arith.EncodeDst32(v)
			hi[c], lo[c] = uint16(v>>16), uint16(v)
		case arith.FP16:
			hi[c] = arith.EncodeDstFP16(uint16(v>>16&0x8000 | v>>13&0x7FFF))
		default:
			hi[c] = arith.EncodeDstBF16(uint16(v >> 16))
		}
	}
}

func (p path) movedTile(src *arith.SrcTile, row func(int) int) *arith.DstTile {
	var dst arith.DstTile
	for i := range dst.Hi {
		p.toDst(&dst.Hi[i], &dst.Lo[i], &src[row(i)])
	}
	return &dst
}

func same(i int) int { return i }

// rowsOfA is SrcA moved to Dst.
func (o *operands) rowsOfA() *arith.DstTile { return o.path.movedTile(&o.a, same) }

func (th *engineThread) moveA() {
	for i := range uint32(8) {
		th.do(isa.MOVA2D{Dst: 8 * i, Src: 8 * i, Mod: 2})
	}
}

func (th *engineThread) moveB() {
	for i := range uint32(16) {
		th.do(isa.MOVB2D{Dst: 4 * i, Src: 4 * i, Mod: 4})
	}
}

func (th *engineThread) settle() {
	th.do(isa.STALLWAIT{Block: stallMath, Wait: th.r.waitMath()})
}

func movePaths() []path { return []path{paths()[0], paths()[4], paths()[3]} }

func moveCases() rig.Table {
	var cs rig.Table
	add := adder(&cs)
	on := func(a chip.Arch, name, protects string, fn func(*engines)) {
		add(name, protects, func(e *engines) {
			e.only(a)
			fn(e)
		})
	}
	moved := func(name, protects string, path int, fn func(*operands, *engineThread)) {
		add(name, protects, func(e *engines) {
			o := e.operands(paths()[path])
			fn(o, o.math())
		})
	}
	const moves, clears, counts, banks = "moves take rows between sources and Dst, and change denormals only",
		"what is cleared reads as zero, and nothing else changes", "counters find rows as the address mode says",
		"banks go back and forth between unpackers and matrix unit"
	for _, p := range movePaths() {
		add(fmt.Sprintf("MOVA2D of %v", p.src), moves, func(e *engines) {
			o := e.operands(p)
			o.math().moveA()
			o.done(o.rowsOfA(), "tile")
		})
	}
	for i, what := range []string{"a row eight times", "a datum in eight rows", "four rows", "a column of four rows"} {
		mod := uint32(2 + i)
		add("MOVB2D of "+what, moves, func(e *engines) { moveB(e, mod) })
	}
	moved("MOVD2A", moves, 0, func(o *operands, m *engineThread) {
		m.moveA()
		m.settle()
		for i := range uint32(16) {
			m.do(isa.MOVD2A{Dst: 4 * i, Src: 60 - 4*i, Mod: 2})
		}
		m.moveA()
		o.done(o.path.movedTile(&o.a, reversed), "blocks of four rows in reverse")
	})
	add("MOVD2B", moves, func(e *engines) {
		for _, p := range movePaths() {
			o := e.operands(p)
			m := o.math()
			m.moveA()
			m.settle()
			for i := range uint32(16) {
				m.do(isa.MOVD2B{Dst: 4 * i, Src: 60 - 4*i, Mod: 2})
			}
			m.moveB()
			o.done(p.movedTile(&o.a, reversed), "blocks of four rows of %v in reverse", p.src)
		}
	})
	moved("MOVB2A", moves, 0, func(o *operands, m *engineThread) {
		for i := range uint32(16) {
			m.do(isa.MOVB2A{Srcb: 4 * i, Srca: 60 - 4*i, Mod: 2})
		}
		m.moveA()
		o.done(o.path.movedTile(&o.b, reversed), "blocks of four rows in reverse")
	})
	moved("TRNSPSRCB transposes rows 16 to 31", moves, 0, func(o *operands, m *engineThread) {
		m.do(isa.TRNSPSRCB{})
		m.moveB()
		b := o.b
		for i := range 16 {
			for c := range 16 {
				b[16+i][c] = o.b[16+c][i]
			}
		}
		o.done(o.path.movedTile(&b, same), "tile")
	})

	for _, c := range []struct {
		name string
		in   isa.ZEROACC
		is   func(row int) bool
	}{
		{"one row", isa.ZEROACC{Dst: 37}, func(i int) bool { return i == 37 }},
		{"16 rows", isa.ZEROACC{Clear: 1, Dst: 2}, func(i int) bool { return i/16 == 2 }},
		{"all rows", isa.ZEROACC{Clear: 3}, func(int) bool { return true }},
	} {
		add("ZEROACC of "+c.name, clears, func(e *engines) { cleared(e, 0, c.in, c.is) })
	}
	add("ZEROACC of a half of Dst", clears, clearedHalves)
	add("ZEROACC of a row of 32 bits", clears, func(e *engines) {
		cleared(e, 3, isa.ZEROACC{Dst: 37}, func(i int) bool { return i == 37 })
	})
	on(chip.Blackhole, "ZEROACC clears 16 rows of 32 bits, and makes them valid again", clears, func(e *engines) {
		cleared(e, 3, isa.ZEROACC{Clear: 1, Wide: 1, Dst: 1}, func(i int) bool { return i/16 == 1 },
			isa.ZEROACC{Clear: 1, Wide: 1, Dst: 2}, isa.ZEROACC{Clear: 1, Wide: 1, Revive: 1, Dst: 2})
	})
	add("ZEROSRC clears the matrix unit's bank", clears, func(e *engines) {
		for _, sources := range []uint32{1, 2} {
			o := e.operands(paths()[0])
			m := o.math()
			m.do(isa.ZEROSRC{Sources: sources, Write: 1})
			o.elementwise(isa.ELWADD{}, 1)
			a, b := o.a, o.b
			if sources == 1 {
				a = arith.SrcTile{}
			} else {
				b = arith.SrcTile{}
			}
			var dst arith.DstTile
			o.m.AddTile(&dst, &a, &b, false)
			o.want(&dst, "sources %d", sources)
		}
	})
	moved("ZEROSRC clears all banks", clears, 0, func(o *operands, m *engineThread) {
		m.do(isa.ZEROSRC{Sources: 3, Both: 1})
		o.elementwise(isa.ELWADD{}, 1)
		o.wantAny(make([]byte, arith.BF16.TileBytes()), "sum")
	})
	add("UNPACR_NOP fills SrcA with zeros and makes it valid", clears, func(e *engines) {
		o := e.filled(1, 0)
		o.elementwise(isa.ELWADD{}, 1)
		var dst arith.DstTile
		o.m.AddTile(&dst, &arith.SrcTile{}, &o.b, false)
		o.want(&dst, "sum")
	})
	add("UNPACR_NOP fills SrcA with what is less than all numbers", clears, func(e *engines) {
		o := e.filled(5, 1)
		o.math().moveA()
		o.math().do(isa.MOVB2D{Src: 0, Mod: 4})
		o.math().freeSources(3)
		var lowest arith.SrcTile
		for i := range lowest {
			for c := range lowest[i] {
				lowest[i][c] = 0xFFFFE000
			}
		}
		copy(lowest[:4], o.b[:4])
		o.want(o.path.movedTile(&lowest, same), "tile")
	})
	add("CLEARDVALID frees banks for the unpackers", banks,
		func(e *engines) {
			o := e.operands(paths()[0])
			o.sums(5, func() {
				o.eight(isa.ELWADD{Accumulate: 1})
				o.math().do(isa.CLEARDVALID{Sources: 3})
			})
		})
	on(chip.Wormhole, "SETDVALID makes a bank valid that nothing has filled", banks,
		func(e *engines) {
			o := e.operandsAlone(1)
			o.unpack().do(isa.SETDVALID{Sources: 2})
			m := o.math()
			m.moveA()
			o.done(o.rowsOfA(), "tile")
		})
	add("the matrix unit frees a source with its last instruction", "the field clear of an instruction frees banks after it",
		func(e *engines) {
			o := e.operands(paths()[0])
			m := o.math()
			m.mode(0, byEight)
			o.sums(3, func() {
				for range 7 {
					m.do(isa.ELWADD{Accumulate: 1})
				}
				m.do(isa.ELWADD{Accumulate: 1, Clear: 3}, rowCounters)
			})
		})

	moved("the thread's offset in Dst", counts, 0, func(o *operands, m *engineThread) {
		m.set(isa.ThreadDstOffset, 192)
		m.moveA()
		o.packFrom(192)
		o.done(o.rowsOfA(), "tile")
	})
	add("INCRWC", counts, func(e *engines) {
		countedMoves(e, isa.INCRWC{A: 8, D: 8}, isa.MOVA2D{Mod: 2}, nil)
	})
	add("SETRWC adds to where counters last returned to", counts, func(e *engines) {
		countedMoves(e, isa.SETRWC{Mask: 5, Cr: 5, A: 8, D: 8}, isa.MOVA2D{Mod: 2}, nil)
	})
	add("an address mode adds to counters", counts, func(e *engines) {
		countedMoves(e, nil, isa.MOVA2D{Mod: 2, Mode: 3}, func(m *engineThread) {
			m.mode(3, steps{a: 8, dst: 8})
		})
	})
	moved("an address mode carries counters on", counts, 0, func(o *operands, m *engineThread) {
		m.mode(1, steps{a: 8, dst: 8}, isa.ThreadModeSrcACarry, isa.ThreadModeDstCarry)
		m.do(isa.MOVA2D{Mod: 2, Mode: 1})
		for range 6 {
			m.do(isa.INCRWC{A: 8, D: 8}, isa.MOVA2D{Mod: 2, Mode: 1})
		}
		want := o.rowsOfA()
		for i := range 8 {
			want.Hi[8+i] = arith.DstRow{}
		}
		o.done(want, "all rows but 8 to 15")
	})
	moved("an address mode clears counters", counts, 0, func(o *operands, m *engineThread) {
		m.mode(2, steps{dst: 8}, isa.ThreadModeSrcAClear)
		for range 8 {
			m.do(isa.INCRWC{A: 8}, isa.INCRWC{A: 8}, isa.MOVA2D{Mod: 2, Mode: 2}) // always rows 16 to 23
		}
		o.done(o.path.movedTile(&o.a, func(i int) int { return 16 + i%8 }), "eight times the same rows")
	})
	moved("an address mode saves the counter of Dst", counts, 0, func(o *operands, m *engineThread) {
		m.mode(1, steps{dst: 8}, isa.ThreadModeDstToCarry) // saves where it is now
		m.mode(2, steps{}, isa.ThreadModeDstCarry)         // returns there
		m.do(isa.MOVA2D{Mod: 2, Mode: 1})
		m.do(isa.INCRWC{D: 8}, isa.INCRWC{D: 8}, isa.MOVA2D{Mod: 2, Src: 8, Mode: 2}) // rows 24 to 31
		m.do(isa.MOVA2D{Mod: 2, Src: 16})                                             // rows 8 to 15
		want := o.path.movedTile(&o.a, func(i int) int { return map[int]int{0: 0, 3: 8, 1: 16}[i/8] + i%8 })
		for i := range want.Hi {
			if k := i / 8; k != 0 && k != 1 && k != 3 {
				want.Hi[i] = arith.DstRow{}
			}
		}
		o.done(want, "tile")
	})
	moved("an address mode advances the fidelity phase", counts, 1, func(o *operands, m *engineThread) {
		m.mode(0, byEight)
		m.mode(1, byEight, isa.ThreadModeFidelityIncrement)
		m.mode(2, byEight, isa.ThreadModeFidelityClear)
		for phase := range 5 { // the last is phase 0 again
			for range 7 {
				m.do(isa.ELWMUL{})
			}
			m.do(isa.ELWMUL{Mode: uint32(1 + phase/3)}, rowCounters)
		}
		var dst arith.DstTile
		o.m.MulTile(&dst, &o.a, &o.b, arith.HiFi4)
		o.m.MulTile(&dst, &o.a, &o.b, arith.LoFi)
		o.done(&dst, "products")
	})
	on(chip.Blackhole, "instructions name eight address modes", counts, func(e *engines) {
		countedMoves(e, nil, isa.MOVA2D{Mod: 2, Mode: 7}, func(m *engineThread) {
			m.mode(7, steps{a: 8, dst: 8})
		})
	})
	on(chip.Wormhole, "a bias selects the other four address modes", counts, func(e *engines) {
		countedMoves(e, nil, isa.MOVA2D{Mod: 2, Mode: 2}, func(m *engineThread) {
			m.set(isa.ThreadModeBias, 1)
			m.mode(6, steps{a: 8, dst: 8})
		})
	})
	return cs
}

// sums adds the same tiles n times, which are unpacked for each.
func (o *operands) sums(n int, add func()) {
	var dst arith.DstTile
	for i := range n {
		if i > 0 {
			o.unpackTile(3, arith.TileData)
		}
		add()
		o.m.AddTile(&dst, &o.a, &o.b, true)
	}
	o.want(&dst, "%d sums", n)
}

// reversed is the origin of row i if blocks of four rows are reversed.
func reversed(i int) int { return 60 - i&^3 + i&3 }

// moveB moves rows of SrcB to Dst. Modifier 2 repeats a row in eight, 1 column 0 in all columns.
func moveB(e *engines, mod uint32) {
	for _, p := range movePaths() {
		o := e.operands(p)
		m := o.math()
		rows := uint32(4)
		if mod&2 != 0 {
			rows = 8
		}
		for i := uint32(0); i < 64; i += rows {
			m.do(isa.MOVB2D{Dst: i, Src: 56 - i&^7 + i&7, Mod: mod})
		}
		m.freeSources(3)
		var b arith.SrcTile
		for i := range b {
			from := 56 - i&^7 + i&7
			if mod&2 != 0 {
				from &^= 7
			}
			for c := range b[i] {
				b[i][c] = o.b[from][c]
				if mod&1 != 0 {
					b[i][c] = o.b[from][0]
				}
			}
		}
		o.want(p.movedTile(&b, same), "%v", p.src)
	}
}

func cleared(e *engines, path int, in isa.Instruction, is func(row int) bool, more ...isa.Instruction) {
	o := e.operands(paths()[path])
	m := o.math()
	m.moveA()
	m.do(in)
	m.do(more...)
	m.freeSources(3)
	dst := o.rowsOfA()
	for i := range dst.Hi {
		if is(i) {
			dst.Hi[i], dst.Lo[i] = arith.DstRow{}, arith.DstRow{}
		}
	}
	o.wantAny(o.path.pack(dst), "tile")
}

func clearedHalves(e *engines) {
	for _, half := range []uint32{0, 1} {
		for _, look := range []uint32{0, 1} {
			o := e.operands(paths()[0])
			m := o.math()
			m.moveA()
			m.set(isa.ThreadDstOffset, 512)
			m.moveA()
			m.set(isa.ThreadDstOffset, 0)
			m.do(isa.ZEROACC{Clear: 2, Dst: half})
			m.freeSources(3)
			o.packFrom(512 * look)
			dst := o.rowsOfA()
			if half == look {
				dst = &arith.DstTile{}
			}
			o.wantAny(o.path.pack(dst), "half %d after half %d was cleared", look, half)
		}
	}
}

func (r *engineRun) packFrom(row uint32) {
	for i := range r.packers() {
		r.set(isa.PackDst+i, row+16*uint32(i))
	}
}

func (e *engines) operandsAlone(units uint32) *operands {
	o := e.operands(paths()[0])
	u := o.unpack()
	u.words = u.words[:len(u.words)-3] // what unpackTile has appended
	o.unpackTile(units, arith.TileData)
	return o
}

// filled has SrcA from UNPACR_NOP: Wormhole names an operation, Blackhole what it fills with.
func (e *engines) filled(operation, with uint32) *operands {
	o := e.operandsAlone(2)
	if e.blackhole() {
		o.unpack().do(isa.UNPACRNOP{Pop: 1, Fill: with, WaitUnpack: 1, Valid: 1})
	} else {
		o.unpack().do(isa.UNPACRNOP{Op: operation}, isa.UNPACRNOP{Op: 7})
	}
	return o
}

// countedMoves moves a tile eight rows at a time, with an instruction in between.
func countedMoves(e *engines, between, move isa.Instruction, modes func(*engineThread)) {
	o := e.operands(paths()[0])
	m := o.math()
	if modes != nil {
		modes(m)
	}
	for i := range 8 {
		m.do(move)
		if between != nil && i < 7 {
			m.do(between)
		}
	}
	o.done(o.rowsOfA(), "tile")
}
