package rig

import (
	"context"
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/kmd"
)

// Firmware names the folders of tt-metal's firmware that devices run; see hwtest.Firmware.
type Firmware struct {
	Workers string // base firmware of the workers: reprise.WithFirmware
	Queues  string // the command queues': reprise.WithQueueFirmware
}

// Options are those that a device is opened with.
func (f Firmware) Options() []reprise.Option {
	var o []reprise.Option
	if f.Workers != "" {
		o = append(o, reprise.WithFirmware(f.Workers))
	}
	if f.Queues != "" {
		o = append(o, reprise.WithQueueFirmware(f.Queues))
	}
	return o
}

// belowRuntime is why cases are skipped that start the command queues themselves.
const belowRuntime = "opens the command queues below the runtime, with its own firmware"

// Own reports whether devices run this runtime's own firmware alone.
func (f Firmware) Own() bool { return f == Firmware{} }

// Skip says why a case can't run that ends in an error; "" if it must not end in that.
func (f Firmware) Skip(err error) string {
	var queues *dispatch.QueueFirmwareError
	var base *dispatch.FirmwareError
	switch {
	case !f.Own() && errors.As(err, &base):
		return "the case opens another chip than the firmware was built for: " + base.Why
	case f.Workers != "" && errors.Is(err, metal.ErrNotMetal):
		return "its kernels were not built with tt-metal's firmware, which the workers run"
	case f.Queues != "" && (errors.Is(err, dispatch.ErrQueueFirmware) || errors.As(err, &queues)):
		return "tt-metal's command-queue firmware can't do it: " + err.Error()
	}
	return ""
}

// Open opens a device that runs the firmware that is being tested.
func (t *T) Open(ctx context.Context, target kmd.Target, opts ...reprise.Option) (*reprise.Device, error) {
	return reprise.Open(ctx, target, append(t.Config.Firmware.Options(), opts...)...)
}

// openQueues opens a device up to its command queues, with this runtime's own firmware; otherwise
// the case is skipped.
func (t *T) openQueues(o dispatch.Options) (*kmd.Device, *dispatch.Device, error) {
	t.Helper()
	if !t.Config.Firmware.Own() {
		t.Skip(belowRuntime)
	}
	return openQueues(t.Ctx, t.Device.Open(), o)
}
