package kernels

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/reprise-tt/reprise/chip"
)

// maxFile is in bytes.
const maxFile = 16 << 20

// maxImage is the kernel configuration area of L1 on both architectures:
// abi.L1Map.KernelConfigSize.
const maxImage = 0x11400

// Upstream links kernels for Wormhole's NCRISC into its instruction RAM. Here it runs kernels from
// L1 like the other processors.
const (
	ncriscIRAM    = 0xFFC00000
	ncriscIRAMEnd = ncriscIRAM + 0x4000
)

// Load reads a linked kernel and lays out its bytes in L1. It refuses files that can't run from an
// arbitrary place in L1 on any processor; each error wraps one of the package's sentinels and says
// what to change. The result does not refer to file's memory. Load never panics.
func Load(file []byte) (*Image, error) {
	im, err := load(file)
	if err == nil {
		im.File = bytes.Clone(file)
	}
	return im, err
}

func load(file []byte) (*Image, error) {
	f, err := open(file)
	if err != nil {
		return nil, err
	}
	if err := checkConstructors(f); err != nil {
		return nil, err
	}
	im, text, err := layout(f, span{localData, localRAMEnd})
	if err != nil {
		return nil, err
	}
	if text.start < ncriscIRAMEnd && text.end > ncriscIRAM {
		return nil, refuse(ErrAddress, "text at %#x is in NCRISC's instruction RAM", text.start)
	}
	if err := checkRelocations(f, text, uint32(len(im.Text))); err != nil {
		return nil, err
	}
	im.Arch, im.File = archOf(f), file
	if im.Formats, err = formatsOf(f); err != nil {
		return nil, err
	}
	im.Formats = append(im.Formats, placesOf(f, file, len(im.Formats))...)
	return im, nil
}

func open(file []byte) (*elf.File, error) {
	if len(file) > maxFile {
		return nil, refuse(ErrTooLarge, "the file has %d bytes, and at most %d are read", len(file), maxFile)
	}
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, refuse(ErrNotELF, "%v", err)
	}
	if f.Class != elf.ELFCLASS32 || f.Data != elf.ELFDATA2LSB || f.Machine != elf.EM_RISCV || f.Type != elf.ET_EXEC {
		return nil, refuse(ErrMachine, "it is %v %v %v %v", f.Class, f.Data, f.Machine, f.Type)
	}
	if flags := binary.LittleEndian.Uint32(file[36:]); flags != 0 {
		return nil, refuse(ErrFlags, "ELF flags %#x, want 0", flags)
	}
	for _, s := range f.Sections {
		// A few bytes could expand to gigabytes, and linkers compress debug information only.
		if s.Flags&elf.SHF_COMPRESSED != 0 && (s.Type == elf.SHT_RELA || s.Type == elf.SHT_SYMTAB || s.Type == elf.SHT_STRTAB) {
			return nil, refuse(ErrNotELF, "section %s is compressed", s.Name)
		}
	}
	return f, nil
}

type span struct{ start, end uint64 }

func (s span) contains(addr uint64) bool { return s.start <= addr && addr < s.end }

// layout puts the loaded segments, by physical address, into one image. Data must be within room.
func layout(f *elf.File, room span) (*Image, span, error) {
	fail := func(err error, format string, args ...any) (*Image, span, error) {
		return nil, span{}, refuse(err, format, args...)
	}
	var loads []*elf.Prog
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Memsz != 0 {
			loads = append(loads, p)
		}
	}
	slices.SortStableFunc(loads, func(a, b *elf.Prog) int { return cmp.Compare(a.Paddr, b.Paddr) })
	im := &Image{}
	var text span
	var base, end uint64 // physical span so far
	var local []span
	for _, p := range loads {
		mem := span{p.Vaddr, p.Vaddr + p.Memsz}
		switch {
		case p.Filesz > p.Memsz:
			return fail(ErrNotELF, "segment at %#x has more bytes in the file than in memory", p.Vaddr)
		case p.Flags&elf.PF_X != 0:
			if text.end != 0 {
				return fail(ErrAddress, "more than one executable segment, the second at %#x", p.Vaddr)
			}
			if p.Filesz != p.Memsz {
				return fail(ErrAddress, "%d bytes of the executable segment are not in the file", p.Memsz-p.Filesz)
			}
			if im.Text != nil || f.Entry != p.Vaddr {
				return fail(ErrEntry, "entry %#x, text at %#x", f.Entry, p.Vaddr)
			}
			text, base, end = mem, p.Paddr, p.Paddr
		case mem.start < room.start || mem.start >= 1<<32 || mem.end > 1<<32:
			return fail(ErrAddress, "data at %#x..%#x, want it from %#x", mem.start, mem.end, room.start)
		case mem.start < ncriscIRAMEnd && mem.end > ncriscIRAM:
			return fail(ErrAddress, "data at %#x is in NCRISC's instruction RAM", mem.start)
		case mem.end > room.end:
			return fail(ErrLocalRAM, "data ends at %#x, local RAM at most at %#x", mem.end, room.end)
		case p.Filesz != 0 && text.end == 0:
			return fail(ErrEntry, "data at %#x is in front of the text", p.Vaddr)
		default:
			for _, s := range local {
				if mem.start < s.end && s.start < mem.end {
					return fail(ErrAddress, "data at %#x overlaps other data", p.Vaddr)
				}
			}
			local = append(local, mem)
			im.DataSize += uint32(p.Filesz)
			im.BSSSize += uint32(p.Memsz - p.Filesz)
		}
		if p.Filesz == 0 {
			continue
		}
		if p.Paddr < end {
			return fail(ErrAddress, "segment at %#x overlaps the one before it", p.Vaddr)
		}
		if size := p.Paddr + p.Filesz - base; p.Paddr+p.Filesz < p.Paddr || size > maxImage {
			return fail(ErrTooLarge, "text and initial data have %d bytes, the area %d", size, maxImage)
		}
		at := p.Paddr - base
		im.Text = append(im.Text, make([]byte, at+p.Filesz-uint64(len(im.Text)))...)
		if _, err := io.ReadFull(p.Open(), im.Text[at:]); err != nil {
			return fail(ErrNotELF, "segment at %#x is not whole: %v", p.Vaddr, err)
		}
		end = p.Paddr + p.Filesz
	}
	if text.end == 0 {
		return fail(ErrEntry, "no executable segment")
	}
	if pad := -len(im.Text) & 15; pad != 0 {
		im.Text = append(im.Text, make([]byte, pad)...)
	}
	return im, text, nil
}

