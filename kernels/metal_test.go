package kernels

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/elftest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/riscv"
)

const (
	metalText  = 0x49F0
	metalLocal = localRAM + 0x830
)

const (
	symLabel = iota + 1 // text, at byte 24
	symVariable
	symDataImage // end of text
	symTextEnd
	symLocalEnd
	symFirst = symLocalEnd + 2 // the firmware's variables, after gp
)

func lui(rd, value uint32) uint32   { return (value+0x800)&^0xFFF | rd<<7 | opLUI }
func auipc(rd, value uint32) uint32 { return (value+0x800)&^0xFFF | rd<<7 | opAUIPC }
func addi(rd, rs, value uint32) uint32 {
	return value<<20 | rs<<15 | rd<<7 | opImm
}
func lw(rd, rs, value uint32) uint32 { return value<<20 | rs<<15 | 2<<12 | rd<<7 | opLoad }
func sw(value, rs, offset uint32) uint32 {
	return offset>>5&0x7F<<25 | value<<20 | rs<<15 | 2<<12 | offset&0x1F<<7 | opStore
}

const (
	nop   = 0x00000013
	ret   = 0x00008067
	label = metalText + 24
)

func words(ws ...uint32) []byte {
	var b []byte
	for _, w := range ws {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

const (
	hi20, lo12i, lo12s    = elf.R_RISCV_HI20, elf.R_RISCV_LO12_I, elf.R_RISCV_LO12_S
	pcrelHi20, pcrelLo12i = elf.R_RISCV_PCREL_HI20, elf.R_RISCV_PCREL_LO12_I
)

// rel is a relocation at an offset of the text, dataRel of the data.
func rel(off uint32, t elf.R_RISCV, symbol uint32, addend int32) elf.Rela32 {
	return elftest.Relocation(metalText+off, t, symbol, addend)
}

func dataRel(off uint32, t elf.R_RISCV, symbol uint32, addend int32) elf.Rela32 {
	return elftest.Relocation(metalLocal+off, t, symbol, addend)
}

func goodMetal(text []byte, rela ...elf.Rela32) elftest.File {
	end := uint32(metalText + len(text))
	weak := func(addr, size uint32) elf.Sym32 {
		return elf.Sym32{Value: addr, Size: size, Info: uint8(elf.STB_WEAK)<<4 | uint8(elf.STT_OBJECT), Shndx: elftest.ABS}
	}
	return elftest.File{
		Entry: metalText,
		Segments: []elftest.Segment{
			{Flags: elf.PF_R | elf.PF_X, Vaddr: metalText, Paddr: metalText, Bytes: text},
			{Flags: elf.PF_R | elf.PF_W, Vaddr: metalLocal, Paddr: end, Bytes: []byte("initial."), Memory: 12},
		},
		Symbols: []elf.Sym32{
			{Value: label, Shndx: elftest.Text},
			{Value: metalLocal, Shndx: elftest.Data},
			{Value: end, Shndx: elftest.Text},
			{Value: metalText, Shndx: elftest.ABS},
			{Value: metalLocal, Shndx: elftest.ABS},
			{Value: localRAM + 0x7F0, Shndx: elftest.ABS},
			weak(localRAM+0x464, 440),
			weak(localRAM+0x448, 28),
			weak(localRAM+0x48, 1024),
		},
		Names: []string{"label", "variable", "__kernel_data_lma", "__fw_export_text_end", "__fw_export_ldm_end", "__global_pointer$",
			"l1_bank_to_noc_xy", "dram_bank_to_noc_xy", "cb_interface"},
		Relocations: rela,
	}
}

func simple() ([]byte, []elf.Rela32) {
	return words(nop, lui(15, label), nop, addi(14, 15, label), ret, nop, nop, nop),
		[]elf.Rela32{
			rel(4, hi20, symLabel, 0), rel(4, elf.R_RISCV_RELAX, 0, 0),
			rel(12, lo12i, symLabel, 0), rel(12, elf.R_RISCV_RELAX, 0, 0),
		}
}

func simpleMetal() elftest.File {
	text, rela := simple()
	return goodMetal(text, rela...)
}

func mustLoadMetal(t *testing.T, f elftest.File) *Image {
	t.Helper()
	return expect.Value(LoadMetal(f.Build()))(t)
}

func TestLoadMetal(t *testing.T) {
	im := mustLoadMetal(t, simpleMetal())
	want := &Image{
		File:     simpleMetal().Build(),
		Text:     append(words(nop, auipc(15, 20), nop, addi(14, 15, 20), ret, nop, nop, nop), "initial.\x00\x00\x00\x00\x00\x00\x00\x00"...),
		DataSize: 8, BSSSize: 4,
		Metal: &MetalKernel{
			LinkedAt: metalText, FirmwareEnd: metalText, LocalStart: metalLocal, GlobalPointer: localRAM + 0x7F0,
			Variables: []MetalVariable{
				{"cb_interface", localRAM + 0x48, 1024}, {"dram_bank_to_noc_xy", localRAM + 0x448, 28}, {"l1_bank_to_noc_xy", localRAM + 0x464, 440},
			},
			DRAMBanks: 7, L1Banks: 110,
		},
	}
	expect.NoDiff(t, im, want, "image")
}

func TestLoadMetalInstructionRAM(t *testing.T) {
	text, _ := simple()
	f := goodMetal(text, elftest.Relocation(ncriscIRAM+4, hi20, symLabel, 0))
	f.Entry = ncriscIRAM
	f.Segments[0].Vaddr, f.Segments[0].Paddr = ncriscIRAM, ncriscIRAM
	f.Segments[1].Paddr = ncriscIRAM + uint32(len(text))
	im := mustLoadMetal(t, f)
	if !bytes.HasPrefix(im.Text, text) || !im.Metal.IRAM || !im.Metal.NCRISC || im.Metal.FirmwareEnd != metalText {
		t.Errorf("%x, %+v", im.Text, im.Metal)
	}
	if err := im.Fits(chip.Wormhole, chip.NCRISC); err != nil {
		t.Error(err)
	}
	for _, p := range []chip.Processor{chip.BRISC, chip.TRISC0} {
		expect.Fails(t, im.Fits(chip.Wormhole, p), ErrMachine, "%v", p)
	}
	if err := im.Fits(chip.Blackhole, chip.NCRISC); !errors.Is(err, ErrMachine) {
		t.Error(err)
	}
}

func TestLoadMetalPairs(t *testing.T) {
	hi := func(off uint32, addend int32) elf.Rela32 { return rel(off, hi20, symLabel, addend) }
	lo := func(off uint32, addend int32) elf.Rela32 { return rel(off, lo12i, symLabel, addend) }
	jump := func(distance uint32) uint32 { // of a few instructions forward
		return distance&0x7FE<<20 | opJAL
	}
	tests := []struct {
		name string
		text []byte
		rela []elf.Rela32
		want []byte
	}{
		{"two loads by one upper half",
			words(lui(15, label), lw(10, 15, label), lw(11, 15, label+4), ret), []elf.Rela32{hi(0, 0), lo(4, 0), lo(8, 4)},
			words(auipc(15, 24), lw(10, 15, 24), lw(11, 15, 28), ret)},
		{"a store",
			words(lui(15, label), nop, nop, sw(11, 15, label+8&0xFFF), ret),
			[]elf.Rela32{hi(0, 8), rel(12, lo12s, symLabel, 8)},
			words(auipc(15, 32), nop, nop, sw(11, 15, 32), ret)},
		{"pairs that cross",
			words(lui(15, label), lui(14, label+0x1000), addi(15, 15, label), addi(14, 14, label+0x1000), ret),
			[]elf.Rela32{hi(0, 0), hi(4, 0x1000), lo(8, 0), lo(12, 0x1000)},
			words(auipc(15, 24), auipc(14, 0x1014), addi(15, 15, 24), addi(14, 14, 0x1014), ret)},
		{"pairs inside one another in one register's order",
			words(lui(15, label), lui(14, label), addi(14, 14, label), addi(15, 15, label), ret),
			[]elf.Rela32{hi(0, 0), hi(4, 0), lo(8, 0), lo(12, 0)},
			words(auipc(15, 24), auipc(14, 20), addi(14, 14, 20), addi(15, 15, 24), ret)},
		{"upper half after its lower half in the text",
			// 0: j 16; 4: addi; 8: ret; 16: lui; 20: j 4
			words(jump(16), addi(15, 15, label), ret, nop, lui(15, label), 0xFF1FF06F, ret), []elf.Rela32{hi(16, 0), lo(4, 0)},
			words(jump(16), addi(15, 15, 8), ret, nop, auipc(15, 8), 0xFF1FF06F, ret)},
		{"another pair between the halves",
			words(lui(15, label), jump(12), lui(15, label), addi(15, 15, label), addi(14, 15, label), ret),
			[]elf.Rela32{hi(0, 0), hi(8, 0), lo(12, 0), lo(16, 0)},
			words(auipc(15, 24), jump(12), auipc(15, 16), addi(15, 15, 16), addi(14, 15, 24), ret)},
		{"beyond a jump table",
			words(lui(15, label), 14<<15|opJALR, nop, addi(15, 15, label), ret), []elf.Rela32{hi(0, 0), lo(12, 0)},
			words(auipc(15, 24), 14<<15|opJALR, nop, addi(15, 15, 24), ret)},
		{"saved across a call",
			words(lui(8, label), 0x008000EF, ret, addi(10, 8, label), ret), []elf.Rela32{hi(0, 0), lo(12, 0)},
			words(auipc(8, 24), 0x008000EF, ret, addi(10, 8, 24), ret)},
		{"an address of data from the program counter",
			words(nop, 0x0000_0797, addi(15, 15, 0), ret), []elf.Rela32{rel(4, pcrelHi20, symVariable, 4),
				rel(8, pcrelLo12i, symLabel, -20)},
			words(nop, lui(15, metalLocal+4), addi(15, 15, metalLocal+4&0xFFF), ret)},
		{"a distance within the text",
			words(0x0000_0797, addi(15, 15, 24), ret), []elf.Rela32{rel(0, pcrelHi20, symLabel, 0),
				rel(4, pcrelLo12i, symLabel, -24)},
			words(0x0000_0797, addi(15, 15, 24), ret)},
		{"an address of data",
			words(lui(15, metalLocal), addi(15, 15, metalLocal&0xFFF), ret), []elf.Rela32{rel(0, hi20, symVariable, 0),
				rel(4, lo12i, symVariable, 0)},
			words(lui(15, metalLocal), addi(15, 15, metalLocal&0xFFF), ret)},
		{"relative to gp, with a number of the linker's own",
			words(lw(15, 3, 0x40), ret), []elf.Rela32{rel(0, 68, symVariable, 0)},
			words(lw(15, 3, 0x40), ret)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := append(tt.text, bytes.Repeat(words(nop), 16-len(tt.text)/4)...)
			im := mustLoadMetal(t, goodMetal(text, tt.rela...))
			expect.NoDiff(t, im.Text[:len(tt.want)], tt.want, "text")
		})
	}
}

// The code is that of GNU as.
func TestLoadMetalStoredAddresses(t *testing.T) {
	f := goodMetal(words(nop, ret, nop, ret))
	f.DataRelocations = []elf.Rela32{
		dataRel(0, elf.R_RISCV_32, symLabel, -20),
		dataRel(4, elf.R_RISCV_32, symDataImage, 0),
	}
	im := mustLoadMetal(t, f)
	code := words(
		0x00000297,                           // auipc t0, 0
		0x03428313,                           // addi  t1, t0, 52
		0x000003b7,                           // lui   t2, 0
		0x04438393,                           // addi  t2, t2, 68
		0x005383b3,                           // add   t2, t2, t0
		0x00032e03,                           // lw    t3, 0(t1)
		0x00432e83,                           // lw    t4, 4(t1)
		0x005e0e33,                           // add   t3, t3, t0
		0x005e8eb3,                           // add   t4, t4, t0
		0x01de2023,                           // sw    t4, 0(t3)
		0x00830313,                           // addi  t1, t1, 8
		0xfe7314e3,                           // bne   t1, t2, -24
		0x0200006f,                           // j     32
		80+16+48, 80+4, 80+16+48+4, 80+16+48, // the initial data has moved away from the text
		0, 0, 0,
	)
	want := slices.Concat(code, words(nop, ret, nop, ret), make([]byte, 48), []byte("initial."))
	if !bytes.HasPrefix(im.Text, want) || im.Metal.StoredAddresses != 2 {
		t.Errorf("%d stored: %x, want %x", im.Metal.StoredAddresses, im.Text, want)
	}
}

func TestLoadMetalRefuses(t *testing.T) {
	code := func(text []byte, rela ...elf.Rela32) func(*elftest.File) {
		return func(f *elftest.File) {
			*f = goodMetal(append(text, bytes.Repeat(words(nop), 16-len(text)/4)...), rela...)
		}
	}
	adds := func(rs ...elf.Rela32) func(*elftest.File) {
		return func(f *elftest.File) { f.Relocations = append(f.Relocations, rs...) }
	}
	data := func(rs ...elf.Rela32) func(*elftest.File) {
		return func(f *elftest.File) { f.DataRelocations = rs }
	}
	tests := []refusal{
		{"our own kernel", func(f *elftest.File) { *f = good() }, ErrNotMetal, "use Load"},
		{"base firmware", func(f *elftest.File) { f.Names[0], f.Symbols[0].Shndx = "__stack_top", elftest.ABS }, ErrNotMetal, "base firmware"},
		{"no end of the firmware's data", func(f *elftest.File) { f.Names[symLocalEnd-1] = "other" }, ErrNotMetal, "__fw_export_ldm_end"},
		{"text elsewhere", func(f *elftest.File) { f.Symbols[symTextEnd-1].Value += 16 }, ErrAddress, "__fw_export_text_end"},
		{"data in the firmware's", func(f *elftest.File) { f.Symbols[symLocalEnd-1].Value += 16 }, ErrAddress, "firmware's data ends"},
		{"firmware's data nowhere", func(f *elftest.File) { f.Symbols[symLocalEnd-1].Value = 16 }, ErrAddress, "outside of local RAM"},
		{"half an instruction", func(f *elftest.File) {
			f.Segments[0].Bytes = append(f.Segments[0].Bytes, 1)
			f.Segments[1].Paddr += 1
		}, ErrAddress, "not in words"},
		{"too much for instruction RAM", func(f *elftest.File) {
			f.Segments[0].Bytes = make([]byte, 0x4004)
			f.Entry, f.Segments[0].Vaddr, f.Segments[0].Paddr, f.Segments[1].Paddr = ncriscIRAM, ncriscIRAM, ncriscIRAM, ncriscIRAM+0x4004
		}, ErrTooLarge, "instruction RAM"},
		{"text in registers", func(f *elftest.File) { f.Entry, f.Segments[0].Vaddr = 0xFFB20000, 0xFFB20000 }, ErrAddress, "neither in L1"},
		{"no relocations", func(f *elftest.File) { f.NoRelocations = true }, ErrNoRelocations, "stripped"},
		{"stored address beyond the text", data(dataRel(0, elf.R_RISCV_32, symLabel, 0x1000)), ErrRelocation, "beyond"},
		{"stored address between words", data(dataRel(2, elf.R_RISCV_32, symLabel, 0)), ErrRelocation, "not aligned"},
		{"stored address in zeroed data", data(dataRel(8, elf.R_RISCV_32, symLabel, 0)), ErrRelocation, "initial values"},
		{"stored address of two words", data(dataRel(0, elf.R_RISCV_64, symLabel, 0)), ErrRelocation, "options of tt-metal"},
		{"difference of text and data", adds(rel(0, elf.R_RISCV_ADD32, symLabel, 0),
			rel(0, elf.R_RISCV_SUB32, symVariable, 0)), ErrRelocation, "distance"},
		{"call of firmware", adds(rel(0, elf.R_RISCV_CALL_PLT, symTextEnd, 0)), ErrRelocation, "jump out"},
		{"relocation between instructions", adds(rel(2, hi20, symLabel, 0)), ErrRelocation, "between instructions"},
		{"relocation outside", adds(elftest.Relocation(0, hi20, symLabel, 0)), ErrRelocation, "outside"},
		{"symbol that isn't there", adds(rel(0, hi20, 99, 0)), ErrNotELF, "symbol 99"},
		{"thread-local", adds(rel(0, elf.R_RISCV_TPREL_HI20, symVariable, 0)), ErrRelocation, "options of tt-metal"},
		{"upper half in another instruction", code(words(nop, addi(15, 15, label), ret), rel(0, hi20, symLabel, 0)), ErrRelocation, "not an instruction"},
		{"upper half alone", code(words(lui(15, label), ret), rel(0, hi20, symLabel, 0)), ErrRelocation, "without a lower half"},
		{"upper half in arithmetic", code(words(lui(15, label), addi(14, 15, 0), addi(15, 15, label), ret),
			rel(0, hi20, symLabel, 0), rel(8, lo12i, symLabel, 0)), ErrRelocation,
			"used alone"},
		{"lower half alone", code(words(addi(15, 15, label), ret), rel(0, lo12i, symLabel, 0)), ErrRelocation, "without its upper half"},
		{"two upper halves for one lower half", code(words(0x00050663, lui(15, label), 0x0080006F, lui(15, label), addi(15, 15, label), ret),
			rel(4, hi20, symLabel, 0), rel(12, hi20, symLabel, 0),
			rel(16, lo12i, symLabel, 0)), ErrRelocation, "crossjumping"},
		{"more code than is followed", func(f *elftest.File) {
			text := make([]byte, 0, 1<<16)
			var rela []elf.Rela32
			for i := uint32(0); i < 1<<14-4; i++ { // each upper half is in a register that nothing sets again
				if i < 200 {
					text = append(text, words(lui(8, label))...)
					rela = append(rela, rel(4*i, hi20, symLabel, 0))
				} else {
					text = append(text, words(nop)...)
				}
				if i < 199 {
					text = append(text, words(0x00050463)...) // beqz a0, past the next one
					i++
				}
			}
			*f = goodMetal(text, rela...)
		}, ErrRelocation, "too much code"},
		{"addresses too far apart", code(words(lui(15, label), lw(14, 15, (label+0xD00)&0xFFF), lw(15, 15, (label-0x200)&0xFFF), ret),
			rel(0, hi20, symLabel, 0), rel(4, lo12i, symLabel, 0xD00),
			rel(8, lo12i, symLabel, -0x200)), ErrRelocation, "too far apart"},
	}
	testRefusals(t, tests, simpleMetal, LoadMetal)
}

func LinkMetal(ctx context.Context, dir string, arch chip.Arch, flags ...string) ([]byte, error) {
	compiler, err := riscv.Find("")
	if err != nil {
		return nil, err
	}
	var objects []string
	for _, name := range []string{"kernel.c", "firmware.S"} {
		u := riscv.Unit{
			Source: filepath.Join("testdata", "metal", name), Object: filepath.Join(dir, name+".o"), Arch: arch, Include: []string{"include"},
			Flags: append([]string{"-fjump-tables"}, flags...),
		}
		if text, err := compiler.Compile(ctx, u); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", name, err, text)
		}
		objects = append(objects, u.Object)
	}
	linked := filepath.Join(dir, "kernel.elf")
	if text, err := compiler.Link(ctx, "testdata/metal/kernel.ld", linked, objects, "-Wl,--emit-relocs"); err != nil {
		return nil, fmt.Errorf("link: %w\n%s", err, text)
	}
	return os.ReadFile(linked)
}

func FuzzLoadMetal(f *testing.F) {
	f.Add(simpleMetal().Build())
	stored := simpleMetal()
	stored.DataRelocations = []elf.Rela32{dataRel(0, elf.R_RISCV_32, symLabel, 0),
		dataRel(4, elf.R_RISCV_32, symDataImage, 0)}
	f.Add(stored.Build())
	f.Add(elftest.NewMetal(chip.NCRISC, 0x5000, 8, 64).Kernel().Build())
	f.Add(elftest.NewMetal(chip.NCRISC, 0x5000, 8, 64).Base().Build())
	for _, flags := range [][]string{{"-Os"}, {"-fno-jump-tables", "-mcmodel=medany"}} {
		file, err := LinkMetal(f.Context(), f.TempDir(), chip.Blackhole, flags...)
		if errors.Is(err, ErrNoCompiler) {
			break
		} else if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		_, _ = LoadMetalBase(file)
		im, err := LoadMetal(file)
		checkLoaded(t, im, err, localRAM)
		if err == nil && im.Metal == nil {
			t.Error("an image without its symbols")
		}
	})
}
