package kernels

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
)

// minMetalStack is the least stack, in bytes, of tt-metal's linker script.
const minMetalStack = 192

// tt-metal's firmware has fewer than 40 variables.
const maxVariables = 1 << 12

// A MetalKernel describes a kernel that tt-metal built. It accesses variables of its base firmware
// at fixed addresses, so it runs on that firmware only.
type MetalKernel struct {
	// LinkedAt is the text's address: the end of the processor's base firmware, or with IRAM the
	// start of NCRISC's instruction RAM.
	LinkedAt uint32
	// FirmwareEnd is the end of the base firmware's text as the kernel names it, or 0.
	FirmwareEnd uint32
	// LocalStart is the address in local RAM between the firmware's data and the kernel's.
	LocalStart uint32
	// LocalLimit is the bytes of data that tt-metal's linker script allows from LocalStart, 0 if
	// unknown.
	LocalLimit uint32
	// GlobalPointer is the expected value of register gp.
	GlobalPointer uint32
	// Variables are the firmware's, by address and name.
	Variables []MetalVariable
	// DRAMBanks and L1Banks are what the kernel was compiled for, 0 without bank tables, as in
	// compute kernels.
	DRAMBanks, L1Banks int
	// IRAM says that the text runs only in the instruction RAM of Wormhole's NCRISC, where the
	// firmware copies it from L1.
	IRAM bool
	// StoredAddresses is the number of words in jump tables and tables of functions with an address
	// of text. tt-metal's loader refuses such kernels; [LoadMetal] prepends code that stores the
	// addresses before each run.
	StoredAddresses int
	// NCRISC says that the kernel was linked for NCRISC. Of other processors base firmware with the
	// same end of text tells.
	NCRISC bool
}

// A MetalVariable is a variable of tt-metal's base firmware.
type MetalVariable struct {
	Name string `json:"name"`
	Addr uint32 `json:"address"` // in local RAM
	Size uint32 `json:"size"`    // bytes
}

// LoadMetal reads a kernel from tt-metal's kernel cache: <processor>/<processor>.elf. As tt-metal's
// host does, it makes absolute addresses of text relative to the program counter, so that the text
// may be at any multiple of 16 in L1.
//
// The kernel runs only on the base firmware of [Image.Metal]. Each error wraps one of the package's
// sentinels and says what to do. The result does not refer to file's memory. LoadMetal never
// panics.
func LoadMetal(file []byte) (*Image, error) {
	f, err := open(file)
	if err != nil {
		return nil, err
	}
	symbols, err := symbolsOf(f, ErrNotMetal)
	if err != nil {
		return nil, err
	}
	m, err := metalSymbols(symbols)
	if err != nil {
		return nil, err
	}
	im, text, err := layout(f, span{localRAM, localRAMEnd})
	if err != nil {
		return nil, err
	}
	im.Metal, im.File = m, bytes.Clone(file)
	if err := m.checkPlaces(f, text); err != nil {
		return nil, err
	}
	m.LocalLimit = dataLimit(f, m.LocalStart)
	if need := im.DataSize + im.BSSSize; m.LocalLimit != 0 && need > m.LocalLimit {
		return nil, refuse(ErrLocalRAM, "%d bytes of data, tt-metal's linker script leaves %d", need, m.LocalLimit)
	}
	if m.IRAM {
		return im, nil // runs where it was linked
	}
	x := mover{file: f, symbols: symbols, text: text, image: im.Text}
	if err := x.move(); err != nil {
		return nil, err
	}
	if m.StoredAddresses = len(x.stored); m.StoredAddresses > 0 {
		im.Text, im.File = x.withAddresses(), nil // what is at an address in the file is elsewhere in Text
		if len(im.Text) > maxImage {
			return nil, refuse(ErrTooLarge, "text, initial data and a table of %d stored addresses have %d bytes, the area %d", m.StoredAddresses,
				len(im.Text), maxImage)
		}
	}
	return im, nil
}

