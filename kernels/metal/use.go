package metal

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
)

// ErrOwnFirmware is the error for a kernel of tt-metal on workers with Reprise's own base firmware.
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

// CheckProcessor proves that a kernel was linked with this firmware for a processor. Its errors are
// those of [Firmware.Check] and a [*ProcessorError].
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
