package emu

import (
	"encoding/binary"
	"fmt"
)

type asm struct {
	base   uint32
	w      []uint32
	labels map[string]int
	fixups []fixup
}

type fixup struct {
	at    int
	label string
	jal   bool
}

const (
	x0, ra, sp, gp, tp     = 0, 1, 2, 3, 4
	t0, t1, t2             = 5, 6, 7
	s0, s1                 = 8, 9
	a0, a1, a2, a3, a4, a5 = 10, 11, 12, 13, 14, 15
)

func newAsm(base uint32) *asm { return &asm{base: base, labels: map[string]int{}} }

func (a *asm) emit(w uint32) *asm { a.w = append(a.w, w); return a }

func rtype(op, f3, f7 uint32, rd, rs1, rs2 int) uint32 {
	return f7<<25 | uint32(rs2)<<20 | uint32(rs1)<<15 | f3<<12 | uint32(rd)<<7 | op
}

func itype(op, f3 uint32, rd, rs1 int, imm int32) uint32 {
	return uint32(imm)<<20 | uint32(rs1)<<15 | f3<<12 | uint32(rd)<<7 | op
}

func stype(f3 uint32, rs1, rs2 int, imm int32) uint32 {
	u := uint32(imm)
	return u>>5&0x7F<<25 | uint32(rs2)<<20 | uint32(rs1)<<15 | f3<<12 | u&31<<7 | 0x23
}

func btype(f3 uint32, rs1, rs2 int, imm int32) uint32 {
	u := uint32(imm)
	return u>>12&1<<31 | u>>5&0x3F<<25 | uint32(rs2)<<20 | uint32(rs1)<<15 | f3<<12 | u>>1&15<<8 | u>>11&1<<7 | 0x63
}

func jtype(rd int, imm int32) uint32 {
	u := uint32(imm)
	return u>>20&1<<31 | u>>1&0x3FF<<21 | u>>11&1<<20 | u&0xFF000 | uint32(rd)<<7 | 0x6F
}

func (a *asm) lui(rd int, v uint32) *asm { return a.emit(v&0xFFFFF000 | uint32(rd)<<7 | 0x37) }

func (a *asm) li(rd int, v uint32) *asm {
	lo := int32(v<<20) >> 20
	hi := v - uint32(lo)
	if hi == 0 {
		return a.addi(rd, x0, lo)
	}
	a.lui(rd, hi)
	if lo != 0 {
		a.addi(rd, rd, lo)
	}
	return a
}

func (a *asm) addi(rd, rs int, imm int32) *asm { return a.emit(itype(0x13, 0, rd, rs, imm)) }
func (a *asm) andi(rd, rs int, imm int32) *asm { return a.emit(itype(0x13, 7, rd, rs, imm)) }
func (a *asm) add(rd, r1, r2 int) *asm         { return a.emit(rtype(0x33, 0, 0, rd, r1, r2)) }
func (a *asm) sub(rd, r1, r2 int) *asm         { return a.emit(rtype(0x33, 0, 32, rd, r1, r2)) }
func (a *asm) lw(rd, rs int, off int32) *asm   { return a.emit(itype(0x03, 2, rd, rs, off)) }
func (a *asm) lbu(rd, rs int, off int32) *asm  { return a.emit(itype(0x03, 4, rd, rs, off)) }
func (a *asm) sw(src, base int, off int32) *asm {
	return a.emit(stype(2, base, src, off))
}
func (a *asm) sb(src, base int, off int32) *asm { return a.emit(stype(0, base, src, off)) }
func (a *asm) sh(src, base int, off int32) *asm { return a.emit(stype(1, base, src, off)) }
func (a *asm) fence() *asm                      { return a.emit(0x0FF0000F) }

// stw stores a constant to a constant address through t0 and t1.
func (a *asm) stw(addr, v uint32) *asm { return a.li(t0, addr).li(t1, v).sw(t1, t0, 0) }

func (a *asm) label(name string) *asm { a.labels[name] = len(a.w); return a }

func (a *asm) branch(f3 uint32, r1, r2 int, label string) *asm {
	a.fixups = append(a.fixups, fixup{len(a.w), label, false})
	return a.emit(btype(f3, r1, r2, 0))
}
func (a *asm) beq(r1, r2 int, l string) *asm  { return a.branch(0, r1, r2, l) }
func (a *asm) bne(r1, r2 int, l string) *asm  { return a.branch(1, r1, r2, l) }
func (a *asm) bltu(r1, r2 int, l string) *asm { return a.branch(6, r1, r2, l) }

func (a *asm) j(label string) *asm {
	a.fixups = append(a.fixups, fixup{len(a.w), label, true})
	return a.emit(jtype(x0, 0))
}

// halt is a loop that the emulator parks at once.
func (a *asm) halt() *asm { return a.emit(jtype(x0, 0)) }

func (a *asm) bytes() []byte {
	for _, f := range a.fixups {
		to, ok := a.labels[f.label]
		if !ok {
			panic(fmt.Sprintf("label %q", f.label))
		}
		d := int32(to-f.at) * 4
		if f.jal {
			a.w[f.at] |= jtype(0, d) &^ 0x6F
		} else {
			a.w[f.at] |= btype(0, 0, 0, d) &^ 0x63
		}
	}
	a.fixups = nil
	p := make([]byte, 0, 4*len(a.w))
	for _, w := range a.w {
		p = binary.LittleEndian.AppendUint32(p, w)
	}
	return p
}
