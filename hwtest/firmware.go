package hwtest

import (
	"context"
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/kmd"
)

// Firmware names folders with firmware that tt-metal built, which devices run instead of this runtime's own. Cases that open a
// device below the runtime, whose programs the workers' firmware can't run, or that need this runtime's own queues, are skipped
// then. Emulators let it rely on what package sim/waivers names.
type Firmware struct {
	Workers string // base firmware of the workers: reprise.WithFirmware
	Queues  string // the command queues': reprise.WithQueueFirmware
}

// options are those that a device is opened with.
func (f Firmware) options() []reprise.Option {
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

// own reports whether devices run this runtime's own firmware alone.
func (f Firmware) own() bool { return f == Firmware{} }

// skip says why a case can't run that ends in an error; "" if it must not end in that.
func (f Firmware) skip(err error) string {
	var queues *dispatch.QueueFirmwareError
	var base *dispatch.FirmwareError
	switch {
	case !f.own() && errors.As(err, &base):
		return "the case opens another chip than the firmware was built for: " + base.Why
	case f.Workers != "" && errors.Is(err, metal.ErrNotMetal):
		return "its kernels were not built with tt-metal's firmware, which the workers run"
	case f.Queues != "" && (errors.Is(err, dispatch.ErrQueueFirmware) || errors.As(err, &queues)):
		return "tt-metal's command-queue firmware can't do it: " + err.Error()
	}
	return ""
}

// open opens a device that runs the firmware that is being tested.
func (t *fixture) open(ctx context.Context, target kmd.Target, opts ...reprise.Option) (*reprise.Device, error) {
	return reprise.Open(ctx, target, append(t.config.firmware.options(), opts...)...)
}

// openQueues opens a device up to its command queues, with this runtime's own firmware; otherwise the case is skipped.
func (t *fixture) openQueues(o dispatch.Options) (*kmd.Device, *dispatch.Device, error) {
	t.Helper()
	if !t.config.firmware.own() {
		t.Skip(belowRuntime)
	}
	return openQueues(t.ctx, t.device.Open(), o)
}
