// Package metal reads tt-metal's kernel cache and folders of base firmware, and finds the base
// firmware that a kernel was linked with, the only one that it runs on.
package metal

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/kernels"
)

// Firmware is tt-metal's base firmware for the processors of a worker, built together. It is read
// only.
type Firmware struct {
	// Dir is the folder that it was read from.
	Dir string
	// Layout is the contract of firmware and host, found by the addresses of the five files, their
	// debug information and constants in their code. If these fit several, Layout is the newest,
	// and Others has the other ones.
	Layout *abi.Layout
	Others []*abi.Layout
	// Base has the file of each processor.
	Base [chip.NumProcessors]*kernels.MetalBase
	// DRAMBanks and L1Banks are what the firmware was compiled for; kernels and the chip must have
	// the same.
	DRAMBanks, L1Banks int
}

// A FirmwareError says why a folder has no usable base firmware.
type FirmwareError struct {
	Dir  string
	Path string // the missing or wrong file; empty if the files don't belong together
	Err  error
	Hint string // what to do; may be empty
}

func (e *FirmwareError) Error() string {
	s := "metal: base firmware in " + e.Dir + ": "
	var path *fs.PathError
	switch {
	case errors.As(e.Err, &path):
		s += e.Err.Error()
	case e.Path != "":
		s += filepath.Base(e.Path) + ": " + e.Err.Error()
	default:
		s += e.Err.Error()
	}
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

func (e *FirmwareError) Unwrap() error { return e.Err }

// ErrMixed means that the files of a folder of base firmware were not built together.
var ErrMixed = errors.New("the files were not built together")

// FileName returns tt-metal's name of a processor's file, such as brisc.elf.
func FileName(p chip.Processor) string { return strings.ToLower(p.String()) + ".elf" }

// OpenFirmware reads base firmware from brisc.elf, ncrisc.elf, trisc0.elf, trisc1.elf and
// trisc2.elf in a folder or in one folder per processor. The error is a [*FirmwareError]; it wraps
// an error of package io/fs or package kernels, an [*abi.UnknownFirmwareError] or [ErrMixed].
func OpenFirmware(dir string) (*Firmware, error) {
	f := &Firmware{Dir: dir}
	var addresses [chip.NumProcessors]uint32
	var told abi.Facts
	for p := range chip.Processor(chip.NumProcessors) {
		path := FirmwareFile(dir, p)
		file, err := readFile(path)
		if err != nil {
			e := &FirmwareError{Dir: dir, Path: path, Err: err}
			if errors.Is(err, fs.ErrNotExist) {
				e.Hint = hint(dir)
			}
			return nil, e
		}
		if f.Base[p], err = kernels.LoadMetalBase(file); err != nil {
			return nil, &FirmwareError{Dir: dir, Path: path, Err: err}
		}
		addresses[p] = f.Base[p].Entry()
		if p == chip.BRISC {
			if told, err = typesOf(file); err != nil {
				return nil, &FirmwareError{Dir: dir, Path: path, Err: err}
			}
		}
	}
	fit, err := abi.ByFirmware(addresses, told)
	if err != nil {
		return nil, &FirmwareError{Dir: dir, Err: err}
	}
	fit = agreeing(fit, f.Base[chip.BRISC].Text().Data)
	f.Layout, f.Others = fit[0], fit[1:]
	brisc, ncrisc := f.Base[chip.BRISC], f.Base[chip.NCRISC]
	f.DRAMBanks, f.L1Banks = brisc.DRAMBanks, brisc.L1Banks
	if ncrisc.DRAMBanks != f.DRAMBanks || ncrisc.L1Banks != f.L1Banks {
		return nil, &FirmwareError{Dir: dir, Hint: "copy all five from one folder of tt-metal's cache",
			Err: fmt.Errorf("%w: BRISC has tables of %d and %d banks of DRAM and L1, NCRISC of %d and %d", ErrMixed, f.DRAMBanks, f.L1Banks,
				ncrisc.DRAMBanks, ncrisc.L1Banks)}
	}
	return f, nil
}

// typesOf returns the facts in a file's debug information; none without.
func typesOf(file []byte) (abi.Facts, error) {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil || f.Section(".debug_info") == nil {
		return nil, err
	}
	d, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	types, err := TypeFacts(d)
	told := abi.Facts{}
	for name, v := range types {
		if abi.IsFact(name) {
			told[name] = uint32(v)
		}
	}
	return told, err
}

// agreeing returns the layouts whose addresses occur in BRISC's code, which copies its own initial
// data and the bank table; all if none do. A multiple of 4 KiB proves less: a LUI makes it on the
// way to other numbers.
func agreeing(fit []*abi.Layout, text []byte) []*abi.Layout {
	if len(fit) == 1 {
		return fit
	}
	found := codeConstants(text)
	proof := func(l *abi.Layout) (n int) {
		for _, addr := range []uint32{l.Boot.Scratch[chip.BRISC], l.L1.BankTable} {
			switch {
			case !found[addr]:
				return 0
			case addr%4096 == 0:
				n++
			default:
				n += 2
			}
		}
		return n
	}
	most := 0
	for _, l := range fit {
		most = max(most, proof(l))
	}
	return slices.DeleteFunc(slices.Clone(fit), func(l *abi.Layout) bool { return proof(l) < most })
}

// Select makes the layout of a wheel the only one, or returns a *FirmwareError.
func (f *Firmware) Select(wheel string) error {
	want := abi.Of(wheel, f.Layout.Arch)
	if want == nil || !slices.Contains(append(f.Others, f.Layout), want) {
		return &FirmwareError{Dir: f.Dir, Err: fmt.Errorf("it is of %s, not of ttnn %s", f.Revisions(), wheel)}
	}
	f.Layout, f.Others = want, nil
	return nil
}

// Revisions names the wheels whose layouts fit, such as "one of ttnn 0.68.0 to 0.70.1".
func (f *Firmware) Revisions() string {
	if len(f.Others) == 0 {
		return f.Layout.Revision.Wheels()
	}
	return "one of " + abi.Revision{Name: f.Others[len(f.Others)-1].Revision.Name, Last: f.Layout.Revision.Last}.Wheels()
}

// FirmwareFile returns the path of a processor's file in a folder of base firmware.
func FirmwareFile(dir string, p chip.Processor) string {
	name := FileName(p)
	flat := filepath.Join(dir, name)
	if _, err := os.Stat(flat); err == nil {
		return flat
	}
	folder := filepath.Join(dir, strings.TrimSuffix(name, ".elf"))
	if _, err := os.Stat(folder); err == nil {
		return filepath.Join(folder, name)
	}
	return flat
}

// hint names a nearby folder that has base firmware.
func hint(dir string) string {
	for _, pattern := range []string{"*", filepath.Join("firmware", "*"), filepath.Join("*", "firmware"), filepath.Join("*", "firmware", "*"),
		filepath.Join("*", "*", "firmware", "*")} {
		escaped := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
		found, err := filepath.Glob(filepath.Join(escaped, pattern, "brisc", "brisc.elf"))
		if err != nil {
			continue
		}
		for _, path := range found {
			if at := filepath.Dir(filepath.Dir(path)); isFirmware(at) {
				return "base firmware is in " + at
			}
		}
	}
	return "it wants brisc.elf, ncrisc.elf, trisc0.elf, trisc1.elf and trisc2.elf, as in tt-metal's cache below firmware/"
}

func isFirmware(dir string) bool {
	for p := range chip.Processor(chip.NumProcessors) {
		if _, err := os.Stat(FirmwareFile(dir, p)); err != nil {
			return false
		}
	}
	return true
}

// maxFile, in bytes, is above the limit of package kernels.
const maxFile = 32 << 20

// ErrNotFile means that a name is a folder, a pipe or a device instead of a file.
var ErrNotFile = errors.New("not a regular file")

// readFile refuses pipes, which would block, and devices, which have no end.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrNotFile}
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%w: %d bytes", kernels.ErrTooLarge, info.Size())
	}
	return os.ReadFile(path)
}

