package kmd

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
)

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
