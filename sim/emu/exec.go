package emu

import (
	"math/bits"

	"github.com/reprise-tt/reprise/sim/emu/internal/word"

	"github.com/reprise-tt/reprise/sim/emu/internal/rv32"
	"github.com/reprise-tt/reprise/sim/emu/internal/translate"
)

type stop uint8

const (
	stopSlice   stop = iota // the slice is used up
	stopWaits               // a jump went back in a loop that may wait
	stopBlocked             // waits for a mailbox; pc is unchanged
	stopAgain               // waits for the next round
	stopHalt                // the core is in reset, or the chip stopped
)

// exec executes decoded instructions from ops, whose first is at address base, from index idx on.
// It ends when the budget is used up, when control leaves ops, at an instruction that needs more
// than registers and plain memory, and at a jump back that isn't in plain, noted in c.from. It
// returns the next index and the index at which the budget ends.
//
// The budget m - idx is checked only where a branch is taken, so straight code costs nothing but
// its dispatch. There are no calls in here, so that the compiler keeps everything in registers.
func exec(c *core, ops []rv32.Op, plain *translate.Marks, base uint32, idx, m int) (int, int, translate.Exit) {
	t := c.tile
	l1, flags, local := t.fast, t.flags, c.local
	x := &c.X
	for uint(idx) < uint(len(ops)) {
		o := ops[idx]
		var addr uint32
		switch rv32.Opcode(o) {
		default:
			return idx, m, translate.Slow
		case rv32.Nop, rv32.FENCE:
		case rv32.LI:
			x[uint8(o>>8)] = uint32(o >> 32)
		case rv32.ADDI:
			x[uint8(o>>8)] = x[uint8(o>>16)] + uint32(o>>32)
		case rv32.SLTI:
			x[uint8(o>>8)] = word.Bool(int32(x[uint8(o>>16)]) < int32(o>>32))
		case rv32.SLTIU:
			x[uint8(o>>8)] = word.Bool(x[uint8(o>>16)] < uint32(o>>32))
		case rv32.XORI:
			x[uint8(o>>8)] = x[uint8(o>>16)] ^ uint32(o>>32)
		case rv32.ORI:
			x[uint8(o>>8)] = x[uint8(o>>16)] | uint32(o>>32)
		case rv32.ANDI:
			x[uint8(o>>8)] = x[uint8(o>>16)] & uint32(o>>32)
		case rv32.SLLI:
			x[uint8(o>>8)] = x[uint8(o>>16)] << (uint32(o>>32) & 31)
		case rv32.SRLI:
			x[uint8(o>>8)] = x[uint8(o>>16)] >> (uint32(o>>32) & 31)
		case rv32.SRAI:
			x[uint8(o>>8)] = uint32(int32(x[uint8(o>>16)]) >> (uint32(o>>32) & 31))
		case rv32.ADD:
			x[uint8(o>>8)] = x[uint8(o>>16)] + x[uint8(o>>24)]
		case rv32.SUB:
			x[uint8(o>>8)] = x[uint8(o>>16)] - x[uint8(o>>24)]
		case rv32.SLL:
			x[uint8(o>>8)] = x[uint8(o>>16)] << (x[uint8(o>>24)] & 31)
		case rv32.SLT:
			x[uint8(o>>8)] = word.Bool(int32(x[uint8(o>>16)]) < int32(x[uint8(o>>24)]))
		case rv32.SLTU:
			x[uint8(o>>8)] = word.Bool(x[uint8(o>>16)] < x[uint8(o>>24)])
		case rv32.XOR:
			x[uint8(o>>8)] = x[uint8(o>>16)] ^ x[uint8(o>>24)]
		case rv32.SRL:
			x[uint8(o>>8)] = x[uint8(o>>16)] >> (x[uint8(o>>24)] & 31)
		case rv32.SRA:
			x[uint8(o>>8)] = uint32(int32(x[uint8(o>>16)]) >> (x[uint8(o>>24)] & 31))
		case rv32.OR:
			x[uint8(o>>8)] = x[uint8(o>>16)] | x[uint8(o>>24)]
		case rv32.AND:
			x[uint8(o>>8)] = x[uint8(o>>16)] & x[uint8(o>>24)]

		case rv32.BEQ:
			if x[uint8(o>>16)] == x[uint8(o>>24)] {
				goto taken
			}
		case rv32.BNE:
			if x[uint8(o>>16)] != x[uint8(o>>24)] {
				goto taken
			}
		case rv32.BLT:
			if int32(x[uint8(o>>16)]) < int32(x[uint8(o>>24)]) {
				goto taken
			}
		case rv32.BGE:
			if int32(x[uint8(o>>16)]) >= int32(x[uint8(o>>24)]) {
				goto taken
			}
		case rv32.BLTU:
			if x[uint8(o>>16)] < x[uint8(o>>24)] {
				goto taken
			}
		case rv32.BGEU:
			if x[uint8(o>>16)] >= x[uint8(o>>24)] {
				goto taken
			}
		case rv32.JAL:
			x[uint8(o>>8)] = base + uint32(idx)<<2 + 4
			goto taken
		case rv32.JALR:
			target := (x[uint8(o>>16)] + uint32(o>>32)) &^ 1
			if target&3 != 0 {
				return idx, m, translate.Slow
			}
			x[uint8(o>>8)] = base + uint32(idx)<<2 + 4
			to := int(int32(target-base) >> 2)
			m += to - idx - 1
			idx = to
			if m <= idx {
				return idx, m, translate.Jumped
			}
			continue

		case rv32.LW:
			addr = x[uint8(o>>16)] + uint32(o>>32)
			if addr&3 == 0 {
				if w := addr >> 2; w < uint32(len(l1)) {
					x[uint8(o>>8)] = l1[w]
					break
				}
				if w := (addr - localBase) >> 2; w < uint32(len(local)) {
					x[uint8(o>>8)] = local[w]
					break
				}
			}
			return idx, m, translate.Slow
		case rv32.LB, rv32.LBU, rv32.LH, rv32.LHU:
			addr = x[uint8(o>>16)] + uint32(o>>32)
			var v uint32
			if w := addr >> 2; w < uint32(len(l1)) {
				v = l1[w]
			} else if w := (addr - localBase) >> 2; w < uint32(len(local)) {
				v = local[w]
			} else {
				return idx, m, translate.Slow
			}
			v >>= addr & 3 * 8
			switch code := rv32.Opcode(o); {
			case code == rv32.LB:
				v = uint32(int8(v))
			case code == rv32.LBU:
				v &= 0xFF
			case addr&1 != 0:
				return idx, m, translate.Slow
			case code == rv32.LH:
				v = uint32(int16(v))
			default:
				v &= 0xFFFF
			}
			x[uint8(o>>8)] = v

		case rv32.SW:
			addr = x[uint8(o>>16)] + uint32(o>>32)
			if addr&3 == 0 {
				if w := addr >> 2; w < uint32(len(l1)) {
					if flags[addr>>lineShift%maxLines] == 0 {
						l1[w] = x[uint8(o>>24)]
						break
					}
				} else if w := (addr - localBase) >> 2; w < uint32(len(local)) {
					local[w] = x[uint8(o>>24)]
					break
				}
			}
			return idx, m, translate.Slow
		case rv32.SB, rv32.SH:
			addr = x[uint8(o>>16)] + uint32(o>>32)
			mask := uint32(0xFF)
			if rv32.Opcode(o) == rv32.SH {
				mask = 0xFFFF
			}
			if addr&1 == 0 || mask == 0xFF {
				if w := addr >> 2; w < uint32(len(l1)) {
					if flags[addr>>lineShift%maxLines] == 0 {
						l1[w] = word.Insert(l1[w], x[uint8(o>>24)], addr&3*8, mask)
						break
					}
				} else if w := (addr - localBase) >> 2; w < uint32(len(local)) {
					local[w] = word.Insert(local[w], x[uint8(o>>24)], addr&3*8, mask)
					break
				}
			}
			return idx, m, translate.Slow

		case rv32.MUL:
			x[uint8(o>>8)] = x[uint8(o>>16)] * x[uint8(o>>24)]
		case rv32.MULH:
			x[uint8(o>>8)] = uint32(uint64(int64(int32(x[uint8(o>>16)]))*int64(int32(x[uint8(o>>24)]))) >> 32)
		case rv32.MULHSU:
			x[uint8(o>>8)] = uint32(uint64(int64(int32(x[uint8(o>>16)]))*int64(x[uint8(o>>24)])) >> 32)
		case rv32.MULHU:
			x[uint8(o>>8)] = uint32(uint64(x[uint8(o>>16)]) * uint64(x[uint8(o>>24)]) >> 32)
		case rv32.DIV:
			x[uint8(o>>8)] = div(x[uint8(o>>16)], x[uint8(o>>24)])
		case rv32.DIVU:
			if d := x[uint8(o>>24)]; d != 0 {
				x[uint8(o>>8)] = x[uint8(o>>16)] / d
			} else {
				x[uint8(o>>8)] = ^uint32(0)
			}
		case rv32.REM:
			x[uint8(o>>8)] = rem(x[uint8(o>>16)], x[uint8(o>>24)])
		case rv32.REMU:
			if d := x[uint8(o>>24)]; d != 0 {
				x[uint8(o>>8)] = x[uint8(o>>16)] % d
			} else {
				x[uint8(o>>8)] = x[uint8(o>>16)]
			}

		case rv32.MIN:
			x[uint8(o>>8)] = uint32(min(int32(x[uint8(o>>16)]), int32(x[uint8(o>>24)])))
		case rv32.MINU:
			x[uint8(o>>8)] = min(x[uint8(o>>16)], x[uint8(o>>24)])
		case rv32.MAX:
			x[uint8(o>>8)] = uint32(max(int32(x[uint8(o>>16)]), int32(x[uint8(o>>24)])))
		case rv32.MAXU:
			x[uint8(o>>8)] = max(x[uint8(o>>16)], x[uint8(o>>24)])
		case rv32.SH1ADD:
			x[uint8(o>>8)] = x[uint8(o>>16)]<<1 + x[uint8(o>>24)]
		case rv32.SH2ADD:
			x[uint8(o>>8)] = x[uint8(o>>16)]<<2 + x[uint8(o>>24)]
		case rv32.SH3ADD:
			x[uint8(o>>8)] = x[uint8(o>>16)]<<3 + x[uint8(o>>24)]
		case rv32.XNOR:
			x[uint8(o>>8)] = x[uint8(o>>16)] ^ ^x[uint8(o>>24)]
		case rv32.ORN:
			x[uint8(o>>8)] = x[uint8(o>>16)] | ^x[uint8(o>>24)]
		case rv32.ANDN:
			x[uint8(o>>8)] = x[uint8(o>>16)] &^ x[uint8(o>>24)]
		case rv32.ROL:
			x[uint8(o>>8)] = bits.RotateLeft32(x[uint8(o>>16)], int(x[uint8(o>>24)]&31))
		case rv32.ROR:
			x[uint8(o>>8)] = bits.RotateLeft32(x[uint8(o>>16)], -int(x[uint8(o>>24)]&31))
		case rv32.RORI:
			x[uint8(o>>8)] = bits.RotateLeft32(x[uint8(o>>16)], -int(int32(o>>32)&31))
		case rv32.PACK:
			x[uint8(o>>8)] = x[uint8(o>>16)]&0xFFFF | x[uint8(o>>24)]<<16
		case rv32.CLZ:
			x[uint8(o>>8)] = uint32(bits.LeadingZeros32(x[uint8(o>>16)]))
		case rv32.CTZ:
			x[uint8(o>>8)] = uint32(bits.TrailingZeros32(x[uint8(o>>16)]))
		case rv32.SEXTB:
			x[uint8(o>>8)] = uint32(int8(x[uint8(o>>16)]))
		case rv32.SEXTH:
			x[uint8(o>>8)] = uint32(int16(x[uint8(o>>16)]))
		case rv32.ORCB:
			x[uint8(o>>8)] = orcB(x[uint8(o>>16)])
		case rv32.REV8:
			x[uint8(o>>8)] = bits.ReverseBytes32(x[uint8(o>>16)])
		case rv32.BREV8:
			x[uint8(o>>8)] = bits.ReverseBytes32(bits.Reverse32(x[uint8(o>>16)]))

		}
		idx++
		continue

	taken:
		off := int(int32(o >> 32))
		m += off - 1
		idx += off
		if m <= idx {
			return idx, m, translate.Jumped
		}
		if off <= 0 && !plain.Has(idx-off) {
			c.from = idx - off
			return idx, m, translate.Waits
		}
	}
	return idx, m, translate.Fell
}

