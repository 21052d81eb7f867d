package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
)

const prefix = "riscv64-unknown-elf-"

// tools is the cross compiler with a work directory of its own; the test is skipped without a compiler.
func tools(t *testing.T) toolchain {
	t.Helper()
	if _, err := exec.LookPath(prefix + "gcc"); err != nil {
		t.Skip("needs the RISC-V cross compiler (Debian: gcc-riscv64-unknown-elf)")
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return toolchain{ctx: t.Context(), prefix: prefix, root: root, work: t.TempDir()}
}

func testKernel(arch chip.Arch, source string) target {
	return target{output: arch.String() + "/" + source + ".elf", arch: arch, sources: []string{kernelSource + "/" + source}}
}

// The same sources give the same bytes wherever the build runs and whatever its directories are called.
func TestReproducible(t *testing.T) {
	a := tools(t)
	targets, err := firmwareTargets(a.root)
	if err != nil {
		t.Fatal(err)
	}
	// a copy of the sources under another root
	b := toolchain{ctx: a.ctx, prefix: a.prefix, root: filepath.Join(t.TempDir(), "elsewhere", "longer"), work: t.TempDir()}
	for _, dir := range []string{firmwareSource, kernelSource, kernelHeaders} {
		if err := os.CopyFS(filepath.Join(b.root, dir), os.DirFS(filepath.Join(a.root, dir))); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range []target{targets[0], targets[2], targets[len(targets)-1], testKernel(chip.Blackhole, "copy.cpp")} {
		one, linesOne, err := a.make(target)
		if err != nil {
			t.Fatal(err)
		}
		two, linesTwo, err := b.make(target)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, two) || !bytes.Equal(linesOne, linesTwo) {
			t.Errorf("%s differs between two directories", target.output)
		}
	}
}

// build writes what is missing or stale, removes what nothing makes, and with check only says so.
func TestCheck(t *testing.T) {
	tools := tools(t)
	dir := t.TempDir()
	targets := []target{testKernel(chip.Wormhole, "store.c")}
	file := filepath.Join(dir, targets[0].output)
	orphan := filepath.Join(dir, "orphan.elf")
	check := func(want string) {
		t.Helper()
		err := build(tools, dir, targets, true, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("check says %v, want %q", err, want)
		}
	}
	check("store.c.elf")
	if err := build(tools, dir, targets, false, nil); err != nil {
		t.Fatal(err)
	}
	check("")
	if err := os.WriteFile(orphan, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	check("orphan.elf (no source")
	image, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	image[len(image)/2] ^= 1
	if err := os.WriteFile(file, image, 0o644); err != nil {
		t.Fatal(err)
	}
	check("store.c.elf")
	if err := build(tools, dir, targets, false, regexp.MustCompile("^other$")); err != nil {
		t.Fatal(err)
	}
	check("orphan.elf (no source makes it), wormhole/store.c.elf") // which were not asked for
	if err := build(tools, dir, targets, false, nil); err != nil {
		t.Fatal(err)
	}
	check("")
	if _, err := os.Stat(orphan); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the orphan is still there: %v", err)
	}
}

// Without a compiler the message says what to install.
func TestNoCompiler(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	tools := toolchain{ctx: t.Context(), prefix: "no-such-prefix-", root: root, work: t.TempDir()}
	_, _, err = tools.make(testKernel(chip.Wormhole, "store.c"))
	if err == nil || !strings.Contains(err.Error(), "gcc-riscv64-unknown-elf") {
		t.Errorf("%v", err)
	}
}

func TestUnknownSet(t *testing.T) {
	for _, sets := range [][]string{nil, {"kernel"}} {
		if err := run(t.Context(), prefix, t.TempDir(), true, nil, sets); err == nil {
			t.Errorf("%q: no error", sets)
		}
	}
}

// A flat image is what a base firmware's ELF file loads, and nothing that isn't one piece.
func TestFlatten(t *testing.T) {
	if _, err := flatten([]byte("text")); err == nil {
		t.Error("no error for what is not ELF")
	}
	kernel, _, err := tools(t).make(testKernel(chip.Wormhole, "exchange.cpp"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := flatten(kernel); err == nil || !strings.Contains(err.Error(), "segment") {
		t.Errorf("a kernel with data in local RAM: %v", err)
	}
}
