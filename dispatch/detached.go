package dispatch

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/firmware"
	"github.com/reprise-tt/reprise/kernels/print"
)

// ErrState is returned for the binary form of a state that no trace ends in.
var ErrState = errors.New("not the state of a queue after a trace")

// AppendDetached appends the binary form of a state: the count of completions and the slot of the
// next launch message, as 32-bit little-endian words.
func (t Detached) AppendDetached(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(t.Expected))
	return binary.LittleEndian.AppendUint32(b, t.launch)
}

// ParseDetached reads what AppendDetached wrote, for a trace of that many programs that is to run on the queue. The error
// wraps ErrState.
func (q *Queue) ParseDetached(b []byte, programs int) (Detached, error) {
	st := q.StateAfter(programs)
	if want := st.AppendDetached(nil); !bytes.Equal(b, want) {
		return Detached{}, fmt.Errorf("dispatch: %w: % x, %d programs leave % x", ErrState, b, programs, want)
	}
	return st, nil
}

// BinaryImage returns an image that has kernels and no commands, for a program whose commands are in a trace already.
func BinaryImage(name string, binary []byte, prints []print.Program) *Image {
	return &Image{name: name, binary: binary, placed: true, prints: prints}
}

// FirmwareHash returns the SHA-256 of all firmware that this package starts on a chip. Traces that were recorded with
// one firmware need not run with another.
func (d *Device) FirmwareHash() ([sha256.Size]byte, error) {
	f := d.opts.Firmware
	if f == nil {
		return HashFirmware(d.ch.Arch(), nil)
	}
	return HashFirmware(d.ch.Arch(), func(yield func(uint32, []byte) bool) {
		for p := range f.Segments {
			for _, s := range f.Segments[p] {
				if !yield(s.Addr, s.Data) {
					return
				}
			}
		}
	})
}

// HashFirmware returns what FirmwareHash returns for a device of an architecture with this runtime's own command-queue
// firmware. workers are the segments, by processor and address, of base firmware that replaces the workers' own; nil for none.
func HashFirmware(a chip.Arch, workers iter.Seq2[uint32, []byte]) ([sha256.Size]byte, error) {
	var sum [sha256.Size]byte
	base, err := firmware.Base(a)
	if err != nil {
		return sum, err
	}
	images := base[:]
	for _, name := range []string{firmware.Prefetch, firmware.Dispatch, firmware.DispatchS} {
		image, err := firmware.CQ(a, name)
		if err != nil {
			return sum, err
		}
		images = append(images, image)
	}
	h := sha256.New()
	for _, image := range images {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(image)))) // never fails
		h.Write(image)
	}
	if workers != nil {
		for addr, data := range workers {
			h.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, addr), uint32(len(data))))
			h.Write(data)
		}
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
