package metal

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

// A MismatchError names the first symbol by which a kernel doesn't fit base firmware.
type MismatchError struct {
	Dir       string         // of the firmware
	Processor chip.Processor // whose firmware was compared
	Symbol    string
	// A size of 0 stands for an address alone.
	Kernel, Firmware kernels.MetalVariable
	Missing          bool // the firmware doesn't have the symbol
}

// Error implements error.
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

// Error implements error.
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
