package stack

import (
	"bytes"
	"encoding/binary"
)

// fde is the call frame information of a range of code (DWARF 5, 6.4).
type fde struct {
	low, high uint32
	cie       *cie
	code      []byte
}

type cie struct {
	align  uint64
	data   int64
	ra     int
	code   []byte
	length bool // FDEs have augmentation data
	coding byte // of pointers in .eh_frame
}

// buffer reads the formats of DWARF. After an error it reads zeros.
type buffer struct {
	p   []byte
	bad bool
}

func (b *buffer) take(n int) []byte {
	if n < 0 || n > len(b.p) {
		b.bad, b.p = true, nil
		return make([]byte, min(max(n, 0), 8))
	}
	p := b.p[:n]
	b.p = b.p[n:]
	return p
}

// block reads bytes after their number.
func (b *buffer) block() []byte { return b.take(int(min(b.uleb(), 1<<20))) }

func (b *buffer) u8() byte    { return b.take(1)[0] }
func (b *buffer) u16() uint16 { return binary.LittleEndian.Uint16(b.take(2)) }
func (b *buffer) u32() uint32 { return binary.LittleEndian.Uint32(b.take(4)) }

func (b *buffer) uleb() uint64 {
	v := uint64(0)
	for shift := 0; ; shift += 7 {
		c := b.u8()
		if shift < 64 {
			v |= uint64(c&0x7F) << shift
		}
		if c&0x80 == 0 || b.bad {
			return v
		}
	}
}

func (b *buffer) sleb() int64 {
	before := len(b.p)
	v := int64(b.uleb())
	if unused := 64 - 7*(before-len(b.p)); unused > 0 { // the highest bit that was read is the sign
		v = v << unused >> unused
	}
	return v
}

func (b *buffer) text() string {
	s, rest, ok := bytes.Cut(b.p, []byte{0})
	b.p, b.bad = rest, b.bad || !ok
	return string(s)
}

func (m *Module) readFrames(section []byte, addr uint32, eh bool) (out []fde) {
	cies := map[int]*cie{}
	for at := 0; at+8 <= len(section); {
		size := int(binary.LittleEndian.Uint32(section[at:]))
		if size == 0 || size > len(section)-at-4 || size < 4 {
			break // the end, a 64-bit form, or nonsense
		}
		b := buffer{p: section[at+4 : at+4+size]}
		id := b.u32()
		switch {
		case eh && id == 0, !eh && id == ^uint32(0):
			if c := readCIE(&b); c != nil {
				cies[at] = c
			}
		default:
			from := int(id)
			if eh {
				from = at + 4 - int(id)
			}
			if c := cies[from]; c != nil {
				here := addr + uint32(at) + 8
				f := fde{low: b.u32(), cie: c}
				if eh && c.coding&0x70 == 0x10 {
					f.low += here
				}
				f.high = f.low + b.u32()
				if c.length {
					b.block()
				}
				f.code = b.p
				if !b.bad && f.low < f.high && m.real(f.low, f.high) {
					out = append(out, f)
				}
			}
		}
		at += 4 + size
	}
	return out
}

// nil for kinds that the cores' compilers don't write.
func readCIE(b *buffer) *cie {
	c := &cie{}
	version := b.u8()
	augmentation := b.text()
	if version == 4 {
		b.take(2) // sizes of addresses and segments
	}
	c.align, c.data = b.uleb(), b.sleb()
	if version == 1 {
		c.ra = int(b.u8())
	} else {
		c.ra = int(min(b.uleb(), 1<<10))
	}
	if len(augmentation) > 0 {
		if augmentation[0] != 'z' {
			return nil
		}
		c.length = true
		data := buffer{p: b.block()}
		for _, a := range augmentation[1:] {
			if a != 'R' {
				return nil
			}
			c.coding = data.u8()
			if c.coding&15 != 0 && c.coding&15 != 3 && c.coding&15 != 11 { // four bytes
				return nil
			}
		}
	}
	c.code = b.p
	if b.bad || c.ra > 31 {
		return nil
	}
	return c
}

type rule struct {
	kind ruleKind
	v    int64 // offset, or register
}

type ruleKind uint8

const (
	same ruleKind = iota
	lost
	saved    // at CFA + v
	computed // CFA + v
	inOther  // in register v
)

type row struct {
	base   int   // register of the canonical frame address
	offset int64 // from base
	valid  bool
	rules  [32]rule
}

