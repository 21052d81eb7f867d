// Package elftest writes ELF files for tests of what reads them.
package elftest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// A File describes a linked program for 32-bit RISC-V: sections of text, data and zeroed data,
// symbols, and relocations.
type File struct {
	Header          func(*elf.Header32) // changes the header last
	Entry           uint32
	Segments        []Segment
	Symbols         []elf.Sym32 // Name is ignored: symbol i, i+1 in relocations, has Names[i]; no Info means global
	Names           []string
	Relocations     []elf.Rela32
	DataRelocations []elf.Rela32 // of the data; Relocations are of the text
	NoRelocations   bool
}

// A Segment is what a program loads.
type Segment struct {
	Flags        elf.ProgFlag
	Vaddr, Paddr uint32
	Bytes        []byte
	Memory       uint32 // 0: as many as Bytes
}

// Indices of sections, which symbols refer to.
const (
	Text = 1
	Data = 2
	BSS  = 3
	ABS  = uint16(elf.SHN_ABS)
)

// Relocation returns a relocation against symbol 1, 2, ... or 0 for none.
func Relocation(off uint32, t elf.R_RISCV, symbol uint32, addend int32) elf.Rela32 {
	return elf.Rela32{Off: off, Info: symbol<<8 | uint32(t), Addend: addend}
}

// Build returns the file's bytes.
func (f File) Build() []byte {
	const headerSize, progSize, sectSize = 52, 32, 40
	le := binary.LittleEndian
	at := uint32(headerSize + progSize*len(f.Segments))
	var body bytes.Buffer
	put := func(v any) (offset, size uint32) {
		for body.Len()%4 != 0 {
			body.WriteByte(0)
		}
		start := body.Len()
		if err := binary.Write(&body, le, v); err != nil {
			panic(err)
		}
		return at + uint32(start), uint32(body.Len() - start)
	}

	var progs []elf.Prog32
	sections := []elf.Section32{{}}
	for _, s := range f.Segments {
		off, size := put(s.Bytes)
		memory := max(s.Memory, size)
		progs = append(progs, elf.Prog32{Type: uint32(elf.PT_LOAD), Off: off, Vaddr: s.Vaddr, Paddr: s.Paddr, Filesz: size, Memsz: memory,
			Flags: uint32(s.Flags), Align: 4})
	}
	section := func(s elf.Section32) { sections = append(sections, s) }
	text, data := elf.Prog32{}, elf.Prog32{Vaddr: 0xFFB00480}
	for _, p := range progs {
		if p.Flags&uint32(elf.PF_X) != 0 {
			text = p
		} else {
			data = p
		}
	}
	const alloc, write = uint32(elf.SHF_ALLOC), uint32(elf.SHF_ALLOC | elf.SHF_WRITE)
	bits := uint32(elf.SHT_PROGBITS)
	section(elf.Section32{Type: bits, Flags: alloc | uint32(elf.SHF_EXECINSTR), Addr: text.Vaddr, Off: text.Off, Size: text.Filesz})
	section(elf.Section32{Type: bits, Flags: write, Addr: data.Vaddr, Off: data.Off, Size: data.Filesz})
	section(elf.Section32{Type: uint32(elf.SHT_NOBITS), Flags: write, Addr: data.Vaddr + data.Filesz, Size: data.Memsz - data.Filesz})

	names := []byte{0}
	symbols := []elf.Sym32{{}}
	for i, s := range f.Symbols {
		s.Name = uint32(len(names))
		names = append(append(names, f.Names[i]...), 0)
		if s.Info == 0 {
			s.Info = uint8(elf.STB_GLOBAL) << 4
		}
		symbols = append(symbols, s)
	}
	symOff, symSize := put(symbols)
	strOff, strSize := put(names)
	section(elf.Section32{Type: uint32(elf.SHT_SYMTAB), Off: symOff, Size: symSize, Link: 5, Info: 1, Entsize: 16})
	section(elf.Section32{Type: uint32(elf.SHT_STRTAB), Off: strOff, Size: strSize})
	for i, all := range [][]elf.Rela32{f.Relocations, f.DataRelocations} {
		of := uint32(i + Text)
		if of == Text && f.NoRelocations || of == Data && len(all) == 0 {
			continue
		}
		off, size := put(all)
		section(elf.Section32{Type: uint32(elf.SHT_RELA), Off: off, Size: size, Link: 4, Info: of, Entsize: 12})
	}
	sectOff, _ := put(sections)

	h := elf.Header32{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_RISCV), Version: 1, Entry: f.Entry,
		Phoff: headerSize, Shoff: sectOff, Ehsize: headerSize, Phentsize: progSize, Phnum: uint16(len(progs)),
		Shentsize: sectSize, Shnum: uint16(len(sections)), Shstrndx: 5,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS32), byte(elf.ELFDATA2LSB), 1
	if f.Header != nil {
		f.Header(&h)
	}
	var out bytes.Buffer
	for _, v := range []any{h, progs, body.Bytes()} {
		if err := binary.Write(&out, le, v); err != nil {
			panic(err)
		}
	}
	return out.Bytes()
}
