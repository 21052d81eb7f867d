package live

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/firmware"
	"github.com/reprise-tt/reprise/internal/debug/stack"
)

// Catalogue holds kernels, recognised by their bytes in memory.
type Catalogue struct{ known []known }

type known struct {
	name              string
	file, lines, text []byte // lines are for stack.LoadTable; without them and file only the name is known
}

// Add adds an ELF file, with its debug information if compiled in. The error wraps stack.ErrFile.
func (c *Catalogue) Add(name string, file []byte) error {
	m, err := stack.Load(name, file, 0)
	if err == nil {
		c.known = append(c.known, known{name: name, file: file, text: m.Text()})
	}
	return err
}

// AddText adds a kernel by its bytes in L1, and its ELF file if there is one, which is read when a
// stack needs it.
func (c *Catalogue) AddText(name string, text, file []byte) {
	c.known = append(c.known, known{name: name, file: file, text: text})
}

// AddQueueKernels adds this runtime's command-queue kernels. The error wraps firmware.ErrNotFound.
func (c *Catalogue) AddQueueKernels(arch chip.Arch) error {
	for _, name := range [...]string{firmware.Prefetch, firmware.Dispatch, firmware.DispatchS} {
		text, err := firmware.CQ(arch, name)
		if err != nil {
			return err
		}
		lines, err := firmware.CQLines(arch, name)
		if err != nil {
			return err
		}
		c.known = append(c.known, known{name: name, lines: lines, text: text})
	}
	return nil
}

const breakpoints = 16 // words of a text that may differ

func (c *Catalogue) match(memory []byte) (known, bool) {
	for _, k := range slices.Backward(c.known) {
		if n := len(k.text); n > 0 && n <= len(memory) && alike(k.text, memory[:n]) {
			return k, true
		}
	}
	return known{}, false
}

func alike(text, memory []byte) bool {
	if bytes.Equal(text, memory) {
		return true
	}
	n, differ := len(text), 0
	for w := 0; w+4 <= n && differ <= breakpoints; w += 4 {
		if !bytes.Equal(text[w:w+4], memory[w:w+4]) {
			differ++
		}
	}
	return differ <= breakpoints && 4*differ < n/4
}

// Reader reads L1 of a tile.
type Reader func(addr uint32, p []byte) error

// Modules returns a processor's base firmware and the kernel of its launch message.
func (c *Catalogue) Modules(l *abi.Layout, read Reader, p chip.Processor) (stack.Space, error) {
	space, _, err := c.modules(l, read, p)
	return space, err
}

func (c *Catalogue) modules(l *abi.Layout, read Reader, p chip.Processor) (space stack.Space, known bool, err error) {
	name := fmt.Sprintf("%v firmware", p)
	if !l.Revision.Own() {
		name += " of " + l.Revision.String()
	}
	space = stack.Space{firmwareModule(name, l, read, p)}
	text, size, err := kernelText(l, read, p)
	if err != nil || size == 0 {
		return space, false, err
	}
	memory := make([]byte, size)
	if err := read(text, memory); err != nil {
		return space, false, err
	}
	k, known := c.match(memory)
	if m := k.module(text); m != nil {
		return append(space, m), true, nil
	}
	if !known {
		k.name, k.text = "kernel", memory
	}
	return append(space, stack.Region(k.name, text, text+uint32(len(k.text)))), known, nil
}

func (k *known) module(at uint32) *stack.Module {
	var m *stack.Module
	var err error
	switch {
	case k.file != nil:
		m, err = stack.Load(k.name, k.file, at)
	case k.lines != nil:
		m, err = stack.LoadTable(k.name, k.lines, k.text, at)
	}
	if err != nil {
		return nil
	}
	return m
}

func firmwareModule(name string, l *abi.Layout, read Reader, p chip.Processor) *stack.Module {
	start, size := l.L1.Firmware[p], l.L1.FirmwareSize[p]
	unknown := stack.Region(name, start, start+size)
	if !l.Revision.Own() {
		return unknown
	}
	images, err := firmware.Base(l.Arch)
	lines, err2 := firmware.Lines(l.Arch, p)
	if err != nil || err2 != nil {
		return unknown
	}
	memory := make([]byte, len(images[p]))
	if err := read(start, memory); err != nil || !alike(images[p], memory) {
		return unknown
	}
	k := known{name: name, lines: lines, text: images[p]}
	return cmp.Or(k.module(start), unknown)
}

// HasKernel reports whether the launch message of a tile has a kernel for a processor.
func HasKernel(l *abi.Layout, read Reader, p chip.Processor) (bool, error) {
	_, size, err := kernelText(l, read, p)
	return size != 0, err
}

// maxKernel bounds the compared bytes: kernels fit the kernel-config area
// (abi.L1Map.KernelConfigSize).
const maxKernel = 0x11400

func kernelText(l *abi.Layout, read Reader, p chip.Processor) (text, size uint32, err error) {
	l1 := &l.L1
	le := binary.LittleEndian
	var word [4]byte
	if err := read(l1.LaunchReadPtr, word[:]); err != nil {
		return 0, 0, err
	}
	message := make([]byte, l1.LaunchSize)
	index := le.Uint32(word[:])
	if index >= 1024 || uint64(l1.Launch)+uint64(index+1)*uint64(l1.LaunchSize) > uint64(l1.Size) {
		return 0, 0, nil // nothing was ever launched
	}
	if err := read(l1.Launch+index*l1.LaunchSize, message); err != nil {
		return 0, 0, err
	}
	base := le.Uint32(message[l.Launch.ConfigBase:])
	text = base + le.Uint32(message[l.Launch.Text+4*uint32(p):])
	if le.Uint32(message[l.Launch.Enables:])>>p&1 == 0 || text < base || text >= l1.Size || text&3 != 0 {
		return 0, 0, nil
	}
	end := l1.Size
	if text >= l1.KernelConfig && text < l1.KernelEnd() {
		end = l1.KernelEnd()
	}
	return text, min(maxKernel, end-text), nil
}
