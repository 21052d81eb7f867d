package optimize

import (
	"bytes"
	"cmp"
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

// phase is what is written before a command that waits or signals.
type phase struct {
	writes map[uint32][]write // by tile
	relays [][]byte           // writes whose data come from DRAM, in order
	end    cq.DispatchCommand
}

type write struct {
	addr uint32
	data []byte
}

func effects(im *tracebuf.Image, step int, ch *chip.Chip) ([]phase, error) {
	s := &im.Steps[step]
	if s.Program == tracebuf.NoProgram {
		return nil, nil
	}
	out := []phase{{writes: map[uint32][]write{}}}
	var offsets [4]uint32
	var err error
	put := func(noc uint32, rect bool, addr uint32, data []byte) {
		last := out[len(out)-1].writes
		if !rect {
			last[noc] = append(last[noc], write{addr, data})
			return
		}
		x0, y0, x1, y1, _ := im.Layout.SplitRect(noc)
		for y := y0; y <= y1; y++ {
			for x := x0; x <= x1; x++ {
				if _, ok := ch.Logical(chip.XY{X: x, Y: y}); ok {
					one := im.Layout.NOCXY(x, y)
					last[one] = append(last[one], write{addr, data})
				}
			}
		}
	}
	relay := func(b []byte) { p := &out[len(out)-1]; p.relays = append(p.relays, b) }
	end := func(c cq.DispatchCommand) {
		out[len(out)-1].end = c
		out = append(out, phase{writes: map[uint32][]write{}})
	}
	for e, wrong := range cq.All(im.Layout, im.Bytes[s.Offset:s.Offset+s.Size]) {
		if err = cmp.Or(err, wrong); err != nil {
			return nil, err
		}
		if _, _, ok := e.Dispatch(); !ok {
			relay(e.Raw)
			continue
		}
		for r := range e.Relayed {
			switch c := r.Command.(type) {
			case cq.SetWriteOffset:
				copy(offsets[:], c.Offsets[:c.Count])
			case cq.Wait:
				if c.Flags != 0 {
					end(c)
				}
			case cq.ForwardSubordinate:
				end(cq.NotifySubordinate{Wait: c.Wait, Mask: 1})
				end(c.Command)
			case cq.WritePacked:
				if r.Header {
					relay(fmt.Append(nil, offsets, c))
					break
				}
				addr := c.Addr + offsets[c.OffsetIndex]
				for i, xy := range c.Cores {
					put(xy, false, addr, c.Slot(i)[:c.Size])
				}
				for i, rect := range c.Rects {
					put(rect.NOC, true, addr, c.Slot(i)[:c.Size])
				}
			case cq.WritePackedLarge:
				if r.Header {
					relay(fmt.Append(nil, offsets, c))
					break
				}
				data := c.Data
				for _, sub := range c.Subs {
					put(sub.NOC, true, sub.Addr+offsets[c.OffsetIndex], data[:sub.Length])
					data = data[min(len(data), (int(sub.Length)+int(c.Alignment)-1)&^(int(c.Alignment)-1)):]
				}
			default:
				end(c)
			}
		}
	}
	return out, nil
}

func (p *phase) differs(o *phase) string {
	if a, b := fmt.Sprintf("%T %v", p.end, p.end), fmt.Sprintf("%T %v", o.end, o.end); a != b {
		return fmt.Sprintf("%s, not %s", b, a)
	}
	if !slices.EqualFunc(p.relays, o.relays, bytes.Equal) {
		return "it relays something else from DRAM"
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
