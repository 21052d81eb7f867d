package kernels

import (
	"bytes"
	"debug/elf"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/elftest"
)

func good() elftest.File {
	return elftest.File{
		Segments: []elftest.Segment{
			{Flags: elf.PF_R | elf.PF_X, Bytes: bytes.Repeat([]byte{0x13, 0, 0, 0}, 8)},
			{Flags: elf.PF_R | elf.PF_W, Vaddr: localData, Paddr: 32, Bytes: []byte("initial."), Memory: 12},
		},
		Symbols: []elf.Sym32{
			{Value: 8, Shndx: elftest.Text},
			{Value: localData, Shndx: elftest.Data},
			{Value: 32, Shndx: elftest.ABS},
			{Value: uint32(2), Shndx: elftest.ABS},
		},
		Names: []string{"label", "variable", "__data_image", "__reprise_arch"},
		Relocations: []elf.Rela32{
			elftest.Relocation(0, elf.R_RISCV_JAL, 1, 0),
			elftest.Relocation(4, elf.R_RISCV_HI20, 2, 0),
			elftest.Relocation(8, elf.R_RISCV_LO12_I, 2, 4),
			elftest.Relocation(12, elf.R_RISCV_PCREL_HI20, 3, 0),
			elftest.Relocation(16, elf.R_RISCV_PCREL_LO12_I, 1, 0),
			elftest.Relocation(20, elf.R_RISCV_BRANCH, 1, 0),
			elftest.Relocation(24, elf.R_RISCV_CALL_PLT, 1, 0),
		},
	}
}

func TestLoadLayout(t *testing.T) {
	f := good()
	want := append(bytes.Clone(f.Segments[0].Bytes), "initial.\x00\x00\x00\x00\x00\x00\x00\x00"...)
	for _, swap := range []bool{false, true} {
		if swap {
			f.Segments[0], f.Segments[1] = f.Segments[1], f.Segments[0]
		}
		file := f.Build()
		im, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		clear(file) // which the image doesn't refer to
		if diff := cmp.Diff(&Image{File: f.Build(), Text: want, Arch: chip.Blackhole, DataSize: 8, BSSSize: 4}, im); diff != "" {
			t.Errorf("swapped %v: (-want +got)\n%s", swap, diff)
		}
	}
}

// refusal is a file that breaks one rule.
type refusal struct {
	name   string
	breaks func(*elftest.File)
	want   error
	text   string
}

