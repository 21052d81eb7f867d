package reprise

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/tracebuf"
)

type setupOp struct {
	*tracebuf.SetupOp
	device int
}

// setUp does what the files say that a host does before the first replay, on all devices.
func setUp(ctx context.Context, ds []*Device, files []*tracebuf.File) error {
	var all []setupOp
	for i, f := range files {
		if f == nil || f.Setup == nil {
			continue
		}
		for k := range f.Setup.Ops {
			all = append(all, setupOp{&f.Setup.Ops[k], i})
		}
	}
	slices.SortStableFunc(all, func(a, b setupOp) int { return cmp.Compare(a.Turn, b.Turn) })
	for _, o := range all {
		for _, raw := range o.Tiles {
			disp := ds[o.device].disp
			if !o.Wait {
				if err := disp.StoreTile(raw, o.Addr, o.Bytes, o.Registers()); err != nil {
					return fmt.Errorf("set up tile %v: %w", raw, err)
				}
				continue
			}
			want := binary.LittleEndian.Uint32(o.Bytes)
			got, err := disp.AwaitTile(ctx, raw, o.Addr, want)
			if err != nil && ctx.Err() == nil && !errors.Is(err, ErrDeviceLost) {
				err = errors.Join(linksError(files, o.device, raw, o.Addr, got, want), err)
			}
			if err != nil {
				return fmt.Errorf("set up tile %v: %w", raw, err)
			}
		}
	}
	return nil
}

// linksError says that an Ethernet tile doesn't get as far as it did when the trace was recorded.
func linksError(files []*tracebuf.File, device int, raw chip.XY, addr uint64, got, want uint32) error {
	var links []string
	for _, l := range files[device].Setup.Links {
		links = append(links, fmt.Sprintf("channel %d to channel %d of device %d", l.Channel, l.PeerChannel, l.Device))
	}
	return &tracebuf.TargetError{What: fmt.Sprintf("Ethernet links of device %d", device), Trace: strings.Join(links, ", "),
		Here: fmt.Sprintf("another: %#x of the tile is %#x, not %#x", addr, got, want), Do: "load it on devices with these links"}
}

// matchSetup checks what the setup needs beside the properties of the target.
func matchSetup(f *tracebuf.File, here *tracebuf.Target) error {
	if f.Setup == nil || f.Target.Harvesting == here.Harvesting {
		return nil
	}
	return &tracebuf.TargetError{What: "harvesting of Ethernet tiles", Trace: fmt.Sprintf("%#x", f.Target.Harvesting.Ethernet),
		Here: fmt.Sprintf("%#x", here.Harvesting.Ethernet), Do: "record it again here"}
}
