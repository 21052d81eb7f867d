package ttsim

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// entryPoints are the library functions that the server calls (ttsim docs/libttsim_api.md).
var entryPoints = [...]string{"init", "exit", "set_pci_dma_mem_callbacks", "pci_config_rd32", "pci_config_wr32",
	"pci_mem_rd_bytes", "pci_mem_wr_bytes", "clock"}

// checkLibrary's errors are better than the dynamic loader's, which would search for a bare name.
func checkLibrary(path string) (string, error) {
	fail := func(err error, hint string) (string, error) {
		return "", &LibraryError{Path: path, Err: err, Hint: hint}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return fail(err, "give an absolute path")
	}
	st, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Without the errno, which package kmd would take for a missing device.
		return fail(fs.ErrNotExist, "give the path of a libttsim.so; ttsim releases have one for each chip")
	case err != nil:
		return fail(err, "give the path of a libttsim.so that can be read")
	case !st.Mode().IsRegular():
		return fail(fmt.Errorf("%w: it is %v", ErrNotLibrary, st.Mode().Type()), "give the path of the file libttsim.so itself")
	case st.Size() == 0:
		return fail(fmt.Errorf("%w: it is empty", ErrNotLibrary), "build or download it again")
	}
	f, err := elf.Open(abs)
	if err != nil {
		var pe *fs.PathError
		if !errors.As(err, &pe) {
			err = fmt.Errorf("%w: %w", ErrNotLibrary, err)
		}
		return fail(err, "give the path of a libttsim.so")
	}
	defer f.Close()
	if f.Type != elf.ET_DYN {
		return fail(fmt.Errorf("%w: it is an ELF file of type %v", ErrNotLibrary, f.Type), "give the path of a libttsim.so")
	}
	if want, ok := machines[runtime.GOARCH]; ok && f.Machine != want {
		return fail(fmt.Errorf("%w: it is built for %v, this program for %v", ErrNotLibrary, f.Machine, want),
			"use the build of ttsim for this processor")
	}
	symbols, err := f.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return fail(fmt.Errorf("%w: %w", ErrNotLibrary, err), "build or download it again")
	}
	var missing []string
	for _, name := range entryPoints {
		name = "libttsim_" + name
		if !slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name && s.Section != elf.SHN_UNDEF }) {
			missing = append(missing, name)
		}
	}
	if missing != nil {
		hint := "use ttsim 1.10.0 or a later one that keeps its API"
		if len(missing) == len(entryPoints) {
			hint = "it is not a ttsim at all; give the path of a libttsim.so"
		}
		return fail(fmt.Errorf("%w: %s", ErrMissingSymbol, strings.Join(missing, ", ")), hint)
	}
	return abs, nil
}

func supported() bool {
	_, ok := machines[runtime.GOARCH]
	return ok && runtime.GOOS == "linux"
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "riscv64": elf.EM_RISCV}
