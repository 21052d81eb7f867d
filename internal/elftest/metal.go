package elftest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"

	"github.com/reprise-tt/reprise/chip"
)

// A Variable is a variable of tt-metal's base firmware.
type Variable struct {
	Name string
	Addr uint32
	Size uint32
}

// Metal describes tt-metal's base firmware of one processor, as far as kernels are linked with it.
// Its instructions do nothing.
type Metal struct {
	Processor      chip.Processor
	Entry, TextEnd uint32
	LocalEnd       uint32
	Variables      []Variable
	IRAM           bool // kernels are linked in the instruction RAM of Wormhole's NCRISC
	KernelData     []byte
}

const (
	localRAM      = 0xFFB00000
	globalPointer = localRAM + 0x7F0
	iram          = 0xFFC00000
)

const ret = 0x00008067

// NewMetal returns base firmware at an address, with bank tables for data movement.
func NewMetal(p chip.Processor, entry uint32, dramBanks, l1Banks int) Metal {
	m := Metal{Processor: p, Entry: entry, TextEnd: entry + 0x40, LocalEnd: localRAM + 0x830}
	if p == chip.BRISC || p == chip.NCRISC {
		m.Variables = []Variable{
			{"cb_interface", localRAM + 0x48, 1024},
			{"dram_bank_to_noc_xy", localRAM + 0x448, uint32(4 * dramBanks)},
			{"l1_bank_to_noc_xy", localRAM + 0x500, uint32(4 * l1Banks)},
		}
	} else {
		m.Variables = []Variable{{"cb_interface", localRAM + 0x20, 1024}}
		m.LocalEnd = localRAM + 0x430
	}
	return m
}

func absolute(value uint32) elf.Sym32 { return elf.Sym32{Value: value, Shndx: ABS} }

// Base returns the base firmware's file.
func (m Metal) Base() File {
	f := File{
		Entry: m.Entry,
		Segments: []Segment{
			{Flags: elf.PF_R | elf.PF_X, Vaddr: m.Entry, Paddr: m.Entry, Bytes: bytes.Repeat([]byte{0x13, 0, 0, 0}, int(m.TextEnd-m.Entry)/4)},
			{Flags: elf.PF_R | elf.PF_W, Vaddr: localRAM, Paddr: localRAM, Bytes: []byte("data"), Memory: m.LocalEnd - localRAM},
		},
		Symbols: []elf.Sym32{absolute(m.TextEnd), absolute(m.LocalEnd), absolute(globalPointer), absolute(localRAM + 0x2000)},
		Names:   []string{"__fw_export_text_end", "__fw_export_ldm_end", "__global_pointer$", "__stack_top"},

		NoRelocations: true,
	}
	return f.with(m.Variables, elf.STB_GLOBAL, BSS)
}

func (f File) with(vs []Variable, bind elf.SymBind, section uint16) File {
	for _, v := range vs {
		f.Symbols = append(f.Symbols, elf.Sym32{Value: v.Addr, Size: v.Size, Info: elf.ST_INFO(bind, elf.STT_OBJECT), Shndx: section})
		f.Names = append(f.Names, v.Name)
	}
	return f
}

// Kernel returns the file of a kernel linked with the base firmware, of 16 bytes of text, with
// further relocations, which may name symbol 1, the first instruction.
func (m Metal) Kernel(relocations ...elf.Rela32) File {
	at := m.TextEnd
	if m.IRAM {
		at = iram
	}
	text := binary.LittleEndian.AppendUint32(bytes.Repeat([]byte{0x13, 0, 0, 0}, 3), ret)
	f := File{
		Entry:    at,
		Segments: []Segment{{Flags: elf.PF_R | elf.PF_X, Vaddr: at, Paddr: at, Bytes: text}},
		Symbols:  []elf.Sym32{{Value: at, Shndx: Text}, absolute(m.TextEnd), absolute(m.LocalEnd), absolute(globalPointer)},
		Names:    []string{"_start", "__fw_export_text_end", "__fw_export_ldm_end", "__global_pointer$"},

		Relocations: relocations,
	}
	if len(m.KernelData) > 0 {
		f.Segments = append(f.Segments, Segment{Flags: elf.PF_R | elf.PF_W, Vaddr: m.LocalEnd, Paddr: at + uint32(len(text)),
			Bytes: m.KernelData})
	}
	if m.Processor == chip.NCRISC {
		f.Symbols, f.Names = append(f.Symbols, absolute(at)), append(f.Names, "__kernel_text_start")
	}
	return f.with(m.Variables, elf.STB_WEAK, ABS)
}

// WriteFile writes a file as tt-metal lays them out: <dir>/brisc/brisc.elf.
func (m Metal) WriteFile(dir string, f File) error {
	name := strings.ToLower(m.Processor.String())
	if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name, name+".elf"), f.Build(), 0o644)
}
