package kernels

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/chip"
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
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
		t.Fatal(err)
	}
}

func mustCompile(t *testing.T, src Source) *Image {
	t.Helper()
	im, err := Compile(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func TestCompileDataflowAPI(t *testing.T) {
	NeedCompiler(t)
	for _, arch := range arches {
		var warnings bytes.Buffer
		im := mustCompile(t, Source{Path: "testdata/api.cpp", Arch: arch, CompileArgs: []uint32{7, 1<<32 - 1}, Warnings: &warnings})
		if im.Arch != arch {
			t.Errorf("compiled for %v, marked %v", arch, im.Arch)
		}
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
		if _, err := Compile(t.Context(), src); !errors.Is(err, ErrConstructor) || !strings.Contains(err.Error(), tt[1]) {
			t.Errorf("%s: %v", tt[0], err)
		}
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
	text, err := os.ReadFile("src/copy.cpp")
	if err != nil {
		t.Fatal(err)
	}
	committed, err := prebuilt.ELF(chip.Wormhole, Copy)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "a directory", "copy.cpp")
	writeFile(t, elsewhere, string(text))
	for _, src := range []Source{{Path: "src/copy.cpp"}, {Path: elsewhere}, {Path: "none/copy.cpp", Text: string(text)}} {
		src.Arch = chip.Wormhole
		file, err := CompileELF(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(file, committed) {
			t.Errorf("%s: not the bytes of the image that comes with Reprise", src.Path)
		}
	}
	im := mustCompile(t, Source{Path: "src/copy.cpp", Arch: chip.Wormhole})
	want, err := Prebuilt(chip.Wormhole, Copy)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, im); diff != "" {
		t.Errorf("(-prebuilt +compiled)\n%s", diff)
	}
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
		if _, err := Compile(t.Context(), src); !errors.Is(err, ErrNoCompiler) || !strings.Contains(err.Error(), says) {
			t.Error(err)
		}
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
	if !errors.Is(err, ErrNoArithmetic) || !strings.Contains(err.Error(), "undefined reference to `__muldf3': install") {
		t.Error(err)
	}
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
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestCompileWarningsFail(t *testing.T) {
	NeedCompiler(t)
	writertest.EveryWrite(t, func(w io.Writer) error {
		_, err := Compile(t.Context(), Source{Path: "mine.c", Text: "void kernel_main(void) { int unused; }", Arch: chip.Wormhole,
			Warnings: w})
		return err
	})
}
