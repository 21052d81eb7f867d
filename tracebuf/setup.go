package tracebuf

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
)

// Setup is what a host stores on a device before the first replay, beside the bring-up of this
// runtime: programs of Ethernet tiles, such as the routers of TT-NN's fabric, and what kernels find
// in L1.
type Setup struct {
	Links []chip.Link // of the device with others; chips are devices in the order of the capture
	Ops   []SetupOp
}

// SetupOp is a store or a wait. Those of all devices are done in the order of their turns.
type SetupOp struct {
	Turn  int
	Wait  bool      // until each tile has the bytes, a word
	Tiles []chip.XY // raw
	Addr  uint64
	Bytes []byte
}

// Tiles accesses words of a device's tiles at raw coordinates. AwaitTile waits for one as long as a
// device may take, and returns it as it was last.
type Tiles interface {
	StoreTile(raw chip.XY, addr uint64, p []byte) error
	AwaitTile(ctx context.Context, raw chip.XY, addr uint64, want uint32) (got uint32, err error)
}

// SetUp does what the files say that a host does before the first replay, on all devices. The error
// is a *TargetError if a word doesn't come.
func SetUp(ctx context.Context, files []*File, device func(i int) Tiles) error {
	type op struct {
		*SetupOp
		device int
	}
	var all []op
	for i, f := range files {
		for k := range f.SetupOps() {
			all = append(all, op{&f.Setup.Ops[k], i})
		}
	}
	slices.SortStableFunc(all, func(a, b op) int { return cmp.Compare(a.Turn, b.Turn) })
	for _, o := range all {
		for _, raw := range o.Tiles {
			if !o.Wait {
				if err := device(o.device).StoreTile(raw, o.Addr, o.Bytes); err != nil {
					return err
				}
				continue
			}
			want := binary.LittleEndian.Uint32(o.Bytes)
			got, err := device(o.device).AwaitTile(ctx, raw, o.Addr, want)
			if err == nil && got != want {
				err = &TargetError{What: "wiring of Ethernet links", Trace: fmt.Sprint(files[o.device].Setup.Links),
					Here: fmt.Sprintf("another: %#x of tile %v is %#x, not %#x", o.Addr, raw, got, want),
					Do:   "load it on devices with these links"}
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Match is [Target.Match] for a part of the file. A setup also needs the same Ethernet tiles.
func (f *File) Match(part, here *Target) error {
	err := part.Match(here)
	if trace, dev := part.Harvesting.Ethernet, here.Harvesting.Ethernet; err == nil && f.Setup != nil && trace != dev {
		return &TargetError{"harvesting of Ethernet tiles", fmt.Sprintf("%#x", trace), fmt.Sprintf("%#x", dev), "record it again here"}
	}
	return err
}
