package kmd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
)

type accessError struct {
	off, n, size         uint64
	name                 string
	closed, store, multi bool
}

func (e *accessError) Error() string {
	what := "load"
	if e.store {
		what = "store"
	}
	return fmt.Sprintf("kmd: %s: %s of %d bytes at %#x: %v", e.name, what, e.n, e.off, e.Unwrap())
}

func (e *accessError) Unwrap() error {
	switch {
	case e.closed:
		return ErrClosed
	case e.off > e.size || e.n > e.size-e.off:
		return ErrOutOfRange
	case e.multi:
		return ErrMulticastRead
	}
	return ErrMisaligned
}

// aligned takes a power of two.
func (w *Window) aligned(off uint64, width int) bool {
	return off&uint64(width-1) == 0 && off < w.size && !w.closed.Load()
}

func (w *Window) refuse(off uint64, n int, store, loads bool) {
	multi := loads && w.writeOnly.Load()
	w.fault.CompareAndSwap(nil, &accessError{off, uint64(n), w.size, w.name, w.closed.Load(), store, multi})
}

// Err returns the error of the first refused access, or nil. It matches ErrMisaligned,
// ErrOutOfRange, ErrClosed or ErrMulticastRead.
func (w *Window) Err() error {
	if e := w.fault.Load(); e != nil {
		return e
	}
	return nil
}

// Load8 loads one byte.
func (w *Window) Load8(off uint64) uint8 { return uint8(w.load(off, 1)) }

// Load16 loads at a multiple of 2.
func (w *Window) Load16(off uint64) uint16 { return uint16(w.load(off, 2)) }

// Load32 loads at a multiple of 4.
func (w *Window) Load32(off uint64) uint32 { return uint32(w.load(off, 4)) }

// Load64 loads at a multiple of 8.
func (w *Window) Load64(off uint64) uint64 { return w.load(off, 8) }

func (w *Window) load(off uint64, width int) uint64 {
	if !w.aligned(off, width) || w.writeOnly.Load() {
		w.refuse(off, width, false, true)
		return 1<<64 - 1
	}
	return w.io.Load(off, width)
}

// Store8 stores one byte.
func (w *Window) Store8(off uint64, v uint8) { w.store(off, 1, uint64(v)) }

// Store16 stores at a multiple of 2.
func (w *Window) Store16(off uint64, v uint16) { w.store(off, 2, uint64(v)) }

// Store32 stores at a multiple of 4.
func (w *Window) Store32(off uint64, v uint32) { w.store(off, 4, uint64(v)) }

// Store64 stores at a multiple of 8.
func (w *Window) Store64(off uint64, v uint64) { w.store(off, 8, v) }

func (w *Window) store(off uint64, width int, v uint64) {
	if !w.aligned(off, width) {
		w.refuse(off, width, true, false)
		return
	}
	w.io.Store(off, width, v)
}

// Read copies from L1 or DRAM, not registers, in loads of 4 and 8 bytes.
func (w *Window) Read(off uint64, p []byte) {
	if !w.span(off, len(p), false) {
		for i := range p {
			p[i] = 0xFF
		}
		return
	}
	w.io.Read(off, p)
}

// Write stores every byte once, in ascending order, by aligned stores of 4 and 8 bytes. Partial
// words at the edges are read and written back, not atomically; a multicast window can't have them.
func (w *Window) Write(off uint64, p []byte) {
	if w.span(off, len(p), true) {
		w.io.Write(off, p)
	}
}

func (w *Window) span(off uint64, n int, store bool) bool {
	if off <= w.size && uint64(n) <= w.size-off && !w.closed.Load() &&
		(!w.writeOnly.Load() || store && off&3 == 0 && n&3 == 0) {
		return true
	}
	w.refuse(off, n, store, true)
	return false
}

// Drain makes earlier stores leave the processor. PCIe writes are posted: a later load from the
// same window proves their arrival.
func (w *Window) Drain() { fence() }

// Publish makes earlier stores to host memory visible before the next store to the window. amd64
// orders an uncached store after earlier ones (Intel SDM volume 3A, "Memory ordering").
func (w *Window) Publish() {
	if runtime.GOARCH != "amd64" || w.caching != Uncached {
		fence()
	}
}