func (f *fde) rowAt(addr uint32) (row, bool) {
	var r row
	if !f.cie.run(&r, nil, f.cie.code, f.low, ^uint32(0)) {
		return r, false
	}
	initial := r
	ok := f.cie.run(&r, &initial, f.code, f.low, addr)
	return r, ok && r.valid
}

func (c *cie) run(r, initial *row, code []byte, pc, addr uint32) bool {
	b := buffer{p: code}
	var stack []row
	set := func(reg uint64, x rule) {
		if reg < 32 {
			r.rules[reg] = x
		}
	}
	restore := func(reg uint64) {
		if reg < 32 && initial != nil {
			r.rules[reg] = initial.rules[reg]
		}
	}
	ok := true
	cfa := func(reg uint64, offset int64) {
		r.base, r.offset, r.valid = int(min(reg, 99)), offset, reg < 32
		ok = r.valid
	}
	advance := func(n uint64) { pc += uint32(n * c.align) }
	for len(b.p) > 0 && !b.bad && ok && pc <= addr {
		op := b.u8()
		low := uint64(op & 0x3F)
		switch op >> 6 {
		case 1:
			advance(low)
			continue
		case 2:
			set(low, rule{saved, int64(b.uleb()) * c.data})
			continue
		case 3:
			restore(low)
			continue
		}
		switch op {
		case 0x00:
		case 0x01:
			pc = b.u32()
		case 0x02:
			advance(uint64(b.u8()))
		case 0x03:
			advance(uint64(b.u16()))
		case 0x04:
			advance(uint64(b.u32()))
		case 0x05:
			set(b.uleb(), rule{saved, int64(b.uleb()) * c.data})
		case 0x06:
			restore(b.uleb())
		case 0x07:
			set(b.uleb(), rule{lost, 0})
		case 0x08:
			set(b.uleb(), rule{same, 0})
		case 0x09:
			set(b.uleb(), rule{inOther, int64(min(b.uleb(), 31))})
		case 0x0A:
			if len(stack) < 64 {
				stack = append(stack, *r)
			}
		case 0x0B:
			if len(stack) == 0 {
				return false
			}
			*r, stack = stack[len(stack)-1], stack[:len(stack)-1]
		case 0x0C:
			cfa(b.uleb(), int64(b.uleb()))
		case 0x0D:
			cfa(b.uleb(), r.offset)
		case 0x0E:
			r.offset = int64(b.uleb())
		case 0x10, 0x16:
			set(b.uleb(), rule{lost, 0})
			b.block()
		case 0x11:
			set(b.uleb(), rule{saved, b.sleb() * c.data})
		case 0x12:
			cfa(b.uleb(), b.sleb()*c.data)
		case 0x13:
			r.offset = b.sleb() * c.data
		case 0x14:
			set(b.uleb(), rule{computed, int64(b.uleb()) * c.data})
		case 0x15:
			set(b.uleb(), rule{computed, b.sleb() * c.data})
		case 0x2E:
			b.uleb()
		default:
			return false
		}
	}
	return ok && (!b.bad || pc > addr)
}

// guess derives the rules from how far the function's code has lowered sp and which registers it
// has stored.
func (m *Module) guess(start, addr uint32) (row, bool) {
	r := row{base: 2, valid: true}
	below := int64(0)
	for a := start; a < addr; a += 4 {
		w, ok := m.word(a)
		if !ok {
			return r, false
		}
		imm := int64(int32(w) >> 20)
		switch {
		case w&0xFFFFF == 0x10113 && imm < 0: // addi sp, sp, -n
			below -= imm
		case w&0xFFFFF == 0x10113: // an epilogue, unless addr is in it
			if next, ok := m.word(a + 4); ok && next == 0x00008067 && addr > a && addr <= a+4 {
				below -= imm
			}
		case w&0x707F == 0x2023 && w>>15&31 == 2: // sw reg, n(sp)
			reg := w >> 20 & 31
			off := int64(int32(w)>>25<<5) | int64(w>>7&31)
			if saves := reg == 1 || reg == 8 || reg == 9 || reg >= 18 && reg <= 27; saves && r.rules[reg].kind == same {
				r.rules[reg] = rule{saved, off - below}
			}
		}
	}
	r.offset = below
	return r, true
}

func (m *Module) word(addr uint32) (uint32, bool) {
	i := addr + m.bias - m.Start
	if uint64(i)+4 > uint64(len(m.text)) || addr&3 != 0 {
		return 0, false
	}
	return binary.LittleEndian.Uint32(m.text[i:]), true
}
