package dispatch

import (
	"context"
	"encoding/binary"

	"github.com/reprise-tt/reprise/chip"
)

// StoreTile stores words in a tile at raw coordinates, outside of the queues, each register with
// one access.
func (d *machine) StoreTile(raw chip.XY, addr uint64, p []byte, registers bool) error {
	xy, _ := d.ch.VirtualOf(raw)
	if !registers {
		return d.kd.Write(xy, addr, p)
	}
	for i := 0; i < len(p); i += 4 {
		if err := d.kd.Write32(xy, addr+uint64(i), binary.LittleEndian.Uint32(p[i:])); err != nil {
			return err
		}
	}
	return nil
}

// AwaitTile waits for a word of a tile, and returns it as it was last.
func (d *machine) AwaitTile(ctx context.Context, raw chip.XY, addr uint64, want uint32) (got uint32, err error) {
	xy, _ := d.ch.VirtualOf(raw)
	w := newWaiter(firmwareTimeout, Pace{}, &d.naps)
	for {
		if got, err = d.kd.Read32(xy, addr); err != nil || got == want {
			return got, err
		}
		if err := d.kd.Fault(); err != nil {
			return got, err
		}
		if err := w.pause(ctx); err != nil {
			return got, err
		}
	}
}
