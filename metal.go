package reprise

import (
	"context"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/kernels/metal"
)

// openFirmware reads the folders of tt-metal's firmware that the options name, and returns the base firmware of the workers; nil
// for this runtime's own.
func (o *options) openFirmware(ctx context.Context) (base *metal.Firmware, err error) {
	if o.firmware != "" {
		if base, err = metal.OpenFirmware(o.firmware); err != nil {
			return nil, err
		}
		o.dispatch.Firmware = baseFirmware(base)
	}
	if o.queues != "" {
		q, err := metal.OpenQueueFirmware(ctx, o.queues)
		if err != nil {
			return nil, err
		}
		o.dispatch.QueueFirmware = queueFirmware(q)
	}
	return base, nil
}

// baseFirmware returns base firmware as package dispatch takes it.
func baseFirmware(m *metal.Firmware) *dispatch.Firmware {
	f := &dispatch.Firmware{Layout: m.Layout, DRAMBanks: m.DRAMBanks, L1Banks: m.L1Banks, CountsArgs: m.CountsArgs()}
	for p := range m.Base {
		for _, s := range m.Base[p].Segments {
			if len(s.Data) > 0 {
				f.Segments[p] = append(f.Segments[p], dispatch.Segment{Addr: s.Addr, Data: s.Data})
			}
		}
	}
	return f
}

// queueFirmware returns command-queue firmware as package dispatch takes it.
func queueFirmware(m *metal.QueueFirmware) *dispatch.QueueFirmware {
	f := &dispatch.QueueFirmware{Name: m.Dir, Base: baseFirmware(m.Base)}
	for i := range m.Queues {
		k := &m.Queues[i]
		f.Queues = append(f.Queues, dispatch.QueueKernels{
			Prefetch: k.Prefetch.Image.Text, Dispatch: k.Dispatch.Image.Text, Subordinate: k.Subordinate.Image.Text,
			Constants: k.Constants, DRAMBanks: k.Prefetch.Image.Metal.DRAMBanks,
		})
	}
	f.Stripped = dispatch.StrippedKernels{Prefetch: strippedKernels(m.Prefetch), Dispatch: strippedKernels(m.Dispatch),
		Subordinate: strippedKernels(m.Subordinate)}
	return f
}

func strippedKernels(all []metal.QueueKernel) []dispatch.StrippedKernel {
	var out []dispatch.StrippedKernel
	for i := range all {
		k := &all[i]
		out = append(out, dispatch.StrippedKernel{File: k.File, Image: k.Image.Text, Has: k.Has, DRAMBanks: k.Image.Metal.DRAMBanks})
	}
	return out
}

// checkFirmware returns an error unless the workers' base firmware is that which the kernel was built for.
func (d *Device) checkFirmware(k *Kernel) error {
	if d.firmware != nil {
		return d.firmware.CheckProcessor(k.Image, k.Processor)
	}
	if k.Image.Metal != nil {
		return metal.ErrOwnFirmware
	}
	return nil
}
