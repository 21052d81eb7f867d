package target

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/emu"
)

// MetalWaivers are the named exceptions with which an emulated card with every check, or with slow networks, runs tt-metal's
// firmware from a folder, such as its kernel cache or one that reprise.WithQueueFirmware takes: what its base firmware, its
// command-queue firmware and its compute kernels rely on. Kernels that move data have none. The errors are those of
// [metal.OpenCache] and of reading the files.
func MetalWaivers(ctx context.Context, dir string) ([]emu.Waiver, error) {
	files, err := metal.QueueKernelFiles(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	cache, err := metal.OpenCache(ctx, dir)
	switch {
	case errors.Is(err, metal.ErrEmpty) && len(files) > 0:
		cache = &metal.Cache{}
	case err != nil:
		return nil, err
	}
	var out []emu.Waiver
	for _, f := range cache.Firmware {
		for p, b := range f.Base {
			out = append(out, emu.Waiver{Name: f.Dir + ": " + chip.Processor(p).String(), Text: b.Text().Data, Assume: emu.MetalFirmware})
		}
	}
	for _, path := range files {
		im, err := (&metal.Kernel{Path: path}).Load()
		if err != nil {
			return nil, fmt.Errorf("target: %s: %w", path, err)
		}
		out = append(out, emu.Waiver{Name: path, Text: im.Text, Assume: emu.MetalQueue})
	}
	for i := range cache.Kernels {
		k := &cache.Kernels[i]
		if k.Processor < chip.TRISC0 {
			continue
		}
		im, err := k.Load()
		if err != nil {
			return nil, fmt.Errorf("target: %s: %w", k.Path, err)
		}
		out = append(out, emu.Waiver{Name: k.Path, Text: im.Text, Assume: emu.MetalCompute})
	}
	return out, nil
}

// WithMetal returns an emulator with the [MetalWaivers] of folders; other devices, and empty names of folders, need none.
func (d *Device) WithMetal(ctx context.Context, dirs ...string) (*Device, error) {
	for _, dir := range dirs {
		if d.Kind != Emulator || dir == "" {
			continue
		}
		waivers, err := MetalWaivers(ctx, dir)
		if err != nil {
			return nil, fmt.Errorf("target: firmware of tt-metal in %s: %w", dir, err)
		}
		d = d.Emulated("", sim.Waive(waivers...))
	}
	return d, nil
}
