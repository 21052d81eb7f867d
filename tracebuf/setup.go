package tracebuf

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
)

// Setup is what a host stores on a device before the first replay, beside the bring-up of this
// runtime: programs of Ethernet tiles, such as the routers of TT-NN's fabric, and what kernels find
// in L1.
type Setup struct {
	Links []SetupLink
	Ops   []SetupOp
}

// SetupLink is a link that the trace needs. Channels count the working Ethernet tiles of a device.
type SetupLink struct {
	Channel             int
	Device, PeerChannel int // the other end; devices count in the order of the capture
}

// SetupOp is a store or a wait. Those of all devices are done in the order of their turns.
type SetupOp struct {
	Turn  int
	Wait  bool      // until each tile has the bytes, a word
	Tiles []chip.XY // raw
	Addr  uint64
	Bytes []byte
}

const (
	maxSetup  = 1 << 20 // operations of a device
	registers = 0xFFB00000
)

// Registers reports whether the operation is on registers, which are accessed by words.
func (o *SetupOp) Registers() bool { return o.Addr >= registers }

func (f *File) setup(c *coder) {
	if !c.write {
		f.Setup = &Setup{}
	}
	list(c, &f.Setup.Links, 2, 2+4+2, func(l *SetupLink) { u16(c, &l.Channel); u32(c, &l.Device); u16(c, &l.PeerChannel) })
	list(c, &f.Setup.Ops, 4, 4+1+2+8+4, func(o *SetupOp) {
		u32(c, &o.Turn)
		c.flag(&o.Wait)
		list(c, &o.Tiles, 2, 2, c.xy)
		u64(c, &o.Addr)
		c.bytes(&o.Bytes)
	})
}

// checkSetup permits the L1 and registers of Ethernet tiles, and of workers the tables of tt-metal
// and the first page of buffers.
func (f *File) checkSetup(ch *chip.Chip) error {
	if f.Setup == nil {
		return nil
	}
	if n := len(f.Setup.Ops); n > maxSetup {
		return invalid("setup", "it has %d operations, at most %d are possible", n, maxSetup)
	}
	channels := 0
	for raw := range ch.Tiles(chip.Ethernet) {
		if !ch.Tile(raw).Harvested {
			channels++
		}
	}
	for _, l := range f.Setup.Links {
		if l.Channel >= channels || l.PeerChannel >= channels {
			return invalid("setup", "a link from channel %d to channel %d, the chip has %d", l.Channel, l.PeerChannel, channels)
		}
	}
	turn := 0
	for i := range f.Setup.Ops {
		o := &f.Setup.Ops[i]
		part := fmt.Sprintf("setup, operation %d", i)
		if o.Turn < turn || len(o.Tiles) == 0 || len(o.Bytes) == 0 || len(o.Bytes)%4 != 0 || o.Addr%4 != 0 || o.Wait && len(o.Bytes) != 4 {
			return invalid(part, "%d B at %#x of %d tiles at turn %d, after turn %d: want whole words and rising turns", len(o.Bytes), o.Addr,
				len(o.Tiles), o.Turn, turn)
		}
		turn = o.Turn
		for _, raw := range o.Tiles {
			if !f.mayStore(ch, raw, o.Addr, uint64(len(o.Bytes))) {
				return invalid(part, "%d B at %#x of the %v at %v", len(o.Bytes), o.Addr, ch.Kind(raw), raw)
			}
		}
	}
	return nil
}

func (f *File) mayStore(ch *chip.Chip, raw chip.XY, addr, n uint64) bool {
	in := func(start, end uint64) bool { return addr >= start && addr < end && n <= end-addr }
	switch t := ch.Tile(raw); {
	case t.Harvested:
		return false
	case t.Kind == chip.Ethernet:
		return in(0, uint64(ch.Params().EthernetL1Size)) || in(registers, 1<<32)
	}
	if core, ok := ch.LogicalOf(raw); !ok || !f.Target.Workers.Contains(core) {
		return false
	}
	start, end := f.Target.layout().KernelTables()
	return in(uint64(start), uint64(end)) || slices.ContainsFunc(f.Image.Buffers, func(b Buffer) bool {
		return b.Kind == KindL1 && in(b.Addr, b.Addr+uint64(b.Stride))
	})
}

// checkLinks checks that links of several devices lead to others.
func checkLinks(files []*File) error {
	for i, f := range files {
		if f == nil || f.Setup == nil {
			continue
		}
		for _, l := range f.Setup.Links {
			if l.Device >= len(files) || l.Device == i {
				return invalid(fmt.Sprintf("device %d, setup", i), "a link to device %d of %d", l.Device, len(files))
			}
		}
	}
	return nil
}
