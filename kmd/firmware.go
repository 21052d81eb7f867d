package kmd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/kabi"
)

const (
	// The driver waits up to 0.5 s for readiness and 1 s for an answer (tt-kmd msgqueue.c); after a
	// reset a card takes longer.
	firmwareTimeout = 10 * time.Second
	firmwarePoll    = 100 * time.Microsecond
)

// Harvesting queries the fused-off units: by message 0x57 on Wormhole, from telemetry on Blackhole.
// It waits up to ten seconds for starting firmware. The error matches ErrFirmware without an
// answer.
func (d *Device) Harvesting(ctx context.Context) (chip.Harvesting, error) {
	ctx, cancel := context.WithTimeout(ctx, firmwareTimeout)
	defer cancel()
	var h chip.Harvesting
	var err error
	if d.arch == chip.Wormhole {
		var answer uint32
		if answer, err = d.message(ctx, chip.ARCGetHarvesting); err == nil {
			h = chip.HarvestingFromARC(answer)
		}
	} else {
		var t *Telemetry
		if t, err = d.telemetry(ctx); err == nil {
			h = chip.HarvestingFromTelemetry(t.Value)
		}
	}
	return h, d.opError(err, "read harvesting")
}

// Telemetry is a copy of the management firmware's telemetry table.
type Telemetry struct{ values map[chip.TelemetryTag]uint32 }

// Value returns a tag's value, and false if the firmware lacks it.
func (t *Telemetry) Value(tag chip.TelemetryTag) (uint32, bool) {
	v, ok := t.values[tag]
	return v, ok
}

// Telemetry reads the telemetry table. It waits up to ten seconds for starting firmware.
func (d *Device) Telemetry(ctx context.Context) (*Telemetry, error) {
	ctx, cancel := context.WithTimeout(ctx, firmwareTimeout)
	defer cancel()
	t, err := d.telemetry(ctx)
	return t, d.opError(err, "read telemetry")
}

func (d *Device) arcTile() chip.XY {
	if d.arch == chip.Wormhole {
		return chip.XY{X: 0, Y: 10}
	}
	return chip.XY{X: 8, Y: 0}
}

// telemetry follows two pointers in the reset unit. The table is a version, a count, then a word
// per tag with its index into the values (tt-kmd wormhole.c and blackhole.c,
// populate_telemetry_cache).
func (d *Device) telemetry(ctx context.Context) (*Telemetry, error) {
	arc, xy := &d.params.ARC, d.arcTile()
	var table, values uint32
	err := d.poll(ctx, func() (bool, error) {
		var err error
		if table, err = d.Read32(xy, arc.ResetUnit+uint64(arc.TelemetryTable)); err != nil {
			return false, err
		}
		values, err = d.Read32(xy, arc.ResetUnit+uint64(arc.TelemetryValues))
		return d.inCSM(table, 8) && d.inCSM(values, 4), err
	})
	if err != nil {
		return nil, fmt.Errorf("telemetry pointers %#x and %#x: %w", table, values, err)
	}
	word := func(addr uint32) (v uint32) {
		if err == nil {
			v, err = d.Read32(xy, arc.PointerBase+uint64(addr))
		}
		return v
	}
	version, n := word(table), word(table+4)
	if err != nil {
		return nil, err
	}
	if major := version >> 16 & 0xFF; major > 1 {
		return nil, fmt.Errorf("%w: telemetry version %d.%d.%d, want 1.x or older",
			ErrFirmware, major, version>>8&0xFF, version&0xFF)
	}
	if n > d.params.ARC.CSMSize/4 || !d.inCSM(table, 8+4*n) {
		return nil, fmt.Errorf("%w: telemetry table of %d entries at %#x doesn't fit its memory", ErrFirmware, n, table)
	}
	t := &Telemetry{make(map[chip.TelemetryTag]uint32, n)}
	for i := range n {
		entry := word(table + 8 + 4*i)
		if at := values + entry>>16*4; d.inCSM(at, 4) {
			t.values[chip.TelemetryTag(entry)] = word(at)
		}
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (d *Device) inCSM(p, n uint32) bool {
	arc := &d.params.ARC
	at := arc.PointerBase + uint64(p)
	return p&3 == 0 && at >= arc.CSM && uint64(n) <= uint64(arc.CSMSize) && at-arc.CSM <= uint64(arc.CSMSize)-uint64(n)
}

// message sends a message to Wormhole's firmware and returns its answer. Its single slot needs the
// driver's lock (tt-kmd wormhole.c, wormhole_send_arc_fw_message_with_args; tt-umd
// device/arc/wormhole_arc_messenger.cpp).
func (d *Device) message(ctx context.Context, code chip.ARCMessage) (answer uint32, err error) {
	if err := d.lock(ctx, LockARCMessage); err != nil {
		return 0, err
	}
	defer func() {
		_, e := d.lockOp(context.Background(), kabi.LockRelease, LockARCMessage)
		err = errors.Join(err, e)
	}()

	arc, xy := &d.params.ARC, d.arcTile()
	scratch := func(n uint64) uint64 { return arc.ResetUnit + uint64(arc.Scratch) + 4*n }
	const running, runningMask = 0xC0DE0000, 0xFFFF0000
	var post uint32
	err = d.poll(ctx, func() (bool, error) {
		post, err = d.Read32(xy, scratch(0))
		return post&runningMask == running, err
	})
	if err != nil {
		return 0, fmt.Errorf("post code %#x, want 0xc0dexxxx: %w", post, err)
	}
	const noArguments = 0xFFFFFFFF
	if err := d.Write32(xy, scratch(3), noArguments); err != nil {
		return 0, err
	}
	if err := d.Write32(xy, scratch(5), chip.ARCMessagePresent|uint32(code)); err != nil {
		return 0, err
	}
	control, err := d.Read32(xy, arc.ResetUnit+uint64(arc.MiscControl))
	if err != nil {
		return 0, err
	}
	if err := d.Write32(xy, arc.ResetUnit+uint64(arc.MiscControl), control|chip.ARCMiscControlIRQ); err != nil {
		return 0, err
	}
	var status uint32
	err = d.poll(ctx, func() (bool, error) {
		// All ones means an unknown message.
		status, err = d.Read32(xy, scratch(5))
		return status&0xFFFF == uint32(code) || status == allOnes, err
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("message %#x, status %#x: %w", uint8(code), status, err)
	case status == allOnes:
		return 0, fmt.Errorf("%w: it doesn't know message %#x", ErrFirmware, uint8(code))
	case status>>16 != 0:
		return 0, fmt.Errorf("%w: message %#x failed with code %d", ErrFirmware, uint8(code), status>>16)
	}
	return d.Read32(xy, scratch(3))
}

func (d *Device) poll(ctx context.Context, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if err := sleep(ctx, firmwarePoll); err != nil {
			return fmt.Errorf("%w: no answer: %w", ErrFirmware, err)
		}
	}
}

// Feature is an optional part of the kernel driver.
type Feature uint8

const (
	FeatureNOCCleanup   Feature = iota // Device.SetNOCCleanups, since driver 2.2.0
	FeaturePower                       // Device.SetPower, since driver 2.6.0
	FeatureExport                      // since driver 2.10.0 on a kernel from 5.8 on
	FeatureSMCMessage                  // newer than 2.10
	FeatureNOCAccess                   // newer than 2.10
	FeatureReadOnlyPins                // since driver 2.9.0 with a translating IOMMU
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
		h, err := d.pin(PinConfig{Size: 1, readOnly: true})
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
