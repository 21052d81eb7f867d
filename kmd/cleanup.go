package kmd

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
)

// NOCStore is a 32-bit store to a tile: Value at Addr, a multiple of four, of the tile that NOC calls Target.
type NOCStore struct {
	Target chip.XY
	NOC    chip.NOC
	Addr   uint64
	Value  uint32
}

// SetNOCCleanup has the driver make a store when the last reference to the device's file goes: when it is closed, and
// also when the process is killed. It happens first of all, before memory is unpinned, so it can stop what would go on
// using that. A later call replaces the store of an earlier one; nil takes it back. The error matches ErrDriverTooOld
// before driver 2.2.0 and ErrOutOfRange for a store that the driver doesn't take.
//
// A device that somebody resets stays lost for this Device, and its store is made all the same when it is closed.
func (d *Device) SetNOCCleanup(s *NOCStore) error {
	err := d.need(FeatureNOCCleanup)
	if err == nil {
		a := kabi.SetNOCCleanup{Argsz: uint32(kabi.Size[kabi.SetNOCCleanup]())}
		if s != nil {
			a.Enabled, a.X, a.Y, a.NOC = 1, s.Target.X, s.Target.Y, uint8(s.NOC)
			a.Addr, a.Data = s.Addr, uint64(s.Value)
		}
		switch {
		case a.X > 63 || a.Y > 63:
			// The driver takes 64, which hardware has no bit for.
			err = fmt.Errorf("%w: tile %v: coordinates have 6 bits", ErrOutOfRange, s.Target)
		case a.Addr&3 != 0:
			err = fmt.Errorf("%w: a store's address must be a multiple of 4", ErrMisaligned)
		case a.NOC > 1:
			err = fmt.Errorf("%w: network %d", ErrOutOfRange, a.NOC)
		default:
			if err = ioctl(d.file, kabi.IoctlSetNOCCleanup, kabi.Bytes(&a)); errors.Is(err, syscall.EOPNOTSUPP) {
				err = fmt.Errorf("%w: the driver can't store to this chip (%w)", ErrUnsupportedArch, err)
			} else if err != nil {
				err = d.note(err)
			}
		}
	}
	if err != nil {
		return d.opError("set the cleanup write", err)
	}
	return nil
}
