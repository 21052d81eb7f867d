package recording

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/sparse"
	"github.com/reprise-tt/reprise/sim/emu"
	"github.com/reprise-tt/reprise/sim/libttsim"
	"github.com/reprise-tt/reprise/tracebuf"
)

// hostAccess is what the host did with a chip.
type hostAccess struct {
	emu.HostAccess
	chip, turn int
}

// noteHost keeps what the host did before the first replay.
func (r *Recording) noteHost(chips []*reader, steps []libttsim.Step) {
	end := len(steps)
	for _, c := range chips {
		for _, t := range c.Traces {
			end = min(end, c.turns[t.first])
		}
	}
	for i, s := range steps[:end] {
		for _, h := range s.Host {
			r.hosts = append(r.hosts, hostAccess{h, s.Chip, i})
		}
	}
}

// Setup returns what the host did on a chip, whose programs had these workers and this layout of L1,
// so that traces can use links, and the L1 that it takes from the workers' buffers: nothing unless
// it left tables for programs, as TT-NN does for its fabric.
func (r *Recording) Setup(of int, l *abi.Layout, workers chip.Range) (*tracebuf.Setup, []tracebuf.Buffer) {
	s := &tracebuf.Setup{}
	linked := map[chip.XY]bool{}
	for _, k := range r.links {
		for _, k := range []chip.Link{k, {Chip: k.PeerChip, Channel: k.PeerChannel, PeerChip: k.Chip, PeerChannel: k.Channel}} {
			if k.Chip == of {
				s.Links = append(s.Links, tracebuf.SetupLink{Channel: k.Channel, Device: k.PeerChip, PeerChannel: k.PeerChannel})
				linked[ethernetTile(r.Chips[of], k.Channel)] = true
			}
		}
	}
	start, end := l.KernelTables()
	tables, low, high := false, l.L1.Size, uint32(0)
	known := map[chip.XY]sparse.Memory{} // words that the host knows of
	for _, h := range r.hosts {
		if h.chip != of {
			continue
		}
		o := tracebuf.SetupOp{Turn: h.turn, Wait: h.Load, Tiles: r.tiles(of, h, linked, workers), Addr: h.Addr, Bytes: h.Data}
		if len(o.Tiles) == 0 {
			continue
		}
		at, n := h.Addr, uint64(len(h.Data))
		if !linked[h.End] && !h.Load {
			switch {
			case at >= uint64(start) && at+n <= uint64(end):
				tables = true
			case at >= uint64(l.L1.Unreserved) && at+n <= uint64(l.L1.Size):
				low, high = min(low, uint32(at)), max(high, uint32(at+n))
			default:
				continue
			}
		}
		if !h.Load {
			s.Ops = merged(s.Ops, o)
		}
		m := known[h.End]
		if m == nil {
			m = sparse.Memory{}
			known[h.End] = m
		}
		for i := uint64(0); i+4 <= n; i += 4 {
			v := binary.LittleEndian.Uint32(h.Data[i:])
			if old, _ := m.Get(at + i); h.Load && n == 4 && old != v && !o.Registers() {
				s.Ops = append(s.Ops, o) // a program has changed it
			}
			m.Set(at+i, v)
		}
	}
	if !tables {
		return nil, nil
	}
	var taken []tracebuf.Buffer
	if low < high {
		low &^= cq.L1Align - 1
		page := int(high-low+cq.L1Align-1) &^ (cq.L1Align - 1)
		taken = append(taken, tracebuf.Buffer{Name: "l1", Kind: tracebuf.KindL1, Addr: uint64(low), Size: page * workers.Size(), PageSize: page,
			Stride: page})
	}
	return s, taken
}

// tiles are those of an access that a setup has.
func (r *Recording) tiles(of int, h hostAccess, linked map[chip.XY]bool, workers chip.Range) (out []chip.XY) {
	for y := h.Start.Y; y <= h.End.Y; y++ {
		for x := h.Start.X; x <= h.End.X; x++ {
			xy := chip.XY{X: x, Y: y}
			core, ok := r.Chips[of].LogicalOf(xy)
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

// ethernetTile returns the tile of a channel.
func ethernetTile(ch *chip.Chip, channel int) chip.XY {
	for xy := range ch.Tiles(chip.Ethernet) {
		if ch.Tile(xy).Harvested {
			continue
		}
		if channel == 0 {
			return xy
		}
		channel--
	}
	return chip.XY{}
}
