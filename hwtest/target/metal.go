package target

import (
	"context"
	"errors"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/sim/emu"
)

// MetalWaivers are the named exceptions with which an emulated card with every check runs tt-metal's firmware from a folder,
// such as its kernel cache: what its base firmware and its command-queue firmware rely on. Worker kernels have none. The errors
// are those of [metal.OpenCache] and of reading the files.
func MetalWaivers(ctx context.Context, dir string) ([]emu.Waiver, error) {
	cache, err := metal.OpenCache(ctx, dir)
	if err != nil {
		return nil, err
	}
	var out []emu.Waiver
	for _, f := range cache.Firmware {
		for p, b := range f.Base {
			out = append(out, emu.Waiver{Name: f.Dir + ": " + chip.Processor(p).String(), Text: b.Text().Data, Assume: emu.MetalFirmware})
		}
	}
	var wrong []error
	for i := range cache.Kernels {
		k := &cache.Kernels[i]
		if !strings.Contains(k.Path, "cq_prefetch") && !strings.Contains(k.Path, "cq_dispatch") {
			continue
		}
		im, err := k.Load()
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		out = append(out, emu.Waiver{Name: k.Path, Text: im.Text, Assume: emu.MetalQueue})
	}
	return out, errors.Join(wrong...)
}
