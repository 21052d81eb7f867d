package target

import (
	"context"
	"fmt"

	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/sim/waivers"
)

// WithMetal returns an emulator with the [waivers.Metal] of folders; other devices, and empty names
// of folders, need none.
func (d *Device) WithMetal(ctx context.Context, dirs ...string) (*Device, error) {
	for _, dir := range dirs {
		if d.Kind != Emulator || dir == "" {
			continue
		}
		list, err := waivers.Metal(ctx, dir)
		if err != nil {
			return nil, fmt.Errorf("target: firmware of tt-metal in %s: %w", dir, err)
		}
		d = d.Emulated("", sim.Waive(list...))
	}
	return d, nil
}
