package kernels

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/elftest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/writertest"
)

var arches = []chip.Arch{chip.Wormhole, chip.Blackhole}

func NeedCompiler(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("riscv64-unknown-elf-g++"); err != nil {
		t.Skip("needs the RISC-V cross compiler (Debian: gcc-riscv64-unknown-elf)")
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	expect.Must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)))
}

func mustCompile(t *testing.T, src Source) *Image {
	t.Helper()
	return expect.Value(Compile(t.Context(), src))(t)
}

func TestCompileDataflowAPI(t *testing.T) {
	NeedCompiler(t)
	for _, arch := range arches {
		var warnings bytes.Buffer
		im := mustCompile(t, Source{Path: "testdata/api.cpp", Arch: arch, CompileArgs: []uint32{7, 1<<32 - 1}, Warnings: &warnings})
		expect.Equal(t, im.Arch, arch, "compiled for")
		if warnings.Len() > 0 {
			t.Error(warnings.String())
		}
	}
}

func TestCompileFunctionPointer(t *testing.T) {
	NeedCompiler(t)
	im, err := Compile(t.Context(), Source{Path: "testdata/refused.cpp", Arch: chip.Wormhole})
	var r *RelocationError
	if !errors.As(err, &r) {
		t.Errorf("got %v, %v", im, err)
	}
}

// Text after #include, and what the error names.
var constructors = [][2]string{
	{"static struct T { uint32_t x; T() { x = rp_arg(0); } } t; uint32_t f() { return t.x; }", ".init_array: 4 bytes _GLOBAL__sub_I_"},
	{"__attribute__((constructor(101))) void first() { rp_store(0, 1); }", ".init_array: 4 bytes _Z5firstv"},
	{"static struct T { ~T() { rp_store(rp_arg(0), 1); } } t;", ".fini_array: 4 bytes _GLOBAL__sub_D_"},
	{"__attribute__((section(\".preinit_array\"), used)) void (*const a)() = kernel_main;", ".init_array: 4 bytes kernel_main"},
	{"__attribute__((section(\".ctors.65000\"), used)) void (*const a)() = kernel_main;", ".init_array: 4 bytes kernel_main"},
	{"__attribute__((section(\".dtors\"), used)) void (*const a)() = kernel_main;", ".fini_array: 4 bytes kernel_main"},
}

func TestCompileConstructors(t *testing.T) {
	NeedCompiler(t)
	const head, end = "#include \"reprise/kernel.h\"\nvoid kernel_main();\n", "\nvoid kernel_main() {}"
	for i, tt := range constructors {
		src := Source{Path: "mine.cpp", Text: head + tt[0] + end, Arch: arches[i%2]}
		expect.Says(t, expect.ErrOf(Compile(t.Context(), src)), ErrConstructor, tt[1])
	}
	src := Source{Path: "mine.cpp", Text: head + constructors[0][0] + end, Arch: chip.Wormhole}
	if _, err := CompileCompute(t.Context(), ComputeSource{Source: src}); !errors.Is(err, ErrConstructor) {
		t.Error(err)
	}
}

func TestCompileLibrary(t *testing.T) {
	NeedCompiler(t)
	im := mustCompile(t, Source{Path: "testdata/library.c", Arch: chip.Blackhole})
	if im.DataSize == 0 || !bytes.Contains(im.Text, []byte{3, 1, 2, 0}) {
		t.Errorf("%d bytes of data; the table must be among them", im.DataSize)
	}
}

func TestCompileELF(t *testing.T) {
	NeedCompiler(t)
	text := expect.Value(os.ReadFile("src/copy.cpp"))(t)
	committed, err := prebuilt.ELF(chip.Wormhole, Copy)
	expect.Must(t, err)
	elsewhere := filepath.Join(t.TempDir(), "a directory", "copy.cpp")
	writeFile(t, elsewhere, string(text))
	for _, src := range []Source{{Path: "src/copy.cpp"}, {Path: elsewhere}, {Path: "none/copy.cpp", Text: string(text)}} {
		src.Arch = chip.Wormhole
		file := expect.Value(CompileELF(t.Context(), src))(t)
		if !bytes.Equal(file, committed) {
			t.Errorf("%s: not the bytes of the image that comes with Reprise", src.Path)
		}
	}
	im := mustCompile(t, Source{Path: "src/copy.cpp", Arch: chip.Wormhole})
	want := expect.Value(Prebuilt(chip.Wormhole, Copy))(t)
	expect.NoDiff(t, im, want, "image")
}