// Segments returns what the host writes to a core: each processor's segments with initial contents.
func (f *Firmware) Segments() iter.Seq2[uint32, []byte] {
	return func(yield func(uint32, []byte) bool) {
		for p := range f.Base {
			for _, s := range f.Base[p].Segments {
				if len(s.Data) > 0 && !yield(s.Addr, s.Data) {
					return
				}
			}
		}
	}
}

// CountsArgs reports whether a word before runtime arguments has their number: tt-metal of March
// 2026 or later, built with the watcher.
func (f *Firmware) CountsArgs() bool {
	return slices.ContainsFunc(f.Base[chip.BRISC].Variables, func(v kernels.MetalVariable) bool { return v.Name == "rta_count" })
}

// A MismatchError names the first symbol by which a kernel doesn't fit base firmware.
type MismatchError struct {
	Dir       string         // of the firmware
	Processor chip.Processor // whose firmware was compared
	Symbol    string
	// A size of 0 stands for an address alone.
	Kernel, Firmware kernels.MetalVariable
	Missing          bool // the firmware doesn't have the symbol
}

func (e *MismatchError) Error() string {
	is := place(e.Firmware)
	if e.Missing {
		is = "missing"
	}
	return fmt.Sprintf("metal: the kernel was not linked with the base firmware in %s: %s of %v is %s there, the kernel has it %s; use the firmware folder of the kernel's own build",
		e.Dir, e.Symbol, e.Processor, is, place(e.Kernel))
}

