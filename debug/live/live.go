// Package live makes call stacks of the processors of a device that runs: it pauses a processor for as long as it takes to read its
// registers and stack (package debug/core), finds out which kernel it has by the launch message and the bytes in L1, and lets it
// go on.
package live

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/debug/core"
	"github.com/reprise-tt/reprise/debug/stack"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/firmware"
	"github.com/reprise-tt/reprise/kernels"
)

// Catalogue is the files of kernels that may run, to know them by their bytes.
type Catalogue struct{ known []known }

type known struct {
	name       string
	file, text []byte // no file: only its name is known
}

// NewCatalogue returns a catalogue with what comes with Reprise: its kernels, with their symbols, and the command-queue kernels.
func NewCatalogue(arch chip.Arch) *Catalogue {
	c := &Catalogue{}
	for name, file := range kernels.PrebuiltFiles(arch) {
		_ = c.Add(name, file) // they are good
	}
	for _, name := range [...]string{firmware.Prefetch, firmware.Dispatch, firmware.DispatchS} {
		if text, err := firmware.CQ(arch, name); err == nil {
			c.known = append(c.known, known{name: name, text: text})
		}
	}
	return c
}

// Add adds an ELF file, whose debug information stacks have if it was compiled with it. The error wraps stack.ErrFile.
func (c *Catalogue) Add(name string, file []byte) error {
	m, err := stack.Load(name, file, 0)
	if err == nil {
		c.known = append(c.known, known{name, file, m.Text()})
	}
	return err
}

// breakpoints is how many words of a kernel's text may differ: a debugger has put breakpoints there.
const breakpoints = 16

// match returns the newest file whose text is what memory has, which begins with the kernel's text.
func (c *Catalogue) match(memory []byte) (known, bool) {
	for i := range c.known {
		k := c.known[len(c.known)-1-i]
		n := len(k.text)
		if n == 0 || n > len(memory) {
			continue
		}
		if bytes.Equal(k.text, memory[:n]) {
			return k, true
		}
		differ := 0
		for w := 0; w+4 <= n && differ <= breakpoints; w += 4 {
			if !bytes.Equal(k.text[w:w+4], memory[w:w+4]) {
				differ++
			}
		}
		if differ <= breakpoints && 4*differ < n/4 {
			return k, true
		}
	}
	return known{}, false
}

// Reader reads L1 of a tile.
type Reader func(addr uint32, p []byte) error

// Modules returns what a processor can execute: its base firmware, and the kernel that its launch message names.
func (c *Catalogue) Modules(l *abi.Layout, read Reader, p chip.Processor) (stack.Space, error) {
	l1 := &l.L1
	name := fmt.Sprintf("%v firmware", p)
	if !l.Revision.Own() {
		name += " of " + l.Revision.String()
	}
	space := stack.Space{stack.Region(name, l1.Firmware[p], l1.Firmware[p]+l1.FirmwareSize[p])}
	le := binary.LittleEndian
	var word [4]byte
	if err := read(l1.LaunchReadPtr, word[:]); err != nil {
		return space, err
	}
	message := make([]byte, l1.LaunchSize)
	index := le.Uint32(word[:])
	if index >= 1024 || uint64(l1.Launch)+uint64(index+1)*uint64(l1.LaunchSize) > uint64(l1.Size) {
		return space, nil // nothing was ever launched
	}
	if err := read(l1.Launch+index*l1.LaunchSize, message); err != nil {
		return space, err
	}
	base := le.Uint32(message[l.Launch.ConfigBase:])
	text := base + le.Uint32(message[l.Launch.Text+4*uint32(p):])
	if le.Uint32(message[l.Launch.Enables:])>>p&1 == 0 || text < base || text >= l1.Size || text&3 != 0 {
		return space, nil
	}
	memory := make([]byte, min(maxKernel, l1.Size-text))
	if err := read(text, memory); err != nil {
		return space, err
	}
	k, ok := c.match(memory)
	if ok && k.file != nil {
		if m, err := stack.Load(k.name, k.file, text); err == nil {
			return append(space, m), nil
		}
	}
	if !ok {
		k.name, k.text = "kernel", memory
	}
	return append(space, stack.Region(k.name, text, text+uint32(len(k.text)))), nil
}

// maxKernel is how much of L1 is compared: the area of kernels' configuration (abi.L1Map.KernelConfigSize) holds no larger ones.
const maxKernel = 0x11400

// A Stack is the call stack of one processor.
type Stack struct {
	Processor chip.Processor `json:"processor"`
	Frames    []stack.Frame  `json:"frames,omitempty"`
	// Note says why there is less than a stack: the processor has no debug interface or doesn't pause, so that only pc is known.
	Note string `json:"note,omitempty"`
}

// Of returns the call stack of a processor. It is paused for that, unless it is already, and resumed. A processor in reset has no
// frames; of one that can't be paused there is the function that it is in.
func (c *Catalogue) Of(ctx context.Context, dev core.Device, l *abi.Layout, virtual chip.XY, p chip.Processor) (Stack, error) {
	s := Stack{Processor: p}
	tile, err := core.Open(dev, virtual)
	if err != nil {
		return s, err
	}
	k, err := tile.Core(p)
	if err != nil {
		return s, err
	}
	held, err := k.Reset()
	if err != nil {
		return s, err
	}
	if held {
		s.Note = "in reset"
		return s, nil
	}
	space, err := c.Modules(l, func(addr uint32, b []byte) error { return dev.Read(virtual, uint64(addr), b) }, p)
	if err != nil {
		return s, err
	}
	before := core.Status{}
	if k.HasInterface() {
		if before, err = k.Status(); err != nil {
			return s, err
		}
		err = k.Pause(ctx)
	} else {
		err = core.ErrUnsupported
	}
	if errors.Is(err, core.ErrStuck) || errors.Is(err, core.ErrUnsupported) {
		pc, sampleErr := k.Sample()
		if sampleErr != nil {
			return s, sampleErr
		}
		s.Note = "only pc is known: it has no debug interface"
		if errors.Is(err, core.ErrStuck) {
			s.Note = "only pc is known: " + core.ErrStuck.Error()
			_ = k.Detach() // it would pause later
		}
		s.Frames = space.Unwind(stack.Registers{PC: pc}, nil)
		return s, nil
	}
	if err != nil {
		return s, err
	}
	regs, err := k.Registers()
	if err == nil {
		s.Frames = space.Unwind(stack.All([32]uint32(regs[:32]), regs[core.PC]), k.Read)
	}
	if !before.Paused {
		err = errors.Join(err, k.Detach())
	}
	return s, err
}
