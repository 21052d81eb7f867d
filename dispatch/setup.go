package dispatch

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/reprise-tt/reprise/chip"
)

// StoreTile stores words in a tile at raw coordinates, outside of the queues, each with one access.
func (d *machine) StoreTile(raw chip.XY, addr uint64, p []byte) (err error) {
	xy, _ := d.ch.VirtualOf(raw)
	for i := 0; i < len(p) && err == nil; i += 4 {
		err = d.kd.Write32(xy, addr+uint64(i), binary.LittleEndian.Uint32(p[i:]))
	}
	return err
}

// AwaitTile waits for a word of a tile, at most for Options.HangTimeout, and returns it as it was
// last.
func (d *machine) AwaitTile(ctx context.Context, raw chip.XY, addr uint64, want uint32) (got uint32, err error) {
	xy, _ := d.ch.VirtualOf(raw)
	w := newWaiter(d.opts.HangTimeout, Pace{}, &d.naps)
	for err == nil {
		if got, err = d.kd.Read32(xy, addr); err != nil || got == want {
			break
		}
		if err = d.kd.Fault(); err == nil {
			err = w.pause(ctx)
		}
	}
	if errors.Is(err, ErrTimeout) {
		err = nil
	}
	return got, err
}
