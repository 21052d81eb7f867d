package kmd

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

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
		} else if err != nil {
			err = d.note(err)
		}
	}
	return d.opError(err, "set power %#x", uint16(p))
}