func testRefusals(t *testing.T, tests []refusal, good func() elftest.File, load func([]byte) (*Image, error)) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := good()
			tt.breaks(&f)
			im, err := load(f.Build())
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, %v; want %v", im, err, tt.want)
			}
			if !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v: does not say %q", err, tt.text)
			}
			if r := (*RelocationError)(nil); tt.want == ErrRelocation && !errors.As(err, &r) {
				t.Errorf("%v: not a RelocationError", err)
			}
		})
	}
	file := good().Build()
	for n := range file {
		if im, err := load(file[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes: %v", n, len(file), im)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	header := func(change func(*elf.Header32)) func(*elftest.File) {
		return func(f *elftest.File) { f.Header = change }
	}
	relocation := func(off uint32, t elf.R_RISCV, symbol uint32, addend int32) func(*elftest.File) {
		return func(f *elftest.File) {
			f.Relocations = append(f.Relocations, elftest.Relocation(off, t, symbol, addend))
		}
	}
	big := make([]byte, maxImage-16)
	tests := []refusal{
		{"64-bit class", header(func(h *elf.Header32) { h.Ident[elf.EI_CLASS] = byte(elf.ELFCLASS64) }), ErrNotELF, ""},
		{"big-endian", header(func(h *elf.Header32) { h.Ident[elf.EI_DATA] = byte(elf.ELFDATA2MSB) }), ErrNotELF, ""},
		{"ARM", header(func(h *elf.Header32) { h.Machine = uint16(elf.EM_ARM) }), ErrMachine, "EM_ARM"},
		{"object file", header(func(h *elf.Header32) { h.Type = uint16(elf.ET_REL) }), ErrMachine, "ET_REL"},
		{"shared library", header(func(h *elf.Header32) { h.Type = uint16(elf.ET_DYN) }), ErrMachine, "ET_DYN"},
		{"compressed instructions", header(func(h *elf.Header32) { h.Flags = 1 }), ErrFlags, "0x1"},
		{"hardware floats", header(func(h *elf.Header32) { h.Flags = 2 }), ErrFlags, "0x2"},
		{"reduced registers", header(func(h *elf.Header32) { h.Flags = 8 }), ErrFlags, "0x8"},
		{"entry inside the text", func(f *elftest.File) { f.Entry = 4 }, ErrEntry, "entry 0x4"},
		{"no text", func(f *elftest.File) { f.Segments = f.Segments[1:]; f.Segments[0].Bytes = nil }, ErrEntry, "no executable"},
		{"data in front of the text", func(f *elftest.File) { f.Segments[0].Paddr = 64 }, ErrEntry, "in front"},
		{"text in instruction RAM", func(f *elftest.File) { f.Segments[0].Vaddr, f.Entry = ncriscIRAM, ncriscIRAM }, ErrAddress, "instruction RAM"},
		{"two texts", func(f *elftest.File) { f.Segments[1].Flags |= elf.PF_X }, ErrAddress, "more than one"},
		{"text with zeroed end", func(f *elftest.File) { f.Segments[0].Memory = 64 }, ErrAddress, "not in the file"},
		{"data in L1", func(f *elftest.File) { f.Segments[1].Vaddr = 0x8000 }, ErrAddress, "0x8000"},
		{"data in the firmware's block", func(f *elftest.File) { f.Segments[1].Vaddr = localRAM + 0x100 }, ErrAddress, "0xffb00100"},
		{"image overlap", func(f *elftest.File) { f.Segments[1].Paddr = 16 }, ErrAddress, "overlaps"},
		{"data overlap", func(f *elftest.File) {
			f.Segments = append(f.Segments, elftest.Segment{Flags: elf.PF_R, Vaddr: localData + 4, Paddr: 64, Bytes: []byte("more")})
		}, ErrAddress, "overlaps"},
		{"data beyond local RAM", func(f *elftest.File) { f.Segments[1].Memory = 0x2000 - 0x480 + 4 }, ErrLocalRAM, ""},
		{"image too large", func(f *elftest.File) { f.Segments[0].Bytes = big; f.Segments[1].Paddr = maxImage - 4 }, ErrTooLarge, ""},
		{"far initial data", func(f *elftest.File) { f.Segments[1].Paddr = 0xFFFFFFF0 }, ErrTooLarge, ""},
		{"no relocations", func(f *elftest.File) { f.NoRelocations = true }, ErrNoRelocations, "emit-relocs"},
		{"relocations for data only", func(f *elftest.File) {
			f.NoRelocations, f.DataRelocations = true, []elf.Rela32{elftest.Relocation(localData, elf.R_RISCV_NONE, 0, 0)}
		}, ErrNoRelocations, "emit-relocs"},
		{"absolute address of text", relocation(4, elf.R_RISCV_HI20, 1, 0), ErrRelocation, `"label"`},
		{"low half of an address of text", relocation(4, elf.R_RISCV_LO12_S, 1, 0), ErrRelocation, `"label"`},
		{"function pointer in data", func(f *elftest.File) {
			f.DataRelocations = []elf.Rela32{elftest.Relocation(localData, elf.R_RISCV_32, 1, 0)}
		}, ErrRelocation, "function pointers"},
		{"distance from text to data", relocation(4, elf.R_RISCV_PCREL_HI20, 2, 0), ErrRelocation, "medlow"},
		{"distance from text to a number", func(f *elftest.File) {
			f.Symbols[2].Value = 0xFFB20000
		}, ErrRelocation, "fixed address"},
		{"global offset table", relocation(4, elf.R_RISCV_GOT_HI20, 2, 0), ErrRelocation, "fpic"},
		{"thread-local", relocation(4, elf.R_RISCV_TPREL_HI20, 2, 0), ErrRelocation, "thread-local"},
		{"compressed branch", relocation(4, elf.R_RISCV_RVC_BRANCH, 1, 0), ErrRelocation, "compressed"},
		{"undefined weak symbol", func(f *elftest.File) { f.Symbols[1] = elf.Sym32{} }, ErrRelocation, "nothing defines"},
		{"symbol that isn't there", relocation(4, elf.R_RISCV_HI20, 99, 0), ErrNotELF, "symbol 99"},
	}
	testRefusals(t, tests, good, Load)
	t.Run("not ELF", func(t *testing.T) {
		for _, b := range [][]byte{nil, []byte("\x7fELF"), []byte("#!/bin/sh")} {
			if _, err := Load(b); !errors.Is(err, ErrNotELF) {
				t.Errorf("%q: %v", b, err)
			}
		}
	})
	t.Run("huge file", func(t *testing.T) {
		if _, err := Load(make([]byte, maxFile+1)); !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
	})
}

func TestFits(t *testing.T) {
	room := func(size uint32) uint32 { return size - 0x480 - MinStack }
	tests := []struct {
		name string
		im   Image
		arch chip.Arch
		p    chip.Processor
		want error
	}{
		{"all of a Wormhole TRISC", Image{DataSize: 16, BSSSize: room(0x800) - 16}, chip.Wormhole, chip.TRISC1, nil},
		{"more than a Wormhole TRISC", Image{DataSize: 16, BSSSize: room(0x800) - 15}, chip.Wormhole, chip.TRISC1, ErrLocalRAM},
		{"the same on BRISC", Image{DataSize: 16, BSSSize: room(0x800) - 15}, chip.Wormhole, chip.BRISC, nil},
		{"all of a Blackhole NCRISC", Image{BSSSize: room(0x2000)}, chip.Blackhole, chip.NCRISC, nil},
		{"more than a Blackhole NCRISC", Image{BSSSize: room(0x2000) + 1}, chip.Blackhole, chip.NCRISC, ErrLocalRAM},
		{"for the other architecture", Image{Arch: chip.Wormhole}, chip.Blackhole, chip.BRISC, ErrMachine},
		{"architecture unknown", Image{}, chip.Blackhole, chip.BRISC, nil},
		{"no such processor", Image{}, chip.Blackhole, 5, ErrMachine},
		{"no such architecture", Image{}, 0, chip.BRISC, ErrMachine},
	}
	for _, tt := range tests {
		if err := tt.im.Fits(tt.arch, tt.p); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(good().Build())
	for _, arch := range arches {
		for _, name := range []string{Blank, Copy} {
			file, err := prebuilt.ELF(arch, name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(file)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		im, err := Load(file)
		checkLoaded(t, im, err, localData)
	})
}

func checkLoaded(t *testing.T, im *Image, err error, local uint32) {
	if err != nil {
		for _, s := range []error{ErrNotELF, ErrMachine, ErrFlags, ErrEntry, ErrAddress, ErrNoRelocations, ErrRelocation, ErrConstructor,
			ErrTooLarge, ErrLocalRAM, ErrNotMetal} {
			if errors.Is(err, s) {
				return
			}
		}
		t.Fatalf("no sentinel: %v", err)
	}
	if len(im.Text) == 0 || len(im.Text)%16 != 0 || len(im.Text) > maxImage+15 || im.DataSize+im.BSSSize > localRAMEnd-local {
		t.Errorf("image of %d bytes, %d+%d bytes of local RAM", len(im.Text), im.DataSize, im.BSSSize)
	}
}