// NOCRead has the driver load 1, 2, 4 or 8 bytes at a multiple of the width, without a window or
// faults, but much slower. The error matches ErrDriverTooOld unless the driver has
// FeatureNOCAccess.
func (d *Device) NOCRead(n chip.NOC, xy chip.XY, addr uint64, width int) (uint64, error) {
	v, err := d.nocAccess(kabi.IoctlNOCRead, n, xy, addr, width, 0)
	return v, d.opError(err, "driver's read of %d bytes at %v %#x", width, xy, addr)
}

// NOCWrite has the driver store to a tile: see NOCRead.
func (d *Device) NOCWrite(n chip.NOC, xy chip.XY, addr uint64, width int, v uint64) error {
	_, err := d.nocAccess(kabi.IoctlNOCWrite, n, xy, addr, width, v)
	return d.opError(err, "driver's write of %d bytes at %v %#x", width, xy, addr)
}

func (d *Device) nocAccess(req uint32, n chip.NOC, xy chip.XY, addr uint64, width int, v uint64) (uint64, error) {
	if err := d.need(FeatureNOCAccess); err != nil {
		return 0, err
	}
	switch {
	case width != 1 && width != 2 && width != 4 && width != 8:
		return 0, fmt.Errorf("%w: width %d, want 1, 2, 4 or 8", ErrOutOfRange, width)
	case addr&uint64(width-1) != 0:
		return 0, fmt.Errorf("%w: the address must be a multiple of %d", ErrMisaligned, width)
	case n > chip.NOC1 || xy.X > 63 || xy.Y > 63:
		return 0, fmt.Errorf("%w: tile %v on network %d", ErrOutOfRange, xy, n)
	}
	a := kabi.NOCAccess{X: uint16(xy.X), Y: uint16(xy.Y), NOC: uint8(n), Width: uint8(width), Addr: addr, Value: v}
	if err := ioctl(d.file, req, &a); err != nil {
		return 0, d.note(err)
	}
	return a.Value, nil
}

const smcPoll = 200 * time.Microsecond

// SMCMessage sends a message to the management firmware through the driver and waits for the
// answer, until ctx ends. A first word other than 0 is an error code, which matches ErrFirmware.
// The error matches ErrDriverTooOld without FeatureSMCMessage, and ErrBusy during another message
// of this Device.
func (d *Device) SMCMessage(ctx context.Context, request [8]uint32) (answer [8]uint32, err error) {
	answer, err = d.smcMessage(ctx, request)
	return answer, d.opError(err, "firmware message %#x", request[0])
}

func (d *Device) smcMessage(ctx context.Context, request [8]uint32) (answer [8]uint32, err error) {
	if err := d.need(FeatureSMCMessage); err != nil {
		return answer, err
	}
	do := func(op uint32, m [8]uint32) ([8]uint32, error) {
		a := kabi.SMCMessage{Flags: op, Message: m}
		err := ioctl(d.file, kabi.IoctlSMCMessage, &a)
		return a.Message, err
	}
	switch _, err := do(kabi.SMCPost, request); {
	case errors.Is(err, syscall.EBUSY):
		return answer, fmt.Errorf("%w: another message of this device is under way (%w)", ErrBusy, err)
	case errors.Is(err, syscall.EOPNOTSUPP):
		return answer, fmt.Errorf("%w: it has no message queue: update it (tt-flash) (%w)", ErrFirmware, err)
	case err != nil:
		return answer, d.note(err)
	}
	for {
		answer, err = do(kabi.SMCPoll, [8]uint32{})
		switch {
		case err == nil && answer[0] != 0:
			return answer, fmt.Errorf("%w: message %#x failed with code %#x", ErrFirmware, request[0], answer[0])
		case err == nil:
			return answer, nil
		case !errors.Is(err, syscall.EAGAIN):
			return answer, d.note(err)
		}
		if ended := sleep(ctx, smcPoll); ended != nil {
			_, err := do(kabi.SMCAbandon, [8]uint32{})
			return answer, errors.Join(fmt.Errorf("%w: no answer: %w", ErrFirmware, ended), err)
		}
	}
}
