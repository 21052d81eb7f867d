package kernels

import (
	"debug/elf"
	"maps"
	"slices"
)

// maxSteps bounds the search for uses of upper halves in a file.
const maxSteps = 1 << 20

// A mover makes text linked at a fixed address independent of its place, by the relocations that
// the linker kept. Of an absolute address of text LUI becomes AUIPC, and the reverse for data and
// numbers relative to the program counter. Relocation types: RISC-V ELF psABI, "Relocations".
type mover struct {
	file    *elf.File
	symbols []elf.Symbol
	text    span
	image   []byte // text from byte 0

	upper   map[uint32]*upper   // HI20 of addresses of text, by place
	lower   map[uint32]lower    // LO12 of addresses of text, by place
	pcUpper map[uint32]*upper   // PCREL_HI20 of addresses that are not text, by place
	pcLower map[uint32][]uint32 // places of PCREL_LO12, by the place of their HI20
	pcImage map[uint32]*upper   // PCREL_HI20 of the place of the initial data, by place
	stored  []stored            // words that need an address of text
	gap     uint32              // bytes that are put between text and initial data
	steps   int                 // left for search
}

type upper struct {
	place  uint32
	symbol uint32
	target uint32
	lows   []lower // its users
}

type lower struct {
	place  uint32
	symbol uint32
	target uint32
}

func (m *mover) move() error {
	m.upper, m.lower = map[uint32]*upper{}, map[uint32]lower{}
	m.pcUpper, m.pcLower, m.pcImage = map[uint32]*upper{}, map[uint32][]uint32{}, map[uint32]*upper{}
	m.steps = maxSteps
	var seen bool
	for _, s := range m.file.Sections {
		if s.Type != elf.SHT_RELA || int(s.Info) >= len(m.file.Sections) {
			continue
		}
		place := m.file.Sections[s.Info]
		if place.Flags&elf.SHF_ALLOC == 0 || !m.loaded(place) {
			continue // debug information and strings for the host: not in the image
		}
		inText := m.holds(place)
		seen = seen || inText
		rela, err := s.Data()
		if err != nil {
			return refuse(ErrNotELF, "relocations %s: %v", s.Name, err)
		}
		if err := m.read(rela, inText); err != nil {
			return err
		}
	}
	if !seen {
		return refuse(ErrNoRelocations, "none for the text: use the file as tt-metal wrote it, not stripped")
	}
	if err := m.pair(); err != nil {
		return err
	}
	m.separate()
	for _, place := range slices.Sorted(maps.Keys(m.upper)) {
		if err := m.rewrite(m.upper[place], opLUI, opAUIPC); err != nil {
			return err
		}
	}
	if err := m.rewriteAll(m.pcUpper, opLUI); err != nil {
		return err
	}
	if m.gap == 0 {
		return nil // the distance to the initial data stays
	}
	return m.rewriteAll(m.pcImage, opAUIPC)
}

func (m *mover) rewriteAll(all map[uint32]*upper, to uint32) error {
	for _, place := range slices.Sorted(maps.Keys(all)) {
		u := all[place]
		for _, l := range m.pcLower[place] {
			u.lows = append(u.lows, lower{place: l, symbol: u.symbol, target: u.target})
		}
		if err := m.rewrite(u, opAUIPC, to); err != nil {
			return err
		}
	}
	return nil
}

func (m *mover) loaded(s *elf.Section) bool {
	for _, p := range m.file.Progs {
		if p.Type == elf.PT_LOAD && p.Vaddr <= s.Addr && s.Addr+s.Size <= p.Vaddr+p.Memsz {
			return true
		}
	}
	return false
}

// At the text's end tt-metal's linker script puts the symbol of the initial data's place into an
// empty section.
func (m *mover) holds(s *elf.Section) bool {
	return s.Flags&elf.SHF_ALLOC != 0 && m.text.start <= s.Addr && s.Addr+s.Size <= m.text.end
}

func (m *mover) read(rela []byte, inText bool) error {
	differences := map[uint32]int{} // by place: addresses of text that are added less those that are subtracted
	for r, err := range relocations(rela, m.symbols) {
		if err != nil {
			return err
		}
		offset, index, target, t := r.offset, r.index, r.target, r.kind
		switch t {
		case elf.R_RISCV_NONE, elf.R_RISCV_RELAX, elf.R_RISCV_ALIGN:
			continue
		}
		in := r.symbol.Section
		toText := in != elf.SHN_UNDEF && int(in) < len(m.file.Sections) && m.holds(m.file.Sections[in])
		bad := func(why string) error { return r.error(m.file, why) }
		if inText && (offset%4 != 0 || !m.text.contains(uint64(offset))) {
			return bad("outside of the text or between instructions")
		}
		switch t {
		case elf.R_RISCV_ADD8, elf.R_RISCV_ADD16, elf.R_RISCV_ADD32, elf.R_RISCV_ADD64, elf.R_RISCV_SET6, elf.R_RISCV_SET8,
			elf.R_RISCV_SET16,
			elf.R_RISCV_SET32:
			if toText {
				differences[offset]++
			}
		case elf.R_RISCV_SUB6, elf.R_RISCV_SUB8, elf.R_RISCV_SUB16, elf.R_RISCV_SUB32, elf.R_RISCV_SUB64:
			if toText {
				differences[offset]--
			}
		case elf.R_RISCV_32:
			if toText {
				if why := m.store(offset, index, target); why != "" {
					return bad(why)
				}
			}
		case elf.R_RISCV_BRANCH, elf.R_RISCV_JAL, elf.R_RISCV_CALL, elf.R_RISCV_CALL_PLT:
			if inText != toText {
				return bad("jump out of the text, whose distance depends on where the text is placed")
			}
		case elf.R_RISCV_32_PCREL:
			if inText != toText {
				return bad("distance between text and data, which is known only when the kernel is placed")
			}
		case elf.R_RISCV_HI20, elf.R_RISCV_LO12_I, elf.R_RISCV_LO12_S:
			switch {
			case !toText:
			case !inText:
				return bad("instruction in data that makes an address of text")
			case t == elf.R_RISCV_HI20:
				m.upper[offset] = &upper{place: offset, symbol: index, target: target}
			default:
				m.lower[offset] = lower{place: offset, symbol: index, target: target}
			}
		case elf.R_RISCV_PCREL_HI20:
			switch {
			case inText && toText && r.symbol.Name == dataImage:
				m.pcImage[offset] = &upper{place: offset, symbol: index, target: target}
			case inText == toText:
			case !inText:
				return bad("instruction in data that makes an address of text")
			default:
				m.pcUpper[offset] = &upper{place: offset, symbol: index, target: target}
			}
		case elf.R_RISCV_PCREL_LO12_I, elf.R_RISCV_PCREL_LO12_S:
			at := target
			if index == 0 {
				at += offset // as tt-metal's loader writes it into the .xip.elf files beside the kernels
			}
			if inText {
				m.pcLower[at] = append(m.pcLower[at], offset)
			}
		default:
			// The linker has version-dependent numbers for instructions relative to gp or zero.
			own := t == 47 || t == 48 || t >= 60
			if !own || toText || !inText || !relativeToFixed(m.word(offset)) {
				return bad("a kind that kernels don't use: link with the script and options of tt-metal")
			}
		}
	}
	for _, offset := range slices.Sorted(maps.Keys(differences)) {
		if differences[offset] != 0 {
			return &RelocationError{Offset: offset, Type: uint32(elf.R_RISCV_ADD32),
				Why: "distance between text and something else, which is known only when the kernel is placed"}
		}
	}
	return nil
}