// run executes about n instructions, exactly one if n is 1: it ends where a branch is taken or a
// page ends. With Config.Delay it also ends after n instructions without a branch.
func (c *core) run(n int) stop {
	c.budget = n
	for n > 0 {
		pg := c.codePage(c.pc)
		if pg == nil {
			c.count(n)
			return stopHalt
		}
		if c.tile.starts != nil {
			c.left = n
			c.tile.starts.at(c.proc, c.pc)
		}
		base := c.pc &^ (pageBytes - 1)
		idx := int(c.pc % pageBytes >> 2)
		ops := pg.ops[:]
		if n == 1 || c.tile.chip.cfg.Delay > 0 {
			ops = ops[:min(pageOps, idx+n)]
		}
		m := idx + n
		for {
			why := translate.Jumped
			var o rv32.Op
			if uint(idx) < uint(len(ops)) {
				if code := pg.code[uint(idx)/lineWords]; code == nil || code.End > len(ops) {
					if idx, m, why = c.interpret(pg, ops, base, idx, m); why == translate.Slow {
						o = ops[idx]
					}
				} else {
					idx, m, why = code.Run(&c.Machine, idx, m)
					if from, ok := why.Back(); ok {
						if why = translate.Jumped; c.tile.mayWait(pg, base, from) {
							why = translate.Waits
						}
					}
					if why == translate.Fell || why == translate.Jumped && idx < m {
						continue
					}
					if why == translate.Slow {
						o = code.Ops[idx-code.First]
					}
				}
			}
			c.pc = base + uint32(idx)<<2
			n = m - idx
			if why == translate.Waits {
				c.count(n)
				return stopWaits
			}
			if why != translate.Slow {
				break
			}
			if o.Code() == rv32.Undecoded {
				c.decodeAt(pg, base, idx)
				continue
			}
			c.left = n
			switch c.slow(o) {
			case slowDone:
				idx++
				if c.ends {
					c.pc = base + uint32(idx)<<2
					c.count(m - idx)
					return stopAgain
				}
				continue
			case slowBlocked:
				c.count(n)
				return stopBlocked
			case slowAgain:
				c.count(n)
				return stopAgain
			}
			// The core or the chip stopped after the instruction.
			c.pc += 4
			c.count(n - 1)
			return stopHalt
		}
	}
	c.count(n)
	return stopSlice
}