// metalSymbols reads absolute symbols of tt-metal's linker script and the weakened base firmware.
func metalSymbols(symbols []elf.Symbol) (*MetalKernel, error) {
	m := &MetalKernel{}
	var local bool
	for _, s := range symbols {
		if s.Section != elf.SHN_ABS {
			continue
		}
		switch s.Name {
		case "__reprise_arch":
			return nil, refuse(ErrNotMetal, "it was linked by Reprise: use Load")
		case "__stack_top":
			return nil, refuse(ErrNotMetal, "it is base firmware, which package kernels/metal reads with that of the other processors")
		case "__fw_export_text_end":
			m.FirmwareEnd = uint32(s.Value)
		case "__fw_export_ldm_end":
			m.LocalStart, local = uint32(s.Value), true
		case "__global_pointer$":
			m.GlobalPointer = uint32(s.Value)
		case "__kernel_text_start":
			m.NCRISC = true
		}
		if elf.ST_BIND(s.Info) == elf.STB_WEAK && s.Value >= localRAM && s.Value < localRAMEnd && s.Size <= localRAMEnd-localRAM {
			m.Variables = append(m.Variables, MetalVariable{Name: s.Name, Addr: uint32(s.Value), Size: uint32(s.Size)})
		}
	}
	switch {
	case !local:
		return nil, refuse(ErrNotMetal, "no symbol __fw_export_ldm_end, which says where the firmware's data ends")
	case len(m.Variables) > maxVariables:
		return nil, refuse(ErrNotMetal, "%d variables of a base firmware", len(m.Variables))
	}
	sortVariables(m.Variables)
	m.DRAMBanks, m.L1Banks = bankCounts(m.Variables)
	return m, nil
}

func (m *MetalKernel) checkPlaces(f *elf.File, text span) error {
	m.LinkedAt = uint32(text.start)
	if text.start%4 != 0 || text.end%4 != 0 {
		return refuse(ErrAddress, "text at %#x..%#x is not in words", text.start, text.end)
	}
	switch iram := (span{ncriscIRAM, ncriscIRAMEnd}); {
	case text.start == iram.start && text.end <= iram.end:
		m.IRAM, m.NCRISC = true, true
	case text.start == iram.start:
		return refuse(ErrTooLarge, "%d bytes of text, NCRISC's instruction RAM has %d", text.end-text.start, iram.end-iram.start)
	case text.end > localRAM:
		return refuse(ErrAddress, "text at %#x is neither in L1 nor at the start of NCRISC's instruction RAM", text.start)
	case m.FirmwareEnd != m.LinkedAt:
		return refuse(ErrAddress, "text at %#x, but the firmware's text ends at %#x (__fw_export_text_end)", m.LinkedAt, m.FirmwareEnd)
	}
	if m.LocalStart < localRAM || m.LocalStart >= localRAMEnd {
		return refuse(ErrAddress, "__fw_export_ldm_end is %#x, outside of local RAM", m.LocalStart)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Memsz != 0 && p.Flags&elf.PF_X == 0 && p.Vaddr < uint64(m.LocalStart) {
			return refuse(ErrAddress, "data at %#x, the firmware's data ends at %#x", p.Vaddr, m.LocalStart)
		}
	}
	return nil
}

// dataLimit reads a section of tt-metal's linker script, which has three words per segment:
// address, address after trimming, limit in bytes.
func dataLimit(f *elf.File, addr uint32) uint32 {
	s := f.Section(".segments")
	if s == nil || s.Flags&elf.SHF_COMPRESSED != 0 || s.Type != elf.SHT_PROGBITS {
		return 0
	}
	words, err := s.Data()
	if err != nil {
		return 0
	}
	for ; len(words) >= 12; words = words[12:] {
		if binary.LittleEndian.Uint32(words) == addr {
			return binary.LittleEndian.Uint32(words[8:])
		}
	}
	return 0
}

func (im *Image) metalFits(arch chip.Arch, p chip.Processor) error {
	m := im.Metal
	switch {
	case m.NCRISC && p != chip.NCRISC:
		return fmt.Errorf("kernels: %v of %v: %w: linked for NCRISC", p, arch, ErrMachine)
	case m.IRAM && arch != chip.Wormhole:
		return fmt.Errorf("kernels: %v of %v: %w: linked for the instruction RAM of Wormhole's NCRISC", p, arch, ErrMachine)
	case p == chip.NCRISC && !m.NCRISC:
		return fmt.Errorf("kernels: %v of %v: %w: linked for another processor", p, arch, ErrMachine)
	}
	need := m.LocalStart - localRAM + im.DataSize + im.BSSSize
	if room := arch.Params().LocalRAMSize[p] - minMetalStack; need > room {
		return fmt.Errorf("kernels: %v of %v: %w: firmware and kernel need %d bytes, there are %d beside %d for the stack",
			p, arch, ErrLocalRAM, need, room, minMetalStack)
	}
	return nil
}