func TestCompileOptions(t *testing.T) {
	NeedCompiler(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mine.h"), "#define NUMBER 5\n")
	src := Source{Path: "-options.cc", Arch: chip.Blackhole, Include: []string{dir}, Defines: []string{"ONE", "TEXT=\"a b\""},
		CompileArgs: []uint32{3, 4}, Text: `
#include "dataflow_api.h"
#include "mine.h"
static_assert(ONE == 1 && sizeof(TEXT) == 4 && NUMBER == 5, "macros");
static_assert(get_compile_time_arg_val(0) == 3 && get_compile_time_arg_val(1) == 4, "arguments");
void kernel_main() { int unused; }
`}
	var warnings strings.Builder
	src.Warnings = &warnings
	mustCompile(t, src)
	if w := warnings.String(); !strings.HasPrefix(w, "-options.cc: In function") || !strings.Contains(w, "unused variable") {
		t.Errorf("warnings: %q", w)
	}
	src.Warnings = nil
	mustCompile(t, src)
	// a file whose name looks like an option
	t.Chdir(dir)
	writeFile(t, "-o.c", "#include \"reprise/kernel.h\"\nvoid kernel_main(void) {}\n")
	mustCompile(t, Source{Path: "-o.c", Arch: chip.Blackhole})
}

func TestCompileError(t *testing.T) {
	NeedCompiler(t)
	tests := []struct{ name, text, message, output string }{
		{"syntax", "void kernel_main(void) { here; there; }", "kernels: compile some/dir/mine.c for wormhole: some/dir/mine.c:1:26: error: 'here' undeclared (first use in this function) (and 1 more)", "'there' undeclared"},
		{"in a header", "#include <stdint.h>\nstruct rp_go { int x; };\n#include \"reprise/noc.h\"\n", "wormhole: include/reprise/abi.h:", "mine.c:3"},
		{"no kernel_main", "int x;", "undefined reference to `kernel_main'", "undefined reference"},
		{"two of a name", "void kernel_main(void) {}\nvoid _start(void) {}", ": multiple definition of `_start'; 0.o:start.c:", ""},
	}
	for _, tt := range tests {
		_, err := Compile(t.Context(), Source{Path: "some/dir/mine.c", Text: tt.text, Arch: chip.Wormhole})
		var refused *CompileError
		if !errors.As(err, &refused) || refused.Arch != chip.Wormhole || refused.Path != "some/dir/mine.c" ||
			!strings.Contains(refused.Output, tt.output) {
			t.Errorf("%s: %v, %#v", tt.name, err, refused)
			continue
		}
		if s := err.Error(); !strings.Contains(s, tt.message) || strings.Contains(s, "\n") || strings.Contains(s, os.TempDir()) {
			t.Errorf("%s: %s", tt.name, s)
		}
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			t.Errorf("%s: %v doesn't say how the compiler ended", tt.name, refused.Err)
		}
	}
}

func TestCompileFits(t *testing.T) {
	NeedCompiler(t)
	src := Source{Path: "big.c", Arch: chip.Wormhole, Text: `#include "reprise/kernel.h"
static uint32_t table[256];
void kernel_main(void) { table[rp_arg(0)] = 1; rp_store(rp_arg(1), table[rp_arg(2)]); }`}
	mustCompile(t, src)
	src.Processors = []chip.Processor{chip.BRISC, chip.NCRISC}
	mustCompile(t, src)
	src.Processors = append(src.Processors, chip.TRISC1)
	if _, err := Compile(t.Context(), src); !errors.Is(err, ErrLocalRAM) {
		t.Error(err)
	}
	src.Processors, src.Text = nil, strings.Replace(src.Text, "256", "4096", 1)
	if _, err := Compile(t.Context(), src); !errors.Is(err, ErrLocalRAM) {
		t.Error(err)
	}
}

