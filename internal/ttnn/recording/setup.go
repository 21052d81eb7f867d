package recording

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/tracebuf"
)

// Setup returns what the host did on a chip so that traces can use links, and the L1 that this
// takes from the workers' buffers. It is nothing unless the host left tables for programs, as TT-NN
// does for its fabric. The chip's programs had these workers and this layout of L1.
func (r *Recording) Setup(of int, l *abi.Layout, workers chip.Range) (*tracebuf.Setup, []tracebuf.Buffer) {
	s := &tracebuf.Setup{}
	ch := r.Chips[of]
	channels := slices.DeleteFunc(slices.Collect(ch.Tiles(chip.Ethernet)), func(xy chip.XY) bool { return ch.Tile(xy).Harvested })
	linked := map[chip.XY]bool{}
	for _, k := range r.links {
		if k.PeerChip == of {
			k = chip.Link{Chip: k.PeerChip, Channel: k.PeerChannel, PeerChip: k.Chip, PeerChannel: k.Channel}
		}
		if k.Chip == of {
			s.Links = append(s.Links, k)
			linked[channels[k.Channel]] = true
		}
	}
	start, end := l.KernelTables()
	tables, low, high := false, l.L1.Size, uint32(0)
	type place struct {
		chip.XY
		addr uint64
	}
	known := map[place]uint32{} // words that the host knows of
	for turn, step := range r.before {
		for _, h := range step.Host {
			o := tracebuf.SetupOp{Turn: turn, Wait: h.Load, Tiles: tiles(ch, h, linked, workers), Addr: h.Addr, Bytes: h.Data}
			if step.Chip != of || len(o.Tiles) == 0 {
				continue
			}
			at, n := h.Addr, uint64(len(h.Data))
			switch {
			case h.Load || linked[h.End]:
			case at >= uint64(start) && at+n <= uint64(end):
				tables = true
			case at >= uint64(l.L1.Unreserved) && at+n <= uint64(l.L1.Size):
				low, high = min(low, uint32(at)), max(high, uint32(at+n))
			default:
				continue
			}
			if !h.Load {
				s.Ops = merged(s.Ops, o)
			}
			for i := uint64(0); i+4 <= n; i += 4 {
				v, word := binary.LittleEndian.Uint32(h.Data[i:]), place{h.End, at + i}
				if h.Load && n == 4 && known[word] != v && at < uint64(ch.Params().EthernetL1Size) {
					s.Ops = append(s.Ops, o) // a program has changed it
				}
				known[word] = v
			}
		}
	}
	if !tables {
		return nil, nil
	}
	var taken []tracebuf.Buffer
	if low < high {
		low &^= cq.L1Align - 1
		page := int(high-low+cq.L1Align-1) &^ (cq.L1Align - 1)
		taken = append(taken, tracebuf.Buffer{Name: "l1", Kind: tracebuf.KindL1, Addr: uint64(low), Size: page * workers.Size(),
			PageSize: page, Stride: page})
	}
	return s, taken
}

// tiles are those of an access that a setup has.
func tiles(ch *chip.Chip, h emu.HostAccess, linked map[chip.XY]bool, workers chip.Range) (out []chip.XY) {
	for y := int(h.Start.Y); y <= int(h.End.Y); y++ {
		for x := int(h.Start.X); x <= int(h.End.X); x++ {
			xy := chip.XY{X: uint8(x), Y: uint8(y)}
			core, ok := ch.LogicalOf(xy)
			if linked[xy] || ok && !h.Load && workers.Contains(core) {
				out = append(out, xy)
			}
		}
	}
	return out
}

// merged adds a store, to the last one if that stores the same in other tiles.
func merged(ops []tracebuf.SetupOp, o tracebuf.SetupOp) []tracebuf.SetupOp {
	if n := len(ops) - 1; n >= 0 && !ops[n].Wait && ops[n].Addr == o.Addr && bytes.Equal(ops[n].Bytes, o.Bytes) {
		ops[n].Tiles = slices.Concat(ops[n].Tiles, o.Tiles)
		return ops
	}
	return append(ops, o)
}
