package kernels

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// A testFile describes an ELF file for tests. The zero value of a field means what a good kernel has; good returns one.
type testFile struct {
	header   func(*elf.Header32) // changes the header last
	entry    uint32
	segments []testSegment
	symbols  []elf.Sym32 // Name is ignored: symbol i is called "s<i>", or names[i]
	names    []string
	rela     []elf.Rela32
	relaInfo uint32 // section that the relocations are for: 1 text, 2 data
	noRela   bool
}

type testSegment struct {
	flags        elf.ProgFlag
	vaddr, paddr uint32
	bytes        []byte
	memory       uint32 // 0: as many as bytes
}

// Section indices that build gives; symbols refer to them.
const (
	secText = 1
	secData = 2
	secBSS  = 3
	secABS  = uint16(elf.SHN_ABS)
)

// good is a kernel with 32 bytes of text, 8 of data and 4 of zeroed data, and a relocation of each kind that is fine.
func good() testFile {
	return testFile{
		segments: []testSegment{
			{flags: elf.PF_R | elf.PF_X, bytes: bytes.Repeat([]byte{0x13, 0, 0, 0}, 8)},
			{flags: elf.PF_R | elf.PF_W, vaddr: localData, paddr: 32, bytes: []byte("initial."), memory: 12},
		},
		symbols: []elf.Sym32{
			{Value: 8, Shndx: secText},
			{Value: localData, Shndx: secData},
			{Value: 32, Shndx: secABS},
			{Value: uint32(2), Shndx: secABS},
		},
		names: []string{"label", "variable", "__data_image", "__reprise_arch"},
		rela: []elf.Rela32{
			reloc(0, elf.R_RISCV_JAL, 1, 0),
			reloc(4, elf.R_RISCV_HI20, 2, 0),
			reloc(8, elf.R_RISCV_LO12_I, 2, 4),
			reloc(12, elf.R_RISCV_PCREL_HI20, 3, 0),
			reloc(16, elf.R_RISCV_PCREL_LO12_I, 1, 0),
			reloc(20, elf.R_RISCV_BRANCH, 1, 0),
			reloc(24, elf.R_RISCV_CALL_PLT, 1, 0),
		},
	}
}

func reloc(off uint32, t elf.R_RISCV, symbol uint32, addend int32) elf.Rela32 {
	return elf.Rela32{Off: off, Info: symbol<<8 | uint32(t), Addend: addend}
}

func (f testFile) build() []byte {
	const headerSize, progSize, sectSize = 52, 32, 40
	le := binary.LittleEndian
	at := uint32(headerSize + progSize*len(f.segments))
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
	for _, s := range f.segments {
		off, size := put(s.bytes)
		memory := max(s.memory, size)
		progs = append(progs, elf.Prog32{Type: uint32(elf.PT_LOAD), Off: off, Vaddr: s.vaddr, Paddr: s.paddr, Filesz: size, Memsz: memory, Flags: uint32(s.flags), Align: 4})
	}
	section := func(s elf.Section32) { sections = append(sections, s) }
	text, data := elf.Prog32{}, elf.Prog32{Vaddr: localData}
	for _, p := range progs {
		if p.Flags&uint32(elf.PF_X) != 0 {
			text = p
		} else {
			data = p
		}
	}
	section(elf.Section32{Type: uint32(elf.SHT_PROGBITS), Flags: uint32(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: text.Vaddr, Off: text.Off, Size: text.Filesz})
	section(elf.Section32{Type: uint32(elf.SHT_PROGBITS), Flags: uint32(elf.SHF_ALLOC | elf.SHF_WRITE), Addr: data.Vaddr, Off: data.Off, Size: data.Filesz})
	section(elf.Section32{Type: uint32(elf.SHT_NOBITS), Flags: uint32(elf.SHF_ALLOC | elf.SHF_WRITE), Addr: data.Vaddr + data.Filesz, Size: data.Memsz - data.Filesz})

	names := []byte{0}
	symbols := []elf.Sym32{{}}
	for i, s := range f.symbols {
		s.Name = uint32(len(names))
		names = append(append(names, f.names[i]...), 0)
		if s.Info == 0 {
			s.Info = uint8(elf.STB_GLOBAL) << 4
		}
		symbols = append(symbols, s)
	}
	symOff, symSize := put(symbols)
	strOff, strSize := put(names)
	section(elf.Section32{Type: uint32(elf.SHT_SYMTAB), Off: symOff, Size: symSize, Link: 5, Info: 1, Entsize: 16}) // 4
	section(elf.Section32{Type: uint32(elf.SHT_STRTAB), Off: strOff, Size: strSize})                                // 5
	if !f.noRela {
		relaOff, relaSize := put(f.rela)
		section(elf.Section32{Type: uint32(elf.SHT_RELA), Off: relaOff, Size: relaSize, Link: 4, Info: max(f.relaInfo, 1), Entsize: 12})
	}
	sectOff, _ := put(sections)

	h := elf.Header32{
		Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_RISCV), Version: 1, Entry: f.entry,
		Phoff: headerSize, Shoff: sectOff, Ehsize: headerSize, Phentsize: progSize, Phnum: uint16(len(progs)),
		Shentsize: sectSize, Shnum: uint16(len(sections)), Shstrndx: 5,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS32), byte(elf.ELFDATA2LSB), 1
	if f.header != nil {
		f.header(&h)
	}
	var out bytes.Buffer
	for _, v := range []any{h, progs, body.Bytes()} {
		if err := binary.Write(&out, le, v); err != nil {
			panic(err)
		}
	}
	return out.Bytes()
}