func TestCompileNoCompiler(t *testing.T) {
	src := Source{Path: "mine.c", Text: "int x;", Arch: chip.Wormhole, Compiler: "no-such-prefix-"}
	fails := func(says string) {
		t.Helper()
		expect.Says(t, expect.ErrOf(Compile(t.Context(), src)), ErrNoCompiler, says)
	}
	fails("no-such-prefix-gcc is not in PATH: install gcc-riscv64-unknown-elf")
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	src.Compiler = ""
	fails("riscv64-unknown-elf-gcc, riscv32-")
	writeFile(t, filepath.Join(dir, "riscv64-elf-gcc"), "#!/bin/sh\n")
	fails("riscv64-elf-gcc is there without riscv64-elf-g++")
}

func TestCompileNoArithmetic(t *testing.T) {
	NeedCompiler(t)
	prefix := filepath.Join(t.TempDir(), "without-")
	writeFile(t, prefix+"g++", "#!/bin/sh\n")
	writeFile(t, prefix+"gcc", `#!/bin/sh
case "$*" in *-lgcc*) exec riscv64-unknown-elf-ld -melf32lriscv -lgcc ;; esac
exec riscv64-unknown-elf-gcc "$@"
`)
	src := Source{Path: "mine.c", Arch: chip.Wormhole, Compiler: prefix, Text: `#include "reprise/kernel.h"
void kernel_main(void) { *(double*)rp_arg(0) *= 3; }`}
	_, err := Compile(t.Context(), src)
	expect.Says(t, err, ErrNoArithmetic, "undefined reference to `__muldf3': install")
	src.Text = strings.Replace(src.Text, "double", "uint64_t", 1)
	mustCompile(t, src)
}

func TestCompileRefuses(t *testing.T) {
	tests := []struct {
		src  Source
		want error
		text string
	}{
		{Source{Arch: chip.Wormhole}, nil, "no file"},
		{Source{Path: "mine.txt", Text: "x", Arch: chip.Wormhole}, nil, "want .c, .cpp"},
		{Source{Path: "mine.S", Text: "x", Arch: chip.Wormhole}, nil, "want .c, .cpp"},
		{Source{Path: "mine.c", Text: "x"}, ErrMachine, ""},
		{Source{Path: "none/mine.c", Arch: chip.Wormhole}, os.ErrNotExist, "none/mine.c"},
	}
	for _, tt := range tests {
		tt.src.Compiler = "no-such-prefix-"
		_, err := Compile(t.Context(), tt.src)
		if err == nil || errors.Is(err, ErrNoCompiler) || tt.want != nil && !errors.Is(err, tt.want) ||
			!strings.Contains(err.Error(), tt.text) {
			t.Errorf("%q: %v", tt.src.Path, err)
		}
	}
}

func TestCompileCancelled(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"slow-gcc", "slow-g++"} {
		writeFile(t, filepath.Join(dir, name), "#!/bin/sh\necho warning: >&2\nexec sleep 60\n")
	}
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("needs a shell")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Compile(ctx, Source{Path: "mine.c", Text: "int x;", Arch: chip.Wormhole, Compiler: filepath.Join(dir, "slow-")})
	expect.Fails(t, err, context.DeadlineExceeded, "error")
}

func TestCompileWarningsFail(t *testing.T) {
	NeedCompiler(t)
	writertest.EveryWrite(t, func(w io.Writer) error {
		_, err := Compile(t.Context(), Source{Path: "mine.c", Text: "void kernel_main(void) { int unused; }", Arch: chip.Wormhole,
			Warnings: w})
		return err
	})
}

func defines(t *testing.T, arch chip.Arch) map[string]uint32 {
	t.Helper()
	file := expect.Value(sources.ReadFile("include/reprise/arch.h"))(t)
	values := map[string]uint32{}
	use := []bool{true}
	for lines := bufio.NewScanner(bytes.NewReader(file)); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		top := len(use) - 1
		switch words[0] {
		case "#ifndef":
			use = append(use, use[top])
		case "#if":
			switch words[1] {
			case "defined(REPRISE_WORMHOLE)":
				// the check at the top of the file has more words, and its branch has no names
				use = append(use, use[top] && arch == chip.Wormhole && len(words) == 2)
			default:
				t.Fatalf("arch.h: %s", lines.Text())
			}
		case "#else":
			use[top] = use[top-1] && !use[top]
		case "#endif":
			use = use[:top]
		case "#define":
			if len(words) < 3 || !use[top] {
				continue
			}
			if v, err := strconv.ParseUint(strings.TrimSuffix(words[2], "u"), 0, 32); err == nil {
				values[words[1]] = uint32(v)
			}
		}
	}
	return values
}