func place(v kernels.MetalVariable) string {
	if v.Size == 0 {
		return fmt.Sprintf("at %#x", v.Addr)
	}
	return fmt.Sprintf("at %#x with %d bytes", v.Addr, v.Size)
}

// ErrNotMetal is [Firmware.Processor]'s for an image that tt-metal didn't build.
var ErrNotMetal = errors.New("the kernel was not built by tt-metal")

// Processor proves by symbols that a kernel was linked with this firmware, and returns the
// processor that it was linked for. The error is a [*MismatchError], or wraps [ErrNotMetal].
func (f *Firmware) Processor(im *kernels.Image) (chip.Processor, error) {
	if im == nil || im.Metal == nil {
		return 0, fmt.Errorf("metal: %w: Reprise's own kernels run on Reprise's own firmware", ErrNotMetal)
	}
	m := im.Metal
	var closest *MismatchError
	for p := range chip.Processor(chip.NumProcessors) {
		if m.NCRISC != (p == chip.NCRISC) {
			continue
		}
		e := f.compare(p, m)
		if e == nil {
			return p, nil
		}
		// Report the firmware with the kernel's end of text: it was meant.
		if closest == nil || e.Symbol != textEnd && closest.Symbol == textEnd {
			closest = e
		}
	}
	return 0, closest
}

// textEnd is where kernels are linked.
const textEnd = "__fw_export_text_end"

func (f *Firmware) compare(p chip.Processor, m *kernels.MetalKernel) *MismatchError {
	b := f.Base[p]
	differ := func(name string, kernel, firmware kernels.MetalVariable) *MismatchError {
		return &MismatchError{Dir: f.Dir, Processor: p, Symbol: name, Kernel: kernel, Firmware: firmware}
	}
	for _, s := range []struct {
		name             string
		kernel, firmware uint32
	}{
		{textEnd, m.FirmwareEnd, b.TextEnd},
		{"__fw_export_ldm_end", m.LocalStart, b.LocalEnd},
		{"__global_pointer$", m.GlobalPointer, b.GlobalPointer},
	} {
		if s.kernel != s.firmware {
			return differ(s.name, kernels.MetalVariable{Addr: s.kernel}, kernels.MetalVariable{Addr: s.firmware})
		}
	}
	has := map[string]kernels.MetalVariable{}
	for _, v := range b.Variables {
		has[v.Name] = v
	}
	for _, v := range m.Variables {
		switch own, ok := has[v.Name]; {
		case !ok:
			e := differ(v.Name, v, own)
			e.Missing = true
			return e
		case own != v:
			return differ(v.Name, v, own)
		}
	}
	return nil
}

// ErrOwnFirmware is for a kernel of tt-metal on workers with Reprise's own base firmware.
var ErrOwnFirmware = errors.New("metal: the kernel was built by tt-metal, and the workers run Reprise's own base firmware: open the device with the base firmware of the kernel's build")

// A ProcessorError says that a kernel was linked for another processor.
type ProcessorError struct {
	Linked, Asked chip.Processor
}

func (e *ProcessorError) Error() string {
	return fmt.Sprintf("metal: the kernel was linked for %v, not for %v: run it there, or use the file of %s's folder", e.Linked, e.Asked,
		FileName(e.Asked))
}

// CheckProcessor is [Firmware.Processor] for a known one. Its errors include [*ProcessorError].
func (f *Firmware) CheckProcessor(im *kernels.Image, p chip.Processor) error {
	linked, err := f.Processor(im)
	if err != nil {
		return err
	}
	if linked != p {
		return &ProcessorError{Linked: linked, Asked: p}
	}
	return nil
}
