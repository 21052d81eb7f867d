package optimize

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// prove compares what the steps of two traces do: what each core gets between two waits, and the
// waits and go signals themselves.
func prove(old, now *tracebuf.Image, ch *chip.Chip) error {
	for i := range old.Steps {
		a, err := effects(old, i, ch)
		b, wrong := effects(now, i, ch)
		if err := cmp.Or(err, wrong); err != nil {
			return &ProofError{i, err.Error()}
		}
		for k := range max(len(a), len(b)) {
			if k >= len(a) || k >= len(b) {
				return &ProofError{i, fmt.Sprintf("it has %d waits and signals, not %d", len(b), len(a))}
			}
			if what := a[k].differs(&b[k]); what != "" {
				return &ProofError{i, what}
			}
		}
	}
	return nil
}

// phase is what is written before a command that waits or signals, and that command.
type phase struct {
	writes map[uint32][]write // by tile
	end    string
}

type write struct {
	addr uint32
	data []byte
}

type effect struct {
	im      *tracebuf.Image
	ch      *chip.Chip
	offsets [4]uint32
	phases  []phase
	header  cq.DispatchCommand // whose data the next relay brings
}

func effects(im *tracebuf.Image, step int, ch *chip.Chip) ([]phase, error) {
	s := &im.Steps[step]
	e := effect{im: im, ch: ch, phases: []phase{{writes: map[uint32][]write{}}}}
	if s.Program == tracebuf.NoProgram {
		e.end("edge", im.Bytes[s.Offset:s.Offset+s.Size])
		return e.phases, nil
	}
	for entry, err := range cq.All(im.Layout, im.Bytes[s.Offset:s.Offset+s.Size]) {
		if err != nil {
			return nil, err
		}
		if relay, ok := entry.Command.(cq.RelayPagedPacked); ok && e.header != nil {
			data := relayed(im, s.Offset+entry.Offset, &relay)
			if data == nil {
				return nil, errors.New("a relay reads what is no program's")
			}
			e.command(e.header, data)
			e.header = nil
			continue
		}
		if _, _, ok := entry.Dispatch(); !ok {
			e.end("prefetcher", entry.Command)
		}
		for r := range entry.Relayed {
			if r.Header {
				e.header = r.Command
			} else {
				e.command(r.Command, nil)
			}
		}
	}
	return e.phases, nil
}

func (e *effect) end(who string, c any) {
	e.phases[len(e.phases)-1].end = fmt.Sprintf("%s %T %v", who, c, c)
	e.phases = append(e.phases, phase{writes: map[uint32][]write{}})
}

// command notes what a command does, with the data that a relay brings for it or its own.
func (e *effect) command(c cq.DispatchCommand, data []byte) {
	switch c := c.(type) {
	case cq.SetWriteOffset:
		copy(e.offsets[:], c.Offsets[:c.Count])
	case cq.Wait:
		if c.Flags != 0 {
			e.end("", c)
		}
	case cq.ForwardSubordinate:
		e.end("", cq.NotifySubordinate{Wait: c.Wait, Mask: 1})
		e.end("", c.Command)
	case cq.WritePacked:
		if data != nil {
			c.Data = data
		}
		addr := c.Addr + e.offsets[c.OffsetIndex]
		for i, xy := range c.Cores {
			e.write(xy, addr, c.Slot(i)[:c.Size])
		}
		for i, rect := range c.Rects {
			e.writeRect(rect.NOC, addr, c.Slot(i)[:c.Size])
		}
	case cq.WritePackedLarge:
		if data != nil {
			c.Data = data
		}
		for _, b := range blocks(&c, c.Data) {
			e.writeRect(b.NOC, b.Addr+e.offsets[c.OffsetIndex], b.data)
		}
	default:
		e.end("", c)
	}
}

func (e *effect) write(tile, addr uint32, data []byte) {
	to := e.phases[len(e.phases)-1].writes
	to[tile] = append(to[tile], write{addr, data})
}

func (e *effect) writeRect(noc, addr uint32, data []byte) {
	x0, y0, x1, y1, _ := e.im.Layout.SplitRect(noc)
	for y := y0; y <= y1; y++ {
		for x := x0; x <= x1; x++ {
			if _, ok := e.ch.Logical(chip.XY{X: x, Y: y}); ok {
				e.write(e.im.Layout.NOCXY(x, y), addr, data)
			}
		}
	}
}

func (p *phase) differs(o *phase) string {
	if p.end != o.end {
		return fmt.Sprintf("%s, not %s", o.end, p.end)
	}
	for _, tile := range slices.Sorted(maps.Keys(p.writes)) {
		a, overlap := whole(p.writes[tile])
		b, over := whole(o.writes[tile])
		if overlap || over {
			return fmt.Sprintf("tile %#x gets a byte twice", tile)
		}
		if !slices.EqualFunc(a, b, func(a, b write) bool { return a.addr == b.addr && bytes.Equal(a.data, b.data) }) {
			return fmt.Sprintf("tile %#x gets something else", tile)
		}
	}
	if len(p.writes) != len(o.writes) {
		return fmt.Sprintf("it writes to %d tiles, not %d", len(o.writes), len(p.writes))
	}
	return ""
}

// whole joins writes that touch, in the order of addresses.
func whole(ws []write) (out []write, overlap bool) {
	sorted := slices.SortedStableFunc(slices.Values(ws), func(a, b write) int { return cmp.Compare(a.addr, b.addr) })
	for _, w := range sorted {
		if n := len(out); n > 0 {
			switch end := out[n-1].addr + uint32(len(out[n-1].data)); {
			case w.addr < end:
				return nil, true
			case w.addr == end:
				out[n-1].data = append(slices.Clip(out[n-1].data), w.data...)
				continue
			}
		}
		out = append(out, w)
	}
	return out, false
}
