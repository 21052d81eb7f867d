package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/internal/images"
)

const prefix = "riscv64-unknown-elf-"

func tools(t *testing.T) toolchain {
	t.Helper()
	if _, err := exec.LookPath(prefix + "gcc"); err != nil {
		t.Skip("needs the RISC-V cross compiler (Debian: gcc-riscv64-unknown-elf)")
	}
	root, err := moduleRoot()
	devtest.Must(t, err)
	return toolchain{ctx: t.Context(), prefix: prefix, root: root, work: t.TempDir()}
}

func testKernel(arch chip.Arch, source string) target {
	return target{output: arch.String() + "/" + source + ".elf", arch: arch, sources: []string{kernelSource + "/" + source}}
}

func TestReproducible(t *testing.T) {
	a := tools(t)
	targets, err := firmwareTargets(a.root)
	devtest.Must(t, err)
	b := toolchain{ctx: a.ctx, prefix: a.prefix, root: filepath.Join(t.TempDir(), "elsewhere", "longer"), work: t.TempDir()}
	for _, dir := range []string{firmwareSource, kernelSource, kernelHeaders} {
		devtest.Must(t, os.CopyFS(filepath.Join(b.root, dir), os.DirFS(filepath.Join(a.root, dir))))
	}
	for _, target := range []target{targets[0], targets[2], targets[len(targets)-1], testKernel(chip.Blackhole, "copy.cpp")} {
		one, err := a.images(target)
		devtest.Must(t, err)
		two, err := b.images(target)
		devtest.Must(t, err)
		if !maps.EqualFunc(one, two, bytes.Equal) {
			t.Errorf("%s differs between two directories", target.output)
		}
	}
}

func TestCheck(t *testing.T) {
	tools := tools(t)
	dir := t.TempDir()
	targets := []target{testKernel(chip.Wormhole, "store.c")}
	const name = "wormhole.tar.gz/store.c.elf"
	archive, orphan := filepath.Join(dir, "wormhole.tar.gz"), filepath.Join(dir, "orphan.elf")
	check := func(want string) {
		t.Helper()
		err := build(tools, dir, targets, true, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), ": "+want)) {
			t.Errorf("check says %v, want %q", err, want)
		}
	}
	rebuild := func(only *regexp.Regexp) {
		t.Helper()
		devtest.Must(t, build(tools, dir, targets, false, only))
	}
	read := func() []byte {
		t.Helper()
		file := expect.Value(os.ReadFile(archive))(t)
		return file
	}
	repack := func(change func(files map[string][]byte)) {
		t.Helper()
		files := expect.Value(images.Unpack(read()))(t)
		change(files)
		packed, err := images.Pack(files)
		devtest.Must(t, errors.Join(err, os.WriteFile(archive, packed, 0o644)))
	}
	check(name + " (is missing)")
	rebuild(nil)
	check("")
	built := read()

	devtest.Must(t, os.WriteFile(orphan, nil, 0o644))
	repack(func(files map[string][]byte) {
		image := files["store.c.elf"]
		image[len(image)/2] ^= 1
		files["compute/other.elf"] = nil
	})
	const all = "orphan.elf (no source makes it), wormhole.tar.gz/compute/other.elf (no source makes it), " + name
	check(all)
	rebuild(regexp.MustCompile("^other$"))
	check(all) // which were not asked for
	rebuild(regexp.MustCompile("store"))
	check(strings.TrimSuffix(all, ", "+name))
	rebuild(nil)
	check("")
	expect.Fails(t, expect.ErrOf(os.Stat(orphan)), os.ErrNotExist, "the orphan is still there")
	if !bytes.Equal(built, read()) {
		t.Error("the archive is not the one that was built first")
	}

	targets = nil
	rebuild(nil)
	expect.Fails(t, expect.ErrOf(os.Stat(archive)), os.ErrNotExist, "the archive without images is still there")
}

// Compressed bytes depend on the version of compress/gzip.
func TestCheckArchive(t *testing.T) {
	tools := tools(t)
	dir := t.TempDir()
	targets := []target{testKernel(chip.Wormhole, "store.c")}
	devtest.Must(t, build(tools, dir, targets, false, nil))
	file := filepath.Join(dir, "wormhole.tar.gz")
	archive := expect.Value(os.ReadFile(file))(t)
	archive[9] ^= 1 // the operating system in gzip's header
	for want, content := range map[string][]byte{"": archive, "wormhole.tar.gz": archive[:len(archive)/2]} {
		devtest.Must(t, os.WriteFile(file, content, 0o644))
		err := build(tools, dir, targets, true, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("check says %v, want %q", err, want)
		}
	}
}

func TestNoCompiler(t *testing.T) {
	root, err := moduleRoot()
	devtest.Must(t, err)
	tools := toolchain{ctx: t.Context(), prefix: "no-such-prefix-", root: root, work: t.TempDir()}
	_, err = tools.images(testKernel(chip.Wormhole, "store.c"))
	expect.Says(t, err, nil, "gcc-riscv64-unknown-elf")
}

func TestUnknownSet(t *testing.T) {
	for _, sets := range [][]string{nil, {"kernel"}} {
		if err := run(t.Context(), prefix, t.TempDir(), true, nil, sets); err == nil {
			t.Errorf("%q: no error", sets)
		}
	}
}

func TestFlatten(t *testing.T) {
	expect.Error(t, expect.ErrOf(flatten([]byte("text"))))
	made, err := tools(t).images(testKernel(chip.Wormhole, "exchange.cpp"))
	devtest.Must(t, err)
	expect.Says(t, expect.ErrOf(flatten(made["wormhole/exchange.cpp.elf"])), nil, "segment")
}
