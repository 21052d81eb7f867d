package kernels

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"iter"
	"strings"
)

// checkRelocations proves, from the relocations that the linker kept, that text and data hold no
// address that depends on the kernel's place. Absolute addresses of data and distances within text
// are fine; absolute addresses of text, and distances between text and data, are not. imageSize is
// the length of text and initial data, which move together.
//
// Relocation types: RISC-V ELF psABI, "Relocations".
func checkRelocations(f *elf.File, text span, imageSize uint32) error {
	symbols, err := f.Symbols()
	if err != nil && len(f.Sections) == 0 {
		return refuse(ErrNoRelocations, "the file has no sections; link with -Wl,--emit-relocs and don't strip it")
	}
	image := span{text.start, text.start + uint64(imageSize)}
	var seen bool
	for _, s := range f.Sections {
		if s.Type != elf.SHT_RELA || int(s.Info) >= len(f.Sections) {
			continue
		}
		place := f.Sections[s.Info]
		if place.Flags&elf.SHF_ALLOC == 0 {
			continue // debug information: not in the image
		}
		rela, err := s.Data()
		if err != nil {
			return refuse(ErrNotELF, "relocations %s: %v", s.Name, err)
		}
		inText := text.contains(place.Addr)
		seen = seen || inText
		for r, err := range relocations(rela, symbols) {
			if err != nil {
				return err
			}
			if why := judge(r.kind, inText, classify(f, r.symbol, text), uint64(r.target), image); why != "" {
				return r.error(f, why)
			}
		}
	}
	if !seen {
		return refuse(ErrNoRelocations, "none for the text; link with -Wl,--emit-relocs and don't strip it")
	}
	return nil
}

// checkConstructors refuses functions that start-up code would have to call.
func checkConstructors(f *elf.File) error {
	symbols, _ := f.Symbols() // checkRelocations needs them
	for i, s := range f.Sections {
		array := s.Type == elf.SHT_INIT_ARRAY || s.Type == elf.SHT_FINI_ARRAY || s.Type == elf.SHT_PREINIT_ARRAY ||
			strings.HasPrefix(s.Name, ".ctors") || strings.HasPrefix(s.Name, ".dtors")
		if !array || s.Size == 0 {
			continue
		}
		what := fmt.Sprintf("%d bytes", s.Size)
		for _, rela := range f.Sections {
			if rela.Type != elf.SHT_RELA || int(rela.Info) != i {
				continue
			}
			if data, err := rela.Data(); err == nil {
				for r := range relocations(data, symbols) {
					what += " " + nameOf(f, r.symbol)
				}
			}
		}
		return refuse(ErrConstructor, "section %s: %s; initialize with constants (constexpr) or in kernel_main", s.Name, what)
	}
	return nil
}

type relocation struct {
	offset uint32
	kind   elf.R_RISCV
	index  uint32 // of the symbol
	symbol elf.Symbol
	target uint32
}

func (r *relocation) error(f *elf.File, why string) error {
	return &RelocationError{Offset: r.offset, Type: uint32(r.kind), Symbol: nameOf(f, r.symbol), Why: why}
}

// relocations iterates over a section.
func relocations(rela []byte, symbols []elf.Symbol) iter.Seq2[relocation, error] {
	return func(yield func(relocation, error) bool) {
		for ; len(rela) >= 12; rela = rela[12:] {
			info := binary.LittleEndian.Uint32(rela[4:])
			r := relocation{offset: binary.LittleEndian.Uint32(rela), kind: elf.R_RISCV(info & 0xFF), index: info >> 8}
			if int64(r.index) > int64(len(symbols)) {
				yield(r, refuse(ErrNotELF, "relocation at %#x names symbol %d of %d", r.offset, r.index, len(symbols)))
				return
			}
			if r.index != 0 {
				r.symbol = symbols[r.index-1]
			}
			r.target = uint32(r.symbol.Value) + binary.LittleEndian.Uint32(rela[8:])
			if !yield(r, nil) {
				return
			}
		}
	}
}

type place uint8

const (
	undefined place = iota // nothing: a weak symbol that no object defines
	absolute               // a number
	inText
	inData
)

func classify(f *elf.File, s elf.Symbol, text span) place {
	switch {
	case s.Section == elf.SHN_UNDEF && s.Name != "":
		return undefined
	case s.Section == elf.SHN_UNDEF || int(s.Section) >= len(f.Sections):
		return absolute // SHN_ABS and the other reserved indices are beyond any section
	}
	section := f.Sections[s.Section]
	switch {
	case section.Flags&elf.SHF_ALLOC == 0:
		return absolute
	case section.Flags&elf.SHF_EXECINSTR != 0 || text.contains(section.Addr):
		return inText
	}
	return inData
}

func nameOf(f *elf.File, s elf.Symbol) string {
	if s.Name == "" && int(s.Section) < len(f.Sections) {
		return f.Sections[s.Section].Name
	}
	return s.Name
}

// judge returns why a relocation is refused, or "".
func judge(t elf.R_RISCV, fromText bool, to place, target uint64, image span) string {
	if to == undefined {
		return "symbol that nothing defines; link what defines it"
	}
	switch t {
	case elf.R_RISCV_NONE, elf.R_RISCV_RELAX, elf.R_RISCV_ALIGN:
		return ""
	case elf.R_RISCV_PCREL_LO12_I, elf.R_RISCV_PCREL_LO12_S:
		return "" // the other half, PCREL_HI20, is judged
	case elf.R_RISCV_32, elf.R_RISCV_64, elf.R_RISCV_HI20, elf.R_RISCV_LO12_I, elf.R_RISCV_LO12_S:
		if to == inText {
			return "absolute address of text, which may be placed anywhere; avoid function pointers, virtual functions and jump tables (-fno-jump-tables)"
		}
		return ""
	case elf.R_RISCV_BRANCH, elf.R_RISCV_JAL, elf.R_RISCV_CALL, elf.R_RISCV_CALL_PLT, elf.R_RISCV_PCREL_HI20, elf.R_RISCV_32_PCREL:
		switch {
		case to == absolute && !(image.contains(target) || target == image.end):
			return "distance from text to a fixed address; compile with -mcmodel=medlow"
		case to != absolute && fromText != (to == inText):
			return "distance between text and data, which is known only when the kernel is placed; compile with -mcmodel=medlow and without -fpic"
		}
		return ""
	case elf.R_RISCV_ADD8, elf.R_RISCV_ADD16, elf.R_RISCV_ADD32, elf.R_RISCV_ADD64,
		elf.R_RISCV_SUB6, elf.R_RISCV_SUB8, elf.R_RISCV_SUB16, elf.R_RISCV_SUB32, elf.R_RISCV_SUB64,
		elf.R_RISCV_SET6, elf.R_RISCV_SET8, elf.R_RISCV_SET16, elf.R_RISCV_SET32:
		return "" // halves of differences
	}
	return "a kind that kernels don't use; compile without -fpic, thread-local variables and compressed instructions"
}
