// Package waivers lists what other vendors' programs rely on, so that an emulator can check
// everything else.
package waivers

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/sim/emu"
)

// Metal returns the waivers with which an emulated card with every check, or with slow networks,
// runs tt-metal's firmware from a folder, such as its kernel cache or one for
// reprise.WithQueueFirmware. They cover the base firmware, the command-queue firmware and all
// kernels. The errors are those of [metal.OpenCache] and of
// reading the files.
func Metal(ctx context.Context, dir string) ([]emu.Waiver, error) {
	files, err := metal.QueueKernelFiles(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("waivers: %w", err)
	}
	cache, err := metal.OpenCache(ctx, dir)
	switch {
	case errors.Is(err, metal.ErrEmpty) && len(files) > 0:
		cache = &metal.Cache{}
	case err != nil:
		return nil, err
	}
	var out []emu.Waiver
	for _, dir := range cache.FirmwareFolders {
		for p := range chip.Processor(chip.NumProcessors) {
			path := metal.FirmwareFile(dir, p)
			text, _, err := metal.Text(path)
			if err != nil {
				return nil, fmt.Errorf("waivers: %w", err)
			}
			out = append(out, emu.Waiver{Name: path, Text: text, Assume: emu.MetalFirmware})
		}
	}
	for _, f := range cache.Ethernet {
		if f.Firmware {
			if out, err = appendKernel(out, f.Path, emu.MetalFirmware); err != nil {
				return nil, err
			}
		}
	}
	for _, path := range files {
		if out, err = appendKernel(out, path, emu.MetalQueue); err != nil {
			return nil, err
		}
	}
	for i := range cache.Kernels {
		k, assume := &cache.Kernels[i], emu.MetalCompute
		if k.Processor < chip.TRISC0 {
			assume = emu.MetalMovement
		}
		if out, err = appendKernel(out, k.Path, assume); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// appendKernel adds the waivers of a kernel as this runtime loads it and as tt-metal does.
func appendKernel(list []emu.Waiver, path string, a emu.Assumptions) ([]emu.Waiver, error) {
	im, err := (&metal.Kernel{Path: path}).Load()
	if err == nil {
		list = append(list, emu.Waiver{Name: path, Text: im.Text, Assume: a})
	}
	text, _, asMetal := metal.Text(path)
	if asMetal != nil {
		return nil, fmt.Errorf("waivers: %w", errors.Join(err, asMetal))
	}
	return append(list, emu.Waiver{Name: path, Text: text, Assume: a}), nil
}