func TestHeadersAgreeWithChip(t *testing.T) {
	for _, arch := range arches {
		c := defines(t, arch)
		p, l1 := arch.Params(), abi.Own(arch).L1
		want := map[string]uint32{
			"RP_L1_SIZE":                  p.L1Size,
			"RP_L1_ATOMIC_RETURN":         l1.AtomicReturn,
			"RP_L1_BARRIER":               l1.Barrier,
			"RP_L1_MAILBOX":               l1.Mailbox,
			"RP_L1_ZEROS":                 l1.Zeros,
			"RP_ZEROS_SIZE":               l1.ZerosSize,
			"RP_L1_FIRMWARE_BRISC":        l1.Firmware[chip.BRISC],
			"RP_L1_FIRMWARE_NCRISC":       l1.Firmware[chip.NCRISC],
			"RP_L1_FIRMWARE_TRISC0":       l1.Firmware[chip.TRISC0],
			"RP_L1_FIRMWARE_TRISC1":       l1.Firmware[chip.TRISC1],
			"RP_L1_FIRMWARE_TRISC2":       l1.Firmware[chip.TRISC2],
			"RP_L1_BANK_TABLE":            l1.BankTable,
			"RP_L1_KERNEL_CONFIG":         l1.KernelConfig,
			"RP_KERNEL_CONFIG_SIZE":       l1.KernelConfigSize,
			"RP_L1_UNRESERVED":            l1.Unreserved,
			"RP_LOCAL_RAM":                p.LocalRAM,
			"RP_LOCAL_RAM_SIZE_DM":        p.LocalRAMSize[chip.BRISC],
			"RP_LOCAL_RAM_SIZE_TRISC":     p.LocalRAMSize[chip.TRISC0],
			"RP_NOC_WORD":                 p.NOCWord,
			"RP_NOC_MAX_BURST":            p.MaxBurst,
			"RP_SOFT_RESET":               p.SoftReset,
			"RP_SOFT_RESET_ALL":           p.ResetAll,
			"RP_SOFT_RESET_ALL_BUT_BRISC": p.ResetAllButBRISC,
		}
		for name, v := range want {
			if got, ok := c[name]; !ok || got != v {
				t.Errorf("%v: %s is %#x (found %v), package chip has %#x", arch, name, got, ok, v)
			}
		}
		expect.Equal(t, c["RP_KERNEL_CONFIG_SIZE"], maxImage, "%v: Load allows", arch)
		expect.Equal(t, c["RP_LOCAL_RAM_KERNEL"], localData, "%v: where Load wants data", arch)
	}
}

func TestLinkerScriptAgrees(t *testing.T) {
	script := expect.Value(sources.ReadFile("lib/kernel.ld"))(t)
	for _, want := range []string{
		fmt.Sprintf("__local_start = 0x%X;", uint32(localData)),
		fmt.Sprintf("PROVIDE(my_x = 0x%X);", uint32(localRAM+0x10)), // offsetof(struct rp_local, ...): abi.h asserts them
		fmt.Sprintf("PROVIDE(my_y = 0x%X);", uint32(localRAM+0x12)),
		fmt.Sprintf("PROVIDE(noc_index = 0x%X);", uint32(localRAM+0x14)),
		fmt.Sprintf("PROVIDE(noc_mode = 0x%X);", uint32(localRAM+0x15)),
	} {
		if !bytes.Contains(script, []byte(want)) {
			t.Errorf("kernel.ld does not have %q", want)
		}
	}
}

var names = []string{Add, Blank, Copy, CopyReader, CopyWriter, Exchange, Move, MulticastSend, MulticastWait, PingPong, Spin, Store,
	StreamEcho, StreamSink, StreamSource}

var computeNames = []string{SumBF16, SumFP32}

