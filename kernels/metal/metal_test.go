package metal

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/elftest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
)

type files = [chip.NumProcessors]elftest.Metal

func firmware(t *testing.T, revision string, arch chip.Arch) (ms files) {
	t.Helper()
	l := abi.Of(revision, arch)
	if l == nil {
		t.Fatalf("no revision %s", revision)
	}
	for p := range chip.Processor(chip.NumProcessors) {
		ms[p] = elftest.NewMetal(p, l.L1.Firmware[p], 8, 64)
		ms[p].IRAM = arch == chip.Wormhole && p == chip.NCRISC
	}
	return ms
}

var (
	fails = expect.Fails
	must  = expect.Must
)

func write(t *testing.T, dir string, ms files) {
	t.Helper()
	for _, m := range ms {
		must(t, m.WriteFile(dir, m.Base()))
	}
}

func put(t *testing.T, text string, path ...string) {
	t.Helper()
	at := filepath.Join(path...)
	must(t, errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)))
}

func open(t *testing.T, roots ...string) *Cache {
	t.Helper()
	return value(OpenCache(t.Context(), roots...))(t)
}

func load(t *testing.T, f elftest.File) *kernels.Image {
	t.Helper()
	return value(kernels.LoadMetal(f.Build()))(t)
}

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

func TestOpenFirmware(t *testing.T) {
	for _, arch := range arches {
		for _, l := range abi.Known(arch) {
			r := l.Revision
			ms := firmware(t, r.Name, arch)
			dir := t.TempDir()
			write(t, dir, ms)
			flat := t.TempDir()
			for p := range chip.Processor(chip.NumProcessors) {
				must(t, os.WriteFile(filepath.Join(flat, FileName(p)), ms[p].Base().Build(), 0o644))
			}
			for _, at := range []string{dir, flat} {
				f, err := OpenFirmware(at)
				must(t, err)
				if f.Layout.Arch != arch || !slices.Contains(append(f.Others, f.Layout), l) || f.DRAMBanks != 8 || f.L1Banks != 64 {
					t.Errorf("%v %v: %v %v, %d and %d banks", r, arch, f.Layout.Revision, f.Layout.Arch, f.DRAMBanks, f.L1Banks)
				}
				for p, m := range ms {
					if got, err := f.Processor(load(t, m.Kernel())); err != nil || got != chip.Processor(p) {
						t.Errorf("%v %v: kernel of %v: %v, %v", r, arch, chip.Processor(p), got, err)
					}
				}
			}
		}
	}
}

