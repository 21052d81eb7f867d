package emu

import "math/bits"

// stop says why core.run returned.
type stop uint8

const (
	stopSlice   stop = iota // the slice is used up
	stopBlocked             // the instruction at pc waits for a mailbox; pc is unchanged
	stopHalt                // the core was put into reset, or the chip stopped
)

// run executes about n instructions: it looks at the budget at taken branches and at the end of a page, so that a
// straight run of instructions costs nothing but its dispatch. With n of 1 it executes exactly one.
//
// Nothing here allocates or calls through an interface. L1 and local RAM are accessed in place unless the line is
// flagged (somebody waits for it, or instructions in it are decoded); everything else goes to the methods of core in
// mmio.go.
func (c *core) run(n int) stop {
	t := c.tile
	l1, flags, local := t.l1, t.flags, c.local
	x := &c.x
	pc := c.pc
	c.budget = n
	for n > 0 {
		pg := c.codePage(pc)
		if pg == nil {
			c.pc = pc
			c.count(n)
			return stopHalt
		}
		base := pc &^ (pageBytes - 1)
		idx := int(pc % pageBytes >> 2)
		ops := pg.ops[:min(pageOps, idx+n)]
		start := idx
		for uint(idx) < uint(len(ops)) {
			o := &ops[idx]
			var addr uint32
			switch o.code {
			case opUndecoded:
				c.decodeAt(pg, base, idx)
				continue
			case opNop, opFENCE:
			case opLI:
				x[o.rd] = uint32(o.imm)
			case opADDI:
				x[o.rd] = x[o.rs1] + uint32(o.imm)
			case opSLTI:
				x[o.rd] = b2u(int32(x[o.rs1]) < o.imm)
			case opSLTIU:
				x[o.rd] = b2u(x[o.rs1] < uint32(o.imm))
			case opXORI:
				x[o.rd] = x[o.rs1] ^ uint32(o.imm)
			case opORI:
				x[o.rd] = x[o.rs1] | uint32(o.imm)
			case opANDI:
				x[o.rd] = x[o.rs1] & uint32(o.imm)
			case opSLLI:
				x[o.rd] = x[o.rs1] << (uint32(o.imm) & 31)
			case opSRLI:
				x[o.rd] = x[o.rs1] >> (uint32(o.imm) & 31)
			case opSRAI:
				x[o.rd] = uint32(int32(x[o.rs1]) >> (uint32(o.imm) & 31))
			case opADD:
				x[o.rd] = x[o.rs1] + x[o.rs2]
			case opSUB:
				x[o.rd] = x[o.rs1] - x[o.rs2]
			case opSLL:
				x[o.rd] = x[o.rs1] << (x[o.rs2] & 31)
			case opSLT:
				x[o.rd] = b2u(int32(x[o.rs1]) < int32(x[o.rs2]))
			case opSLTU:
				x[o.rd] = b2u(x[o.rs1] < x[o.rs2])
			case opXOR:
				x[o.rd] = x[o.rs1] ^ x[o.rs2]
			case opSRL:
				x[o.rd] = x[o.rs1] >> (x[o.rs2] & 31)
			case opSRA:
				x[o.rd] = uint32(int32(x[o.rs1]) >> (x[o.rs2] & 31))
			case opOR:
				x[o.rd] = x[o.rs1] | x[o.rs2]
			case opAND:
				x[o.rd] = x[o.rs1] & x[o.rs2]

			case opBEQ:
				if x[o.rs1] == x[o.rs2] {
					goto taken
				}
			case opBNE:
				if x[o.rs1] != x[o.rs2] {
					goto taken
				}
			case opBLT:
				if int32(x[o.rs1]) < int32(x[o.rs2]) {
					goto taken
				}
			case opBGE:
				if int32(x[o.rs1]) >= int32(x[o.rs2]) {
					goto taken
				}
			case opBLTU:
				if x[o.rs1] < x[o.rs2] {
					goto taken
				}
			case opBGEU:
				if x[o.rs1] >= x[o.rs2] {
					goto taken
				}
			case opJAL:
				x[o.rd] = base + uint32(idx)<<2 + 4
				goto taken
			case opJALR:
				target := (x[o.rs1] + uint32(o.imm)) &^ 1
				if target&3 != 0 {
					c.pc = base + uint32(idx)<<2
					c.refuse(UndefinedBehavior, uint64(target), "jump to %#x, which is not a multiple of 4", target)
					goto halt
				}
				x[o.rd] = base + uint32(idx)<<2 + 4
				n -= idx - start + 1
				// Stay in this page if the target is in it: returns and calls of short functions mostly are.
				if target&^(pageBytes-1) == base {
					idx = int(target % pageBytes >> 2)
					start = idx
					if n <= 0 {
						goto leave
					}
					continue
				}
				pc = target
				goto page

			case opLW:
				addr = x[o.rs1] + uint32(o.imm)
				if addr&3 == 0 {
					if w := addr >> 2; w < uint32(len(l1)) {
						x[o.rd] = l1[w]
						break
					}
					if w := (addr - localBase) >> 2; w < uint32(len(local)) {
						x[o.rd] = local[w]
						break
					}
				}
				goto slow
			case opLBU:
				addr = x[o.rs1] + uint32(o.imm)
				if w := addr >> 2; w < uint32(len(l1)) {
					x[o.rd] = l1[w] >> (addr & 3 * 8) & 0xFF
					break
				}
				if w := (addr - localBase) >> 2; w < uint32(len(local)) {
					x[o.rd] = local[w] >> (addr & 3 * 8) & 0xFF
					break
				}
				goto slow
			case opLB:
				addr = x[o.rs1] + uint32(o.imm)
				if w := addr >> 2; w < uint32(len(l1)) {
					x[o.rd] = uint32(int8(l1[w] >> (addr & 3 * 8)))
					break
				}
				if w := (addr - localBase) >> 2; w < uint32(len(local)) {
					x[o.rd] = uint32(int8(local[w] >> (addr & 3 * 8)))
					break
				}
				goto slow
			case opLHU:
				addr = x[o.rs1] + uint32(o.imm)
				if addr&1 == 0 {
					if w := addr >> 2; w < uint32(len(l1)) {
						x[o.rd] = l1[w] >> (addr & 2 * 8) & 0xFFFF
						break
					}
					if w := (addr - localBase) >> 2; w < uint32(len(local)) {
						x[o.rd] = local[w] >> (addr & 2 * 8) & 0xFFFF
						break
					}
				}
				goto slow
			case opLH:
				addr = x[o.rs1] + uint32(o.imm)
				if addr&1 == 0 {
					if w := addr >> 2; w < uint32(len(l1)) {
						x[o.rd] = uint32(int16(l1[w] >> (addr & 2 * 8)))
						break
					}
					if w := (addr - localBase) >> 2; w < uint32(len(local)) {
						x[o.rd] = uint32(int16(local[w] >> (addr & 2 * 8)))
						break
					}
				}
				goto slow

			case opSW:
				addr = x[o.rs1] + uint32(o.imm)
				if addr&3 == 0 {
					if w := addr >> 2; w < uint32(len(l1)) {
						if flags[addr>>lineShift] == 0 {
							l1[w] = x[o.rs2]
							break
						}
					} else if w := (addr - localBase) >> 2; w < uint32(len(local)) {
						local[w] = x[o.rs2]
						break
					}
				}
				goto slow
			case opSB:
				addr = x[o.rs1] + uint32(o.imm)
				if w := addr >> 2; w < uint32(len(l1)) {
					if flags[addr>>lineShift] == 0 {
						l1[w] = insert(l1[w], x[o.rs2], addr&3*8, 0xFF)
						break
					}
				} else if w := (addr - localBase) >> 2; w < uint32(len(local)) {
					local[w] = insert(local[w], x[o.rs2], addr&3*8, 0xFF)
					break
				}
				goto slow
			case opSH:
				addr = x[o.rs1] + uint32(o.imm)
				if addr&1 == 0 {
					if w := addr >> 2; w < uint32(len(l1)) {
						if flags[addr>>lineShift] == 0 {
							l1[w] = insert(l1[w], x[o.rs2], addr&2*8, 0xFFFF)
							break
						}
					} else if w := (addr - localBase) >> 2; w < uint32(len(local)) {
						local[w] = insert(local[w], x[o.rs2], addr&2*8, 0xFFFF)
						break
					}
				}
				goto slow

			case opMUL:
				x[o.rd] = x[o.rs1] * x[o.rs2]
			case opMULH:
				x[o.rd] = uint32(uint64(int64(int32(x[o.rs1]))*int64(int32(x[o.rs2]))) >> 32)
			case opMULHSU:
				x[o.rd] = uint32(uint64(int64(int32(x[o.rs1]))*int64(x[o.rs2])) >> 32)
			case opMULHU:
				x[o.rd] = uint32(uint64(x[o.rs1]) * uint64(x[o.rs2]) >> 32)
			case opDIV:
				x[o.rd] = div(x[o.rs1], x[o.rs2])
			case opDIVU:
				if d := x[o.rs2]; d != 0 {
					x[o.rd] = x[o.rs1] / d
				} else {
					x[o.rd] = ^uint32(0)
				}
			case opREM:
				x[o.rd] = rem(x[o.rs1], x[o.rs2])
			case opREMU:
				if d := x[o.rs2]; d != 0 {
					x[o.rd] = x[o.rs1] % d
				} else {
					x[o.rd] = x[o.rs1]
				}

			case opMIN:
				x[o.rd] = uint32(min(int32(x[o.rs1]), int32(x[o.rs2])))
			case opMINU:
				x[o.rd] = min(x[o.rs1], x[o.rs2])
			case opMAX:
				x[o.rd] = uint32(max(int32(x[o.rs1]), int32(x[o.rs2])))
			case opMAXU:
				x[o.rd] = max(x[o.rs1], x[o.rs2])
			case opSH1ADD:
				x[o.rd] = x[o.rs1]<<1 + x[o.rs2]
			case opSH2ADD:
				x[o.rd] = x[o.rs1]<<2 + x[o.rs2]
			case opSH3ADD:
				x[o.rd] = x[o.rs1]<<3 + x[o.rs2]
			case opXNOR:
				x[o.rd] = x[o.rs1] ^ ^x[o.rs2]
			case opORN:
				x[o.rd] = x[o.rs1] | ^x[o.rs2]
			case opANDN:
				x[o.rd] = x[o.rs1] &^ x[o.rs2]
			case opROL:
				x[o.rd] = bits.RotateLeft32(x[o.rs1], int(x[o.rs2]&31))
			case opROR:
				x[o.rd] = bits.RotateLeft32(x[o.rs1], -int(x[o.rs2]&31))
			case opRORI:
				x[o.rd] = bits.RotateLeft32(x[o.rs1], -int(o.imm&31))
			case opPACK:
				x[o.rd] = x[o.rs1]&0xFFFF | x[o.rs2]<<16
			case opCLZ:
				x[o.rd] = uint32(bits.LeadingZeros32(x[o.rs1]))
			case opCTZ:
				x[o.rd] = uint32(bits.TrailingZeros32(x[o.rs1]))
			case opCPOP:
				x[o.rd] = uint32(bits.OnesCount32(x[o.rs1]))
			case opSEXTB:
				x[o.rd] = uint32(int8(x[o.rs1]))
			case opSEXTH:
				x[o.rd] = uint32(int16(x[o.rs1]))
			case opORCB:
				x[o.rd] = orcB(x[o.rs1])
			case opREV8:
				x[o.rd] = bits.ReverseBytes32(x[o.rs1])
			case opBREV8:
				x[o.rd] = bits.ReverseBytes32(bits.Reverse32(x[o.rs1]))

			default:
				goto slow
			}
			idx++
			continue

		taken:
			n -= idx - start + 1
			idx += int(o.imm)
			start = idx
			if n <= 0 {
				goto leave
			}
			continue

		slow:
			c.pc = base + uint32(idx)<<2
			c.left = n - (idx - start)
			switch c.slow(o, addr) {
			case slowDone:
				idx++
			case slowBlocked:
				n -= idx - start
				c.count(n)
				return stopBlocked
			default: // slowHalt: the instruction did its work, and then this core or the chip stopped
				n -= idx - start + 1
				c.pc += 4
				c.count(n)
				return stopHalt
			}
			continue

		halt:
			n -= idx - start
			c.count(n)
			return stopHalt
		}
		// Ran off the end of ops, or branched out of it: out of the page, or past what the budget allowed.
		n -= idx - start
	leave:
		pc = base + uint32(idx)<<2
	page:
	}
	c.pc = pc
	c.count(n)
	return stopSlice
}

// count adds what was executed of the current budget to the instructions retired; left is what remains of it.
func (c *core) count(left int) {
	c.retired += uint64(c.budget - left)
	c.used = c.budget - left
}

func b2u(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// insert replaces the bits mask<<shift of w by those of v.
func insert(w, v, shift, mask uint32) uint32 {
	return w&^(mask<<shift) | v&mask<<shift
}

// div and rem follow the RISC-V manual for division by zero and for the one overflow.
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

// orcB sets every byte that is not zero to 0xFF.
func orcB(v uint32) uint32 {
	v |= v >> 1
	v |= v >> 2
	v |= v >> 4
	return v & 0x01010101 * 0xFF
}
