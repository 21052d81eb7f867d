package dispatch

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/dispatch/firmware"
)

// ErrState is returned for the binary form of a state that no trace ends in.
var ErrState = errors.New("not the state of a queue after a trace")

// AppendDetached appends the binary form of a state that Detach has made: the count of completions and the slot of the
// next launch message, as 32-bit little-endian words. The rest of such a state follows from the device.
func (s *State) AppendDetached(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(s.Expected))
	return binary.LittleEndian.AppendUint32(b, s.launch)
}

// ParseDetached reads what AppendDetached wrote, for a trace of that many programs that is to run on the queue. The error
// wraps ErrState.
func (q *Queue) ParseDetached(b []byte, programs int) (State, error) {
	st := q.StateAfter(programs)
	if want := st.AppendDetached(nil); !bytes.Equal(b, want) {
		return State{}, fmt.Errorf("dispatch: %w: % x, %d programs leave % x", ErrState, b, programs, want)
	}
	return st, nil
}

// BinaryImage returns an image that has kernels and no commands, for a program whose commands are in a trace already.
func BinaryImage(name string, binary []byte) *Image {
	return &Image{name: name, binary: binary, placed: true}
}

// FirmwareHash returns the SHA-256 of all firmware that this package starts on a chip. Traces that were recorded with
// one firmware need not run with another.
func (d *Device) FirmwareHash() ([sha256.Size]byte, error) {
	a := d.ch.Arch()
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
	if f := d.opts.Firmware; f != nil {
		for p := range f.Segments {
			for _, s := range f.Segments[p] {
				h.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, s.Addr), uint32(len(s.Data))))
				h.Write(s.Data)
			}
		}
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
