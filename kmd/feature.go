package kmd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

	"github.com/reprise-tt/reprise/internal/kabi"
)

// Feature is an optional part of the kernel driver.
type Feature uint8

const (
	FeatureNOCCleanup   Feature = iota // Device.SetNOCCleanups, since driver 2.2.0
	FeaturePower                       // Device.SetPower, since driver 2.6.0
	FeatureExport                      // Window.Export, since driver 2.10.0 on a kernel from 5.8 on
	FeatureSMCMessage                  // Device.SMCMessage, newer than 2.10
	FeatureNOCAccess                   // Device.NOCRead and NOCWrite, newer than 2.10
	FeatureReadOnlyPins                // PinConfig.ReadOnly, since driver 2.9.0 with a translating IOMMU
	numFeatures
)

var featureNames = [numFeatures]struct {
	name, need string
	req        uint32
}{
	FeatureNOCCleanup:   {"cleanup writes", "2.2.0", kabi.IoctlSetNOCCleanup},
	FeaturePower:        {"power settings", "2.6.0", kabi.IoctlSetPowerState},
	FeatureExport:       {"dma-buf export", "2.10.0 (and Linux 5.8)", kabi.IoctlExportTLBDMABuf},
	FeatureSMCMessage:   {"firmware messages", "a release after 2.10", kabi.IoctlSMCMessage},
	FeatureNOCAccess:    {"NoC accesses by the driver", "a release after 2.10", kabi.IoctlNOCRead},
	FeatureReadOnlyPins: {"read-only pins", "2.9.0 (and a translating IOMMU)", kabi.IoctlPinPages},
}

func (f Feature) String() string {
	if f < numFeatures {
		return featureNames[f].name
	}
	return fmt.Sprintf("feature %d", uint8(f))
}

// features caches probes: 0 unknown, 1 absent, 2 present.
type features [numFeatures]atomic.Uint32

// Has reports whether the loaded driver has a feature, by one probe: a request without an argument
// is EFAULT if its number is known, and EINVAL otherwise (tt-kmd chardev.c, tt_cdev_ioctl).
func (d *Device) Has(f Feature) bool {
	has, err := d.probe(f)
	return has && err == nil
}

func (d *Device) probe(f Feature) (bool, error) {
	if err := d.usable(); f >= numFeatures || err != nil {
		return false, err
	}
	if v := d.features[f].Load(); v != 0 {
		return v == 2, nil
	}
	has := false
	if f == FeatureReadOnlyPins {
		// An unknown flag and a bad argument have the same errno, so this pins a page.
		h, err := d.pin(PinConfig{Size: 1, ReadOnly: true, unchecked: true})
		if errors.Is(err, ErrDeviceLost) || errors.Is(err, ErrResetting) {
			return false, err
		}
		if err == nil {
			has = h.Close() == nil
		}
	} else {
		err := ioctlBytes(context.Background(), d.file, featureNames[f].req, nil)
		if errors.Is(err, syscall.ENODEV) {
			return false, d.note(err) // that says nothing about the feature
		}
		has = errors.Is(err, syscall.EFAULT)
	}
	v := uint32(1)
	if has {
		v = 2
	}
	d.features[f].Store(v)
	return has, nil
}

func (d *Device) need(f Feature) error {
	has, err := d.probe(f)
	if err != nil {
		return err
	}
	if !has {
		return fmt.Errorf("%w: %s need tt-kmd %s, loaded is %v", ErrDriverTooOld, f, featureNames[f].need, d.info.Driver)
	}
	return nil
}