func TestPrebuilt(t *testing.T) {
	for _, arch := range arches {
		for _, name := range names {
			im, err := Prebuilt(arch, name)
			if err != nil {
				t.Error(err)
				continue
			}
			expect.Equal(t, im.Arch, arch, "%s: architecture", name)
			for p := range chip.Processor(chip.NumProcessors) {
				expect.Fails(t, im.Fits(arch, p), nil, "%s", name)
			}
			// Wormhole's fence must not be executed (tt-isa-documentation
			// WormholeB0/TensixTile/BabyRISCV/MemoryOrdering.md); without it Blackhole's cores
			// would poll their own data cache.
			fence := false
			for i := 0; i < len(im.Text); i += 4 {
				fence = fence || im.Text[i]&0x7F == 0x0F
			}
			expect.Equal(t, fence, arch == chip.Blackhole, "%s for %v: fences", name, arch)
		}
	}
	if _, err := Prebuilt(chip.Wormhole, "none"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestPrebuiltCompute(t *testing.T) {
	for _, arch := range arches {
		for _, name := range computeNames {
			c, err := PrebuiltCompute(arch, name)
			if err != nil {
				t.Error(err)
				continue
			}
			for i, im := range c.Images() {
				if err := im.Fits(arch, chip.TRISC0+chip.Processor(i)); err != nil || im.Arch != arch {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	if _, err := PrebuiltCompute(chip.Wormhole, Add); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestPrebuiltNames(t *testing.T) {
	for _, arch := range arches {
		got := slices.Sorted(maps.Keys(PrebuiltFiles(arch)))
		want := slices.Clone(names)
		for _, name := range computeNames {
			want = append(want, name+".math", name+".pack", name+".unpack")
		}
		slices.Sort(want)
		expect.NoDiff(t, got, want, "%v:", arch)
	}
}

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
		im := expect.Value(Load(file))(t)
		clear(file) // which the image doesn't refer to
		expect.NoDiff(t, im, &Image{File: f.Build(), Text: want, Arch: chip.Blackhole, DataSize: 8, BSSSize: 4}, "swapped %v", swap)
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
			expect.Says(t, err, nil, tt.text)
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
			expect.Fails(t, expect.ErrOf(Load(b)), ErrNotELF, "%q", b)
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
		expect.Fails(t, tt.im.Fits(tt.arch, tt.p), tt.want, "%s", tt.name)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(good().Build())
	for _, arch := range arches {
		for _, name := range []string{Blank, Copy} {
			file := expect.Value(prebuilt.ELF(arch, name))(f)
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

func TestCompileTensix(t *testing.T) {
	NeedCompiler(t)
	text := expect.Value(os.ReadFile("testdata/tensix.c"))(t)
	for _, arch := range arches {
		for _, path := range []string{"tensix.c", "tensix.cpp"} {
			var warnings bytes.Buffer
			mustCompile(t, Source{Path: path, Text: string(text), Arch: arch, Warnings: &warnings})
			if warnings.Len() > 0 {
				t.Error(warnings.String())
			}
		}
	}
}

func TestCompileTensixConstants(t *testing.T) {
	NeedCompiler(t)
	const large = "doesn't fit"
	for _, tt := range []struct{ name, statement, says string }{
		{"operand", "RP_TTI(RP_OP_SETC16(0x10000, 1));", large},
		{"negative operand", "RP_TTI(RP_OP_SFPLOADI(-1, 0, 0));", large},
		{"pushed word", "rp_tensix_push(RP_OP_MVMUL(1024, 0, 0, 0));", large},
		{"field of the configuration", "RP_CFG_RMW(RP_CFG_SRC_A_FORMAT, 16);", large},
		{"element of an array", "rp_cfg_store(RP_FIELD_WORD(RP_CFG_PACK_OUT(4)), 0);", large},
		{"absent on Wormhole", "RP_TTI(RP_OP_ZEROACC(0, 0, RP_CLEAR_ALL, 1, 0));", "doesn't have the field"},
	} {
		src := Source{Path: "k.c", Text: "#include \"reprise/tensix.h\"\nvoid kernel_main(void) { " + tt.statement + " }\n", Arch: arches[0]}
		_, err := Compile(t.Context(), src)
		var refused *CompileError
		if !errors.As(err, &refused) || !strings.Contains(refused.Output, tt.says) {
			t.Errorf("%s: %v, want a refusal that says %q", tt.name, err, tt.says)
		}
	}
}