func TestOpenFirmwareRefuses(t *testing.T) {
	revision := "0.65.1"
	tests := []struct {
		name   string
		breaks func(dir string, ms files) error
		want   error
		says   string
	}{
		{"no folder", func(dir string, _ files) error { return os.RemoveAll(dir) }, fs.ErrNotExist, "brisc.elf"},
		{"a file missing", func(dir string, _ files) error { return os.RemoveAll(filepath.Join(dir, "trisc1")) }, fs.ErrNotExist, "trisc1.elf"},
		{"a kernel among them", func(dir string, ms files) error {
			return ms[chip.TRISC2].WriteFile(dir, ms[chip.TRISC2].Kernel())
		}, kernels.ErrNotBase, "trisc2.elf"},
		{"not ELF", func(dir string, _ files) error {
			return os.WriteFile(filepath.Join(dir, "ncrisc", "ncrisc.elf"), []byte("junk"), 0o644)
		}, kernels.ErrNotELF, "ncrisc.elf"},
		{"a folder in the place of a file", func(dir string, _ files) error {
			at := filepath.Join(dir, "brisc", "brisc.elf")
			return errors.Join(os.Remove(at), os.Mkdir(at, 0o755))
		}, ErrNotFile, "brisc.elf"},
		{"banks of another build", func(dir string, ms files) error {
			m := elftest.NewMetal(chip.NCRISC, ms[chip.NCRISC].Entry, 7, 64)
			return m.WriteFile(dir, m.Base())
		}, ErrMixed, "7 and 64"},
		{"unknown revision", func(dir string, ms files) error {
			m := elftest.NewMetal(chip.TRISC0, ms[chip.TRISC0].Entry+0x10, 0, 0)
			return m.WriteFile(dir, m.Base())
		}, nil, "revision"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			ms := firmware(t, revision, chip.Blackhole)
			write(t, dir, ms)
			must(t, tt.breaks(dir, ms))
			_, err := OpenFirmware(dir)
			var typed *FirmwareError
			if !errors.As(err, &typed) || typed.Dir != dir {
				t.Fatalf("got %v", err)
			}
			var unknown *abi.UnknownFirmwareError
			if tt.want == nil && !errors.As(err, &unknown) || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v: does not say %q", err, tt.says)
			}
		})
	}
	t.Run("the folder above", func(t *testing.T) {
		root := t.TempDir()
		dir := filepath.Join(root, "1234", "firmware", "5678")
		write(t, dir, firmware(t, revision, chip.Blackhole))
		for _, at := range []string{root, filepath.Join(root, "1234"), filepath.Dir(dir)} {
			if _, err := OpenFirmware(at); err == nil || !strings.Contains(err.Error(), "base firmware is in "+dir) {
				t.Errorf("%s: %v", at, err)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	revision := "0.65.1"
	dir := t.TempDir()
	ms := firmware(t, revision, chip.Blackhole)
	write(t, dir, ms)
	f, err := OpenFirmware(dir)
	must(t, err)
	tests := []struct {
		name   string
		change func(*elftest.Metal)
		symbol string
	}{
		{"text elsewhere", func(m *elftest.Metal) { m.TextEnd += 16 }, "__fw_export_text_end"},
		{"less data", func(m *elftest.Metal) { m.LocalEnd -= 16 }, "__fw_export_ldm_end"},
		{"variable elsewhere", func(m *elftest.Metal) { m.Variables[0].Addr -= 4 }, "cb_interface"},
		{"more banks", func(m *elftest.Metal) { m.Variables[1].Size += 4 }, "dram_bank_to_noc_xy"},
		{"another variable", func(m *elftest.Metal) { m.Variables[2].Name = "sem_l1_base" }, "sem_l1_base"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := elftest.NewMetal(chip.BRISC, ms[chip.BRISC].Entry, 8, 64)
			tt.change(&m)
			err := f.Check(load(t, m.Kernel()))
			var e *MismatchError
			if !errors.As(err, &e) || e.Symbol != tt.symbol || e.Dir != dir {
				t.Fatalf("got %v", err)
			}
			if tt.symbol != textEnd && e.Processor != chip.BRISC || !strings.Contains(err.Error(), tt.symbol) {
				t.Errorf("%v", err)
			}
		})
	}
	for _, im := range []*kernels.Image{nil, {Text: make([]byte, 16)}} {
		if err := f.Check(im); !errors.Is(err, ErrNotMetal) {
			t.Error(err)
		}
	}
}

func TestCache(t *testing.T) {
	root := t.TempDir()
	const old, young = "0.65.1", "0.72.0"
	builds := []struct {
		arch     chip.Arch
		revision string
		build    string // below root
		firmware string // below build
	}{
		{chip.Blackhole, old, "a4347c0dda/111", "firmware/999"},
		{chip.Blackhole, old, "a4347c0dda/112", "firmware/999"}, // the same symbols
		{chip.Wormhole, young, "222", "firmware"},
	}
	for _, b := range builds {
		ms := firmware(t, b.revision, b.arch)
		at := filepath.Join(root, b.build)
		write(t, filepath.Join(at, b.firmware), ms)
		must(t, ms[chip.BRISC].WriteFile(filepath.Join(at, "kernels", "reader", "1"), ms[chip.BRISC].Kernel()))
		for _, p := range []chip.Processor{chip.TRISC0, chip.TRISC1, chip.TRISC2} {
			must(t, ms[p].WriteFile(filepath.Join(at, "kernels", "compute", "2"), ms[p].Kernel()))
		}
		must(t, ms[chip.NCRISC].WriteFile(filepath.Join(at, "kernels", "deep", "writer", "3"), ms[chip.NCRISC].Kernel()))
	}
	put(t, "\x7fELF", root, "222/kernels/broken/4/brisc/brisc.elf")
	put(t, "x", root, "222/kernels/broken/4/brisc/brisc.elf.xip.elf")
	put(t, "x", root, "brisc.elf")
	put(t, "", root, "222/firmware/idle_erisc/idle_erisc.elf") // of Ethernet cores, which are not read
	put(t, "", root, "a4347c0dda/111/kernels/deep/router/5/erisc/erisc.elf")
	must(t, os.Symlink(root, filepath.Join(root, "222", "kernels", "loop")))
	must(t, os.Symlink(root, filepath.Join(root, "222", "kernels", "firmware")))
	must(t, elftest.NewMetal(chip.BRISC, 0x3840, 8, 64).WriteFile(filepath.Join(root, "partial", "firmware"),
		elftest.NewMetal(chip.BRISC, 0x3840, 8, 64).Base()))

	for _, link := range []bool{false, true} {
		at := root
		if link {
			at = filepath.Join(t.TempDir(), "link")
			must(t, os.Symlink(root, at))
		}
		c := open(t, at)
		if len(c.Kernels) != 16 || len(c.Firmware) != 3 || len(c.Problems) != 3 {
			t.Fatalf("%d kernels, %d firmware, problems %v", len(c.Kernels), len(c.Firmware), c.Problems)
		}
		want := []EthernetFile{
			{Path: filepath.Join(at, "222/firmware/idle_erisc/idle_erisc.elf"), Processor: "idle_erisc", Firmware: true, Build: "222"},
			{Path: filepath.Join(at, "a4347c0dda/111/kernels/deep/router/5/erisc/erisc.elf"), Processor: "erisc",
				Name: "deep/router", Hash: "5", Build: "111", Commit: "a4347c0dda"},
		}
		if !slices.Equal(c.Ethernet, want) {
			t.Errorf("%+v", c.Ethernet)
		}
		if _, _, err := OpenKernel(t.Context(), want[1].Path); !errors.Is(err, ErrEthernet) {
			t.Error(err)
		}
		for i := range c.Kernels {
			k := &c.Kernels[i]
			im, err := k.Load()
			if k.Name == "broken" {
				if !errors.Is(err, kernels.ErrNotELF) {
					t.Error(err)
				}
				continue
			}
			must(t, err)
			f, p, err := c.FirmwareOf(k, im)
			must(t, err)
			if p != k.Processor || !strings.Contains(f.Dir, string(filepath.Separator)+k.Build+string(filepath.Separator)) {
				t.Errorf("%+v: %v of %s", k, p, f.Dir)
			}
			if (k.Commit == "a4347c0dda") != (k.Build != "222") || k.Hash == "" {
				t.Errorf("%+v", k)
			}
			if k.Processor == chip.NCRISC && k.Name != "deep/writer" {
				t.Errorf("%+v", k)
			}
		}
	}
	c := open(t, filepath.Join(root, "a4347c0dda/111/kernels/compute"))
	if len(c.Kernels) != 3 || c.Kernels[0].Name != "compute" || c.Kernels[0].Build != "111" {
		t.Errorf("%+v", c.Kernels)
	}
	im, err := c.Kernels[0].Load()
	must(t, err)
	if _, _, err := c.FirmwareOf(&c.Kernels[0], im); !errors.Is(err, ErrNoFirmware) {
		t.Error(err)
	}
	// Pre-compiled firmware is in another folder, by the same build key.
	other := filepath.Join(t.TempDir(), "pre-compiled", "111")
	write(t, other, firmware(t, old, chip.Blackhole))
	c = open(t, filepath.Join(root, "a4347c0dda/111/kernels"), filepath.Join(root, "a4347c0dda/112"), other)
	if f, _, err := c.FirmwareOf(&c.Kernels[0], im); err != nil || f.Dir != other || len(c.Firmware) != 2 {
		t.Errorf("%v, %v", f, err)
	}
	// Unusable firmware of the kernel's build is the reason, not other firmware's difference.
	m := elftest.NewMetal(chip.BRISC, 0x3000, 8, 64)
	must(t, m.WriteFile(filepath.Join(root, "partial", "kernels", "lonely", "9"), m.Kernel()))
	c = open(t, root)
	var none *NoFirmwareError
	var broken *FirmwareError
	if _, _, err := c.FirmwareOf(&Kernel{Build: "partial"}, load(t, m.Kernel())); !errors.As(err, &none) || !errors.As(err, &broken) ||
		!strings.HasSuffix(broken.Dir, "firmware") {
		t.Error(err)
	}
	c = open(t, filepath.Join(root, "222"))
	im = load(t, elftest.NewMetal(chip.BRISC, 0x3000, 8, 64).Kernel())
	var e *MismatchError
	if _, _, err := c.FirmwareOf(&Kernel{}, im); !errors.Is(err, ErrNoFirmware) || !errors.As(err, &e) {
		t.Error(err)
	}
}

func TestOpenCacheRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenCache(t.Context(), dir); !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), "TT_METAL_CACHE") {
		t.Error(err)
	}
	if _, err := OpenCache(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	deep := filepath.Join(dir, strings.Repeat("a/", maxDepth+2))
	must(t, os.MkdirAll(deep, 0o755))
	if _, err := OpenCache(t.Context(), dir); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := OpenCache(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestFirmwareFileWithRelocations(t *testing.T) {
	f := elftest.NewMetal(chip.BRISC, 0x3840, 8, 64).Base()
	f.NoRelocations, f.Relocations = false, []elf.Rela32{elftest.Relocation(0x3840, elf.R_RISCV_HI20, 1, 0)}
	if _, err := kernels.LoadMetalBase(f.Build()); err != nil {
		t.Error(err)
	}
}

func value[V any](v V, err error) func(expect.TB) V { return expect.Value(v, err) }
func second[V any](_ V, err error) error            { return err }

func TestText(t *testing.T) {
	ms := firmware(t, "0.70.1", chip.Blackhole)
	base, kernel := ms[chip.BRISC].Base(), ms[chip.BRISC].Kernel()
	dir := t.TempDir()
	path := filepath.Join(dir, "brisc.elf")
	read := func() ([]byte, uint32) {
		t.Helper()
		text, linked, err := Text(path)
		must(t, err)
		return text, linked
	}
	must(t, os.WriteFile(path, base.Build(), 0o644))
	first, linked := read()
	if len(first) == 0 || linked != ms[chip.BRISC].Entry {
		t.Errorf("%d bytes at %#x, want some at %#x", len(first), linked, ms[chip.BRISC].Entry)
	}
	must(t, os.WriteFile(path+".xip.elf", kernel.Build(), 0o644))
	if moved, at := read(); bytes.Equal(moved, first) || at != linked {
		t.Errorf("the rewritten file isn't read, or its address %#x is", at)
	}
	must(t, os.WriteFile(path+".xip.elf", []byte("no ELF file"), 0o644))
	if _, _, err := Text(path); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("no ELF file: %v", err)
	}
	if _, _, err := Text(filepath.Join(dir, "none.elf")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

const codeSource = `
volatile unsigned *word;
void _start(unsigned n) {
	*(volatile unsigned *)0x19840 = 0x30001000;
	word = (unsigned *)(n + 0x2CF3);
	if (n & 8)
		*word = *(volatile unsigned *)0x1A43C;
	*word = 0x1A43C;
	*word = 0x7D0;
}`

func TestCodeConstants(t *testing.T) {
	for _, march := range []string{"-march=rv32im", "-march=rv32im_zba_zbb_zbs"} {
		f := value(elf.NewFile(bytes.NewReader(compiled(t, codeSource, march))))(t)
		text := value(f.Section(".text").Data())(t)
		k := QueueKernel{code: codeConstants(text)}
		for _, v := range []uint32{0x19840, 0x30001000, 8, 0x1A43C, 0x7D0} {
			if !k.Has(v) {
				t.Errorf("%s: %#x isn't found", march, v)
			}
		}
		for _, v := range []uint32{0x19844, 0x30000000 + 8, 0x1A440, 0x7D4} {
			if k.Has(v) {
				t.Errorf("%s: %#x is found", march, v)
			}
		}
	}
	if k := (QueueKernel{code: codeConstants([]byte{1, 2, 3})}); k.Has(1) {
		t.Error("part of an instruction is a constant")
	}
}
