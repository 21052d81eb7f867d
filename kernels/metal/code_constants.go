package metal

import "encoding/binary"

// codeConstants returns the numbers that a kernel's instructions make or address, by LUI with
// additions and by immediates. It reads the text in order, without branches, so some may occur on
// no path.
func codeConstants(text []byte) map[uint32]bool {
	c := codeReader{found: map[uint32]bool{}}
	c.known[0] = true
	for ; len(text) >= 4; text = text[4:] {
		c.step(binary.LittleEndian.Uint32(text))
	}
	return c.found
}

type codeReader struct {
	reg   [32]uint32
	known [32]bool
	found map[uint32]bool
}

const (
	opLoad   = 0x03
	opImm    = 0x13
	opStore  = 0x23
	opReg    = 0x33
	opLUI    = 0x37
	opBranch = 0x63
)

func (c *codeReader) step(w uint32) {
	rd, rs1, rs2 := w>>7&31, w>>15&31, w>>20&31
	imm := uint32(int32(w) >> 20)
	a, b := c.reg[rs1], c.reg[rs2]
	switch w & 0x7F {
	case opLUI:
		c.set(rd, w&0xFFFFF000, true)
	case opImm:
		if !c.known[rs1] {
			c.found[imm] = true
		}
		v, ok := immediate(w, a, imm)
		c.set(rd, v, ok && c.known[rs1])
	case opReg:
		v, ok := combine(w, a, b)
		c.set(rd, v, ok && c.known[rs1] && c.known[rs2])
	case opLoad:
		if c.known[rs1] {
			c.found[a+imm] = true
		}
		c.set(rd, 0, false)
	case opStore:
		if c.known[rs1] {
			c.found[a+(uint32(int32(w)>>25<<5)|rd)] = true
		}
	case opBranch:
	default:
		c.set(rd, 0, false)
	}
}

func (c *codeReader) set(rd, v uint32, known bool) {
	if known {
		c.found[v] = true
	}
	if rd != 0 {
		c.reg[rd], c.known[rd] = v, known
	}
}

// immediate is false for instructions without one.
func immediate(w, a, imm uint32) (uint32, bool) {
	shift := imm & 31
	switch w >> 12 & 7 {
	case 0:
		return a + imm, true
	case 1:
		switch imm >> 5 {
		case 0:
			return a << shift, true
		case 0x14: // BSETI
			return a | 1<<shift, true
		}
	case 4:
		return a ^ imm, true
	case 5:
		if imm>>5 == 0 {
			return a >> shift, true
		}
	case 6:
		return a | imm, true
	case 7:
		return a & imm, true
	}
	return 0, false
}

// combine is false for instructions other than of two registers.
func combine(w, a, b uint32) (uint32, bool) {
	switch f := w >> 12 & 7; w >> 25 {
	case 0:
		switch f {
		case 0:
			return a + b, true
		case 6:
			return a | b, true
		}
	case 0x10: // SH1ADD, SH2ADD, SH3ADD
		if f == 2 || f == 4 || f == 6 {
			return a<<(f/2) + b, true
		}
	case 0x20:
		if f == 0 {
			return a - b, true
		}
	}
	return 0, false
}
