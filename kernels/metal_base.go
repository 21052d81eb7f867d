package kernels

import (
	"cmp"
	"debug/elf"
	"io"
	"slices"
)

const maxBase = 128 << 10

// A MetalBase is tt-metal's base firmware of one processor.
type MetalBase struct {
	// Segments are ordered by address: text in L1 at its entry, then data in local RAM, whose first
	// values the host leaves in L1.
	Segments []MetalSegment
	// TextEnd is where kernels are linked, except for the instruction RAM of Wormhole's NCRISC.
	TextEnd uint32
	// LocalEnd is the start of kernels' data in local RAM.
	LocalEnd uint32
	// GlobalPointer is the value of register gp.
	GlobalPointer uint32
	// Variables are for kernels to be linked with, by address and name.
	Variables []MetalVariable
	// DRAMBanks and L1Banks are what it was compiled for, 0 without bank tables.
	DRAMBanks, L1Banks int
}

// A MetalSegment is a range of memory of base firmware.
type MetalSegment struct {
	Addr uint32
	Data []byte // its first bytes
	Size uint32 // bytes; those after Data are zero
}

// Text returns the segment in L1.
func (b *MetalBase) Text() MetalSegment { return b.Segments[0] }

// Entry is the first instruction's address.
func (b *MetalBase) Entry() uint32 { return b.Segments[0].Addr }

// LoadMetalBase reads tt-metal's base firmware: <processor>.elf or <processor>_weakened.elf of a
// firmware folder. Each error wraps one of the package's sentinels. The result does not refer to
// file's memory. LoadMetalBase never panics.
func LoadMetalBase(file []byte) (*MetalBase, error) {
	f, err := open(file)
	if err != nil {
		return nil, err
	}
	b := &MetalBase{}
	var text span
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Memsz == 0 {
			continue
		}
		mem := span{p.Vaddr, p.Vaddr + p.Memsz}
		switch {
		case p.Filesz > p.Memsz:
			return nil, refuse(ErrNotELF, "segment at %#x has more bytes in the file than in memory", p.Vaddr)
		case p.Memsz > maxBase:
			return nil, refuse(ErrTooLarge, "segment at %#x has %d bytes", p.Vaddr, p.Memsz)
		case p.Flags&elf.PF_X != 0 && text.end != 0:
			return nil, refuse(ErrAddress, "more than one executable segment, the second at %#x", p.Vaddr)
		case p.Flags&elf.PF_X != 0 && (f.Entry != p.Vaddr || p.Filesz != p.Memsz):
			return nil, refuse(ErrEntry, "entry %#x, text at %#x", f.Entry, p.Vaddr)
		case p.Flags&elf.PF_X != 0 && (mem.end > localRAM || mem.start%4 != 0):
			return nil, refuse(ErrAddress, "text at %#x is not in L1", p.Vaddr)
		case p.Flags&elf.PF_X != 0:
			text = mem
		case mem.start < localRAM || mem.end > localRAMEnd:
			return nil, refuse(ErrAddress, "data at %#x..%#x is not in local RAM", mem.start, mem.end)
		}
		data := make([]byte, p.Filesz)
		if _, err := io.ReadFull(p.Open(), data); err != nil {
			return nil, refuse(ErrNotELF, "segment at %#x is not whole: %v", p.Vaddr, err)
		}
		b.Segments = append(b.Segments, MetalSegment{Addr: uint32(p.Vaddr), Data: data, Size: uint32(p.Memsz)})
	}
	if text.end == 0 {
		return nil, refuse(ErrEntry, "no executable segment")
	}
	slices.SortStableFunc(b.Segments, func(a, b MetalSegment) int { return cmp.Compare(a.Addr, b.Addr) })
	for i, s := range b.Segments[1:] {
		if before := b.Segments[i]; before.Addr+before.Size > s.Addr {
			return nil, refuse(ErrAddress, "segment at %#x overlaps the one before it", s.Addr)
		}
	}
	symbols, err := symbolsOf(f, ErrNotBase)
	if err != nil {
		return nil, err
	}
	if err := b.read(f, symbols, text); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *MetalBase) read(f *elf.File, symbols []elf.Symbol, text span) error {
	var stack bool
	for _, s := range symbols {
		switch {
		case s.Section == elf.SHN_ABS && s.Name == "__stack_top":
			stack = true
		case s.Section == elf.SHN_ABS && s.Name == "__fw_export_text_end":
			b.TextEnd = uint32(s.Value)
		case s.Section == elf.SHN_ABS && s.Name == "__fw_export_ldm_end":
			b.LocalEnd = uint32(s.Value)
		case s.Section == elf.SHN_ABS && s.Name == "__global_pointer$":
			b.GlobalPointer = uint32(s.Value)
		case classify(f, s, text) != inData || elf.ST_BIND(s.Info) == elf.STB_LOCAL || s.Value < localRAM || s.Value >= localRAMEnd ||
			s.Size > localRAMEnd-localRAM:
		case elf.ST_TYPE(s.Info) == elf.STT_OBJECT:
			b.Variables = append(b.Variables, MetalVariable{Name: s.Name, Addr: uint32(s.Value), Size: uint32(s.Size)})
		}
	}
	switch {
	case !stack || b.LocalEnd == 0 || uint64(b.TextEnd) < text.end:
		return refuse(ErrNotBase, "it has no symbols __stack_top, __fw_export_ldm_end and, after the text, __fw_export_text_end: is it a kernel?")
	case len(b.Variables) > maxVariables:
		return refuse(ErrNotBase, "%d variables", len(b.Variables))
	}
	sortVariables(b.Variables)
	b.DRAMBanks, b.L1Banks = bankCounts(b.Variables)
	return nil
}

func symbolsOf(f *elf.File, none error) ([]elf.Symbol, error) {
	symbols, err := f.Symbols()
	if err != nil {
		err = refuse(none, "it has no symbols (%v): use the file as tt-metal wrote it, not stripped", err)
	}
	return symbols, err
}

func sortVariables(vs []MetalVariable) {
	slices.SortFunc(vs, func(a, b MetalVariable) int {
		return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Name, b.Name))
	})
}

// tt-metal's tables have 16 bits per bank and NoC.
func bankCounts(vs []MetalVariable) (dram, l1 int) {
	const nocs, coordinate = 2, 2
	for _, v := range vs {
		switch v.Name {
		case "dram_bank_to_noc_xy":
			dram = int(v.Size) / (nocs * coordinate)
		case "l1_bank_to_noc_xy":
			l1 = int(v.Size) / (nocs * coordinate)
		}
	}
	return dram, l1
}
