package kmd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
	"github.com/reprise-tt/reprise/internal/seam"
)

// NOCStore is a 32-bit store to a tile; Addr is a multiple of four, and Target the coordinate on
// NOC.
type NOCStore struct {
	Target chip.XY
	NOC    chip.NOC
	Addr   uint64
	Value  uint32
}

// SetNOCCleanups has the driver make stores when the device's file is closed or the process dies,
// before it unpins memory, also after a reset by another process: they can stop a device from using
// that memory. A later call replaces the stores. Each after the first opens the device once more,
// without a power request; if the process dies during the call, old and new stores may mix.
//
// The error matches ErrDriverTooOld before driver 2.2.0, ErrOutOfRange for a store that the driver
// refuses, and ErrBusy for more than one store of an Exclusive Device, which sets only the first.
func (d *Device) SetNOCCleanups(stores ...NOCStore) error {
	err := d.need(FeatureNOCCleanup)
	if err == nil {
		d.cleanupMu.Lock()
		err = d.setCleanupsLocked(stores)
		d.cleanupMu.Unlock()
	}
	return d.opError(err, "set the cleanup write")
}

func (d *Device) setCleanupsLocked(stores []NOCStore) error {
	for i := range stores {
		if err := stores[i].check(); err != nil {
			return err
		}
	}
	var first *NOCStore
	if len(stores) > 0 {
		first = &stores[0]
	}
	if err := d.setCleanup(d.file, first); err != nil {
		return err
	}
	more := max(len(stores)-1, 0)
	for len(d.cleanups) > more {
		g := d.cleanups[len(d.cleanups)-1]
		d.cleanups = d.cleanups[:len(d.cleanups)-1]
		if err := errors.Join(d.setCleanup(g, nil), g.Close()); err != nil {
			return err
		}
	}
	for i := range more {
		if i == len(d.cleanups) {
			g, err := d.openCleanupFile()
			if err != nil {
				return fmt.Errorf("open the device once more, for another cleanup write: %w", err)
			}
			d.cleanups = append(d.cleanups, g)
		}
		if err := d.setCleanup(d.cleanups[i], &stores[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (s *NOCStore) check() error {
	switch {
	case s.Target.X > 63 || s.Target.Y > 63:
		// The driver accepts 64, which needs a bit that the hardware lacks.
		return fmt.Errorf("%w: tile %v: coordinates have 6 bits", ErrOutOfRange, s.Target)
	case s.Addr&3 != 0:
		return fmt.Errorf("%w: a store's address must be a multiple of 4", ErrMisaligned)
	case s.NOC > 1:
		return fmt.Errorf("%w: network %d", ErrOutOfRange, s.NOC)
	}
	return nil
}

func (d *Device) setCleanup(f seam.File, s *NOCStore) error {
	var a kabi.SetNOCCleanup
	if s != nil {
		a.Enabled, a.X, a.Y, a.NOC = 1, s.Target.X, s.Target.Y, uint8(s.NOC)
		a.Addr, a.Data = s.Addr, uint64(s.Value)
	}
	err := ioctl(f, kabi.IoctlSetNOCCleanup, &a)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		return fmt.Errorf("%w: the driver can't store to this chip (%w)", ErrUnsupportedArch, err)
	}
	return d.note(err)
}

// openCleanupFile opens the device once more. Process end must release the first file, which pins
// the memory, last.
func (d *Device) openCleanupFile() (seam.File, error) {
	if d.flags&syscall.O_EXCL != 0 {
		return nil, fmt.Errorf("%w: it is open exclusively, so it can't be opened again", ErrBusy)
	}
	if err := d.file.releaseLast(); err != nil {
		return nil, fmt.Errorf("keep the first file until the end: %w", err)
	}
	g, err := openNode(context.Background(), d.target, syscall.O_APPEND, true)
	if err != nil {
		return nil, err
	}
	same := &Device{path: d.path, file: &liveFile{}}
	same.file.swap(g)
	if err := same.identify(context.Background()); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	if same.info.BDF() != d.info.BDF() {
		return nil, errors.Join(fmt.Errorf("%w: %s leads to the card at %s now, it led to %s", ErrNoDevice,
			d.target, same.info.BDF(), d.info.BDF()), g.Close())
	}
	return g, nil
}

func (d *Device) closeCleanupFiles() error {
	d.cleanupMu.Lock()
	defer d.cleanupMu.Unlock()
	var errs []error
	for _, g := range d.cleanups {
		errs = append(errs, g.Close())
	}
	d.cleanups = nil
	return errors.Join(errs...)
}

// Power is a set of units that a user of a device needs powered or clocked (tt-kmd ioctl.h,
// TT_POWER_FLAG_*). The driver combines the requests of all files.
type Power uint16

const (
	PowerAIClock Power = kabi.PowerMaxAIClock // the Tensix tiles at full speed, not at the idle clock
	PowerDRAM    Power = kabi.PowerDRAMPHY    // the memory interfaces
	PowerTensix  Power = kabi.PowerTensix     // the clock of the Tensix tiles
	PowerL2CPU   Power = kabi.PowerL2CPU      // the clock of Blackhole's L2CPU tiles
)

// HoldPower requests p, besides Open's request and other holds, until release is called. Without
// FeaturePower or power settings in the firmware it does nothing.
func (d *Device) HoldPower(p Power) (release func() error, err error) {
	if err := d.usable(); err != nil {
		return nil, d.opError(err, "hold power")
	}
	if !d.Has(FeaturePower) {
		return func() error { return nil }, nil
	}
	apply := func(delta int) error {
		d.powerMu.Lock()
		defer d.powerMu.Unlock()
		want := PowerDRAM | PowerTensix | PowerL2CPU
		for i := range d.powerHolds {
			if p&(1<<i) != 0 {
				d.powerHolds[i] += delta
			}
			if d.powerHolds[i] > 0 {
				want |= 1 << i
			}
		}
		if err := d.SetPower(want); !errors.Is(err, ErrFirmware) {
			return err
		}
		return nil
	}
	if err := apply(1); err != nil {
		return nil, errors.Join(err, apply(-1))
	}
	var once sync.Once
	return func() (err error) {
		once.Do(func() {
			if err = apply(-1); errors.Is(err, ErrDeviceLost) || errors.Is(err, ErrClosed) {
				err = nil // the request went with the file
			}
		})
		return err
	}, nil
}

// SetPower replaces this Device's power request, which ends with Close. Open requests everything
// but PowerAIClock, WithoutPower nothing; unnamed units stay on. The error matches ErrDriverTooOld
// before driver 2.6.0, and ErrFirmware if the firmware refuses, though the driver keeps the
// request.
func (d *Device) SetPower(p Power) error {
	err := d.need(FeaturePower)
	if err == nil {
		const named = 4
		a := kabi.PowerState{
			Validity:   kabi.PowerValidity(named, 0),
			PowerFlags: uint16(p) & (1<<named - 1),
		}
		err = ioctl(d.file, kabi.IoctlSetPowerState, &a)
		if errors.Is(err, syscall.EINVAL) {
			err = fmt.Errorf("%w: it doesn't take power settings (%w)", ErrFirmware, err)
		} else {
			err = d.note(err)
		}
	}
	return d.opError(err, "set power %#x", uint16(p))
}