const maxFormats = 1 << 20

func formatsOf(f *elf.File) ([]byte, error) {
	s := f.Section(".reprise_print")
	if s == nil || s.Size == 0 {
		return nil, nil
	}
	if s.Type != elf.SHT_PROGBITS || s.Flags&(elf.SHF_ALLOC|elf.SHF_COMPRESSED) != 0 || s.Addr != 0 || s.Size > maxFormats {
		return nil, refuse(ErrNotELF, "section %s is %v with flags %v at %#x, %d bytes: want one that isn't loaded, at 0, of at most %d", s.Name,
			s.Type, s.Flags, s.Addr, s.Size, maxFormats)
	}
	b, err := s.Data()
	if err != nil {
		return nil, refuse(ErrNotELF, "section %s: %v", s.Name, err)
	}
	return b, nil
}

func archOf(f *elf.File) chip.Arch {
	symbols, err := f.Symbols()
	if err != nil {
		return 0
	}
	for _, s := range symbols {
		if s.Name == "__reprise_arch" && s.Section == elf.SHN_ABS {
			if a := chip.Arch(s.Value); uint64(a) == s.Value && a.Valid() {
				return a
			}
		}
	}
	return 0
}

// A kernel's data: local RAM after the block shared with the firmware (struct rp_local in
// include/reprise/abi.h), up to the end of the largest local RAM.
const (
	localRAM    = 0xFFB00000
	localData   = localRAM + 0x480
	localRAMEnd = localRAM + 0x2000
)

// MinStack is the bytes that [Image.Fits] leaves for the stacks of firmware and kernel in local
// RAM. A kernel may need more.
const MinStack = 256

// An Image is a kernel ready to be written to L1.
type Image struct {
	// Text goes to L1, at any multiple of 16, which its length is too: text, then initial data that
	// start-up code copies to local RAM. The first byte is the entry point.
	Text []byte
	// Arch is what lib/start.c was compiled for, 0 for a kernel linked without it.
	Arch chip.Arch
	// DataSize and BSSSize are the bytes of local RAM initialized from Text and cleared.
	DataSize, BSSSize uint32
	// Formats are those of the kernel's prints, for package kernels/print; nil if it doesn't print.
	Formats []byte
	// File is Text's ELF file, for call stacks; nil if Text moves code of the file.
	File []byte
	// Metal describes a kernel that tt-metal built; nil for kernels of [Load].
	Metal *MetalKernel
}

// Fits returns an error unless the kernel was compiled for the architecture and its data leaves
// [MinStack] bytes of a processor's local RAM, or as much as tt-metal's linker script says for
// kernels of [LoadMetal]. The error wraps [ErrMachine] or [ErrLocalRAM].
func (im *Image) Fits(arch chip.Arch, p chip.Processor) error {
	switch {
	case !arch.Valid():
		return misfit("%v doesn't exist", arch)
	case p >= chip.NumProcessors:
		return misfit("processor %d doesn't exist: use BRISC, NCRISC or TRISC0 to TRISC2", p)
	case im.Arch != 0 && im.Arch != arch:
		return misfit("compiled for %v, the device is a %v: load the image for that", im.Arch, arch)
	}
	if im.Metal != nil {
		return im.metalFits(arch, p)
	}
	room := arch.Params().LocalRAMSize[p] - (localData - localRAM) - MinStack
	if need := im.DataSize + im.BSSSize; need > room {
		return fmt.Errorf("kernels: %v of %v: %w: needs %d bytes, has %d beside %d for the stack", p, arch, ErrLocalRAM, need, room, MinStack)
	}
	return nil
}

type machineError string

func misfit(format string, a ...any) error {
	return machineError("kernels: " + fmt.Sprintf(format, a...))
}

func (e machineError) Error() string { return string(e) }

func (machineError) Unwrap() error { return ErrMachine }
