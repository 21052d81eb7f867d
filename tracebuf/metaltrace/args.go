package metaltrace

import (
	"encoding/binary"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// noArguments is the offset of an empty block of arguments in a launch message (tt-metal
// RTA_CRTA_NO_ARGS_SENTINEL).
const noArguments = 0xFFFF

// region is a part of a core's L1, [start, end); empty without arguments.
type region struct{ start, end uint64 }

// arguments end at the next part of the program's memory. All unique arguments come first, then all
// common ones, then the other parts (tt-metal finalize_rt_args). So common arguments below unique
// ones were never set, and there are no arguments where another part begins.
func (msg *message) arguments(workers *abi.Layout, p chip.Processor) (unique, common region) {
	le, at, b := binary.LittleEndian, &workers.Launch, msg.bytes
	base := uint64(le.Uint32(b[at.ConfigBase:]))
	others := []uint64{uint64(le.Uint16(b[at.Semaphores:])), uint64(le.Uint16(b[at.Circular:]))}
	var parts []uint64
	enables, lastUnique := at.Enabled(b), uint16(0)
	for q := range uint32(chip.NumProcessors) {
		if enables>>q&1 == 0 {
			continue
		}
		others = append(others, uint64(le.Uint32(b[at.Text+4*q:])))
		for _, of := range []uint32{0, 2} {
			if offset := le.Uint16(b[at.ArgsAt(chip.Processor(q))+of:]); offset != noArguments {
				parts = append(parts, uint64(offset))
				if of == 0 {
					lastUnique = max(lastUnique, offset)
				}
			}
		}
	}
	parts = append(parts, others...)
	slices.Sort(parts)
	of := func(offset uint16) region {
		if offset == noArguments || offset > 0 && slices.Contains(others, uint64(offset)) {
			return region{}
		}
		r := region{base + uint64(offset), base + noArguments}
		if i, _ := slices.BinarySearch(parts, uint64(offset)+1); i < len(parts) {
			r.end = base + parts[i]
		}
		return r
	}
	args := b[at.ArgsAt(p):]
	unique = of(le.Uint16(args))
	if offset := le.Uint16(args[2:]); offset >= lastUnique {
		common = of(offset)
	}
	return unique, common
}

type configWrite struct {
	x0, y0, x1, y1 uint8
	addr           uint64 // in L1
	data           []byte
	at             int
}

type configWrites struct {
	layout cq.Layout
	base   uint32 // write offset
	list   []configWrite
}

func (ws *configWrites) add(c cq.DispatchCommand, at int) {
	switch c := c.(type) {
	case cq.SetWriteOffset:
		ws.base = c.Offsets[1]
	case cq.WritePacked:
		if c.OffsetIndex != 1 {
			return
		}
		start := 0
		for _, xy := range c.Cores {
			x, y, ok := ws.layout.SplitXY(xy)
			if end := start + int(c.Size); ok && end <= len(c.Data) {
				ws.list = append(ws.list, configWrite{x, y, x, y, uint64(ws.base) + uint64(c.Addr), c.Data[start:end], at + start})
			}
			if !c.NoStride {
				start += cq.SlotStride(int(c.Size))
			}
		}
	case cq.WritePackedLarge:
		if c.OffsetIndex != 1 {
			return
		}
		start, align := 0, max(int(c.Alignment), 1)
		for _, s := range c.Subs {
			x0, y0, x1, y1, ok := ws.layout.SplitRect(s.NOC)
			if end := start + int(s.Length); ok && end <= len(c.Data) {
				ws.list = append(ws.list, configWrite{x0, y0, x1, y1, uint64(ws.base) + uint64(s.Addr), c.Data[start:end], at + start})
			}
			start += (int(s.Length) + align - 1) / align * align
		}
	}
}

// find returns the last write of the word at addr of a core's L1, and the word's offset in its
// data.
func (ws *configWrites) find(core chip.XY, addr uint64) (*configWrite, int) {
	for i := range slices.Backward(ws.list) {
		w := &ws.list[i]
		if w.x0 <= core.X && core.X <= w.x1 && w.y0 <= core.Y && core.Y <= w.y1 && w.addr <= addr && addr+4 <= w.addr+uint64(len(w.data)) {
			return w, int(addr - w.addr)
		}
	}
	return nil, 0
}

func (ws *configWrites) words(core chip.XY, r region) []uint32 {
	var out []uint32
	for addr := r.start; addr+4 <= r.end; addr += 4 {
		w, at := ws.find(core, addr)
		if w == nil {
			break
		}
		out = append(out, binary.LittleEndian.Uint32(w.data[at:]))
	}
	return out
}

func (s *Step) config(l cq.Layout) *configWrites {
	ws := &configWrites{layout: l}
	for i := range s.commands {
		if c := &s.commands[i]; !c.header {
			ws.add(c.cmd, 0)
		}
	}
	return ws
}
