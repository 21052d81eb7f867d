package firmware

import (
	"encoding/binary"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/internal/expect"
)

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

func TestBaseFits(t *testing.T) {
	for _, arch := range arches {
		images, err := Base(arch)
		must(t, err)
		for p, image := range images {
			if room := abi.Own(arch).L1.FirmwareSize[p]; len(image) == 0 || uint32(len(image)) > room {
				t.Errorf("%v %v: %d bytes for a place of %d", arch, chip.Processor(p), len(image), room)
			}
			if len(image)%16 != 0 {
				t.Errorf("%v %v: %d bytes: not a multiple of 16, which NoC writes want", arch, chip.Processor(p), len(image))
			}
		}
	}
}

// Wormhole's cores have no CSRs and its fence must not be executed (tt-isa-documentation
// WormholeB0/TensixTile/BabyRISCV/README.md); no core has compressed instructions, whose encodings
// push Tensix instructions instead.
func TestBaseInstructions(t *testing.T) {
	const opcodeMask, fence, system = 0x7F, 0x0F, 0x73
	for _, arch := range arches {
		images, err := Base(arch)
		must(t, err)
		var fences int
		for p, image := range images {
			for i := 0; i < len(image); i += 4 {
				word := binary.LittleEndian.Uint32(image[i:])
				switch {
				case word == 0: // padding
				case word&3 != 3:
					t.Errorf("%v %v+%#x: %#08x is not a 32-bit instruction", arch, chip.Processor(p), i, word)
				case word&opcodeMask == fence:
					fences++
				case word&opcodeMask == system && arch == chip.Wormhole:
					t.Errorf("%v %v+%#x: %#08x: CSR instruction", arch, chip.Processor(p), i, word)
				}
			}
		}
		if arch == chip.Wormhole && fences != 0 {
			t.Errorf("%v: %d fence instructions", arch, fences)
		}
		if arch == chip.Blackhole && fences == 0 {
			t.Errorf("%v: polling loops need fence to drop the L0 data cache, and there is none", arch)
		}
	}
}

func TestNotFound(t *testing.T) {
	expect.Fails(t, expect.ErrOf(Base(0)), ErrNotFound, "Base(0)")
	expect.Fails(t, expect.ErrOf(CQ(chip.Wormhole, "../brisc")), ErrNotFound, "CQ of an unknown name")
	expect.Fails(t, expect.ErrOf(CQ(0, Prefetch)), ErrNotFound, "CQ of no architecture")
}

func TestOwnMemory(t *testing.T) {
	a, err := Base(chip.Blackhole)
	must(t, err)
	a[chip.BRISC][0] ^= 0xFF
	b, err := Base(chip.Blackhole)
	must(t, err)
	if a[chip.BRISC][0] == b[chip.BRISC][0] {
		t.Error("two calls share memory")
	}
}

func TestLines(t *testing.T) {
	total := 0
	for _, arch := range arches {
		images, err := Base(arch)
		must(t, err)
		for p, image := range images {
			lines, err := Lines(arch, chip.Processor(p))
			must(t, err)
			total += len(lines)
			m, err := stack.LoadTable("firmware", lines, image, 0x3800)
			must(t, err)
			for pc := m.Start; pc < m.End && binary.LittleEndian.Uint32(image[pc-m.Start:]) != 0; pc += 4 {
				f := stack.Space{m}.Unwind(stack.Registers{PC: pc}, nil)[0]
				if start := pc == m.Start; f.File == "" || f.Line == 0 || f.Function == "" || start && f.Function != "_start" {
					t.Errorf("%v %v at %#x: %v", arch, chip.Processor(p), pc, f)
				}
			}
		}
	}
	if total > 12<<10 {
		t.Errorf("the tables have %d bytes, want at most 12 KiB: they are in every binary", total)
	}
}

func TestCQLines(t *testing.T) {
	total := 0
	for _, arch := range arches {
		for _, name := range []string{Prefetch, Dispatch, DispatchS} {
			image, err := CQ(arch, name)
			must(t, err)
			lines, err := CQLines(arch, name)
			must(t, err)
			total += len(lines)
			m, err := stack.LoadTable(name, lines, image, 0x10000)
			must(t, err)
			main := false
			for pc := m.Start; pc < m.End; pc += 4 {
				frames := stack.Space{m}.Unwind(stack.Registers{PC: pc}, nil)
				outer := frames[len(frames)-1]
				main = main || outer.Function == "kernel_main" && outer.File == name+".c"
				data := binary.LittleEndian.Uint32(image[pc-m.Start:]) == 0
				if f := frames[0]; f.Function != "_start" && !data && (f.File == "" || f.Line == 0) {
					t.Errorf("%v %s at %#x: %v", arch, name, pc, f)
				}
			}
			if !main {
				t.Errorf("%v %s: nothing is in kernel_main", arch, name)
			}
		}
	}
	if total > 72<<10 {
		t.Errorf("the tables have %d bytes, want at most 72 KiB: they are in every binary", total)
	}
}

var must = expect.Must
