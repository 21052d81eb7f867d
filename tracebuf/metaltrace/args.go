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

// config notes what a command writes of its program's configuration and arguments.
func (m *l1Memory) config(c cq.DispatchCommand, at int) error {
	switch c := c.(type) {
	case cq.SetWriteOffset:
		m.base = c.Offsets[1]
	case cq.WritePacked:
		start := 0
		for i := 0; i < len(c.Cores) && c.OffsetIndex == 1; i++ {
			on, ok := coreOf(m.layout, c.Cores[i])
			if end := start + int(c.Size); ok && end <= len(c.Data) {
				m.note(l1Write{on, uint64(m.base) + uint64(c.Addr), c.Data[start:end], at + start})
			}
			if !c.NoStride {
				start += cq.SlotStride(int(c.Size))
			}
		}
	case cq.WritePackedLarge:
		if c.OffsetIndex == 1 {
			return m.large(&c, m.base, c.Data, at)
		}
	}
	return nil
}

func (m *l1Memory) words(core chip.XY, r region) []uint32 {
	var out []uint32
	for addr := r.start; addr+4 <= r.end; addr += 4 {
		i := m.find(core, addr, 4)
		if i < 0 {
			break
		}
		out = append(out, binary.LittleEndian.Uint32(m.writes[i].data[addr-m.writes[i].addr:]))
	}
	return out
}
