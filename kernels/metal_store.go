package kernels

import (
	"debug/elf"
	"encoding/binary"
)

// A stored is an entry of a jump table or table of functions.
type stored struct {
	place  uint32 // from the first byte of the image
	symbol uint32
	target uint32 // as linked
}

// dataImage is the initial data right after the text.
const dataImage = "__kernel_data_lma"

// codeLine is the bytes of a prefetch of code.
const codeLine = 64

// store returns why a word can't get an address of text at run time, or "".
func (m *mover) store(offset, symbol, target uint32) string {
	for _, p := range m.file.Progs {
		if p.Type != elf.PT_LOAD || uint64(offset) < p.Vaddr || uint64(offset)+4 > p.Vaddr+p.Filesz {
			continue
		}
		at := uint64(offset) - p.Vaddr + p.Paddr - m.paddr()
		switch {
		case at%4 != 0 || at+4 > uint64(len(m.image)):
			return "address of text in a word that is not aligned"
		case uint64(target) < m.text.start || uint64(target) > m.text.end:
			return "address beyond the text"
		}
		m.stored = append(m.stored, stored{place: uint32(at), symbol: symbol, target: target})
		return ""
	}
	return "address of text in data without initial values"
}

// separate moves initial data that the kernel stores to away from the text: a processor may
// prefetch the bytes after the text, which mustn't change.
func (m *mover) separate() {
	size := uint32(m.text.end - m.text.start)
	for _, s := range m.stored {
		if s.place >= size {
			m.gap = (size-1)&^15 + codeLine - (size+3)&^3
			return
		}
	}
}

func (m *mover) placed(symbol, addr uint32) uint32 {
	if symbol != 0 && m.symbols[symbol-1].Name == dataImage {
		return addr + m.gap
	}
	return addr
}

func (m *mover) paddr() uint64 {
	for _, p := range m.file.Progs {
		if p.Type == elf.PT_LOAD && p.Memsz != 0 && p.Flags&elf.PF_X != 0 {
			return p.Paddr
		}
	}
	return 0
}

// withAddresses prepends code that stores the addresses of text at each entry of the kernel. It
// finds its place by the program counter, uses caller-saved registers, and may run any number of
// times.
func (m *mover) withAddresses() []byte {
	size := uint32(m.text.end - m.text.start)
	const (
		t0, t1, t2, t3, t4 = 5, 6, 7, 28, 29

		loop  = 5 * 4 // where the loop begins, and where its last instruction is
		again = 11 * 4
		table = 13 * 4
	)
	end := uint32(table + 8*len(m.stored))
	text := (end + 15) &^ 15
	immediate := func(v, rs1, funct3, rd, opcode uint32) uint32 { return v<<20 | rs1<<15 | funct3<<12 | rd<<7 | opcode }
	add := func(rd, rs2 uint32) uint32 { return rs2<<20 | rd<<15 | rd<<7 | opOp }
	back := uint32(again - loop) // the distance is negative: its bits are those of 4096 less this
	skip := text - (again + 4)
	out := make([]byte, 0, int(text+m.gap)+len(m.image)+16)
	for _, w := range []uint32{
		t0<<7 | opAUIPC,                    // t0: the image
		immediate(table, t0, 0, t1, opImm), // t1: the next entry of the table
		(end+0x800)&^0xFFF | t2<<7 | opLUI, // t2: its end
		immediate(end&0xFFF, t2, 0, t2, opImm),
		add(t2, t0),
		immediate(0, t1, 2, t3, opLoad), // t3: where to store
		immediate(4, t1, 2, t4, opLoad), // t4: what
		add(t3, t0),
		add(t4, t0),
		t4<<20 | t3<<15 | 2<<12 | opStore,
		immediate(8, t1, 0, t1, opImm),
		1<<31 | (0x1000-back)>>5&0x3F<<25 | t2<<20 | t1<<15 | 1<<12 | (0x1000-back)>>1&0xF<<8 | 1<<7 | opBranch, // if t1 != t2
		skip&0x7FE<<20 | skip&0x800<<9 | skip&0xFF000 | opJAL,
	} {
		out = binary.LittleEndian.AppendUint32(out, w)
	}
	for _, s := range m.stored {
		place := s.place
		if place >= size {
			place += m.gap
		}
		out = binary.LittleEndian.AppendUint32(out, text+place)
		out = binary.LittleEndian.AppendUint32(out, text+m.placed(s.symbol, s.target)-uint32(m.text.start))
	}
	out = append(out, make([]byte, text-end)...)
	out = append(append(out, m.image[:size]...), make([]byte, m.gap)...)
	out = append(out, m.image[size:]...)
	return append(out, make([]byte, -len(out)&15)...)
}