func (c *core) count(left int) {
	c.retired += uint64(c.budget - left)
	c.used = c.budget - left
}

// div and rem follow the RISC-V manual for division by zero and overflow.
func div(a, b uint32) uint32 {
	switch {
	case b == 0:
		return ^uint32(0)
	case a == 1<<31 && b == ^uint32(0):
		return a
	}
	return uint32(int32(a) / int32(b))
}

func rem(a, b uint32) uint32 {
	switch {
	case b == 0:
		return a
	case a == 1<<31 && b == ^uint32(0):
		return 0
	}
	return uint32(int32(a) % int32(b))
}

func orcB(v uint32) uint32 {
	v |= v >> 1
	v |= v >> 2
	v |= v >> 4
	return v & 0x01010101 * 0xFF
}

// interpret executes what is not translated.
func (c *core) interpret(pg *codePage, ops []rv32.Op, base uint32, idx, m int) (int, int, translate.Exit) {
	next, end, why := exec(c, ops, &pg.loops.plain, base, idx, m)
	for why == translate.Waits && !c.tile.mayWait(pg, base, c.from) {
		next, end, why = exec(c, ops, &pg.loops.plain, base, next, end)
	}
	if pg.code[idx/lineWords] == nil && !c.tile.chip.translated.off {
		at := next
		if uint(next) >= pageOps || pg.code[next/lineWords] != nil {
			at = idx
		}
		c.warm(pg, base, at, m-idx-(end-next))
	}
	return next, end, why
}

// warm translates the range of index idx once enough of it was interpreted.
func (c *core) warm(pg *codePage, base uint32, idx, n int) {
	line := idx / lineWords
	t, all := c.tile, &c.tile.chip.translated
	if pg.heat[line] += uint32(n); pg.looked[line] == all.made && pg.heat[line] < all.hot || pg.code[line] != nil || !pg.decoded(line) ||
		t.adopt(pg, base, line) || pg.heat[line] < all.hot {
		return
	}
	pg.heat[line] = 0
	if t.outbox != nil {
		t.outbox.hot = append(t.outbox.hot, hotLine{pg, base, line})
		return
	}
	t.translate(pg, base, line)
}
