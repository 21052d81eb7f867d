package metaltrace

import (
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// area is a rectangle of cores, in virtual coordinates.
type area struct{ start, end chip.XY }

func areaOf(l cq.Layout, noc uint32) (a area, ok bool) {
	a.start.X, a.start.Y, a.end.X, a.end.Y, ok = l.SplitRect(noc)
	return a, ok
}

func coreOf(l cq.Layout, noc uint32) (a area, ok bool) {
	a.start.X, a.start.Y, ok = l.SplitXY(noc)
	a.end = a.start
	return a, ok
}

func (a area) has(c chip.XY) bool {
	return a.start.X <= c.X && c.X <= a.end.X && a.start.Y <= c.Y && c.Y <= a.end.Y
}

// l1Memory is what a trace has written to the workers' kernel-config memory.
type l1Memory struct {
	layout cq.Layout
	base   uint32    // write offset of configuration
	writes []l1Write // oldest first
}

type l1Write struct {
	area
	addr uint64
	data []byte
	at   int // of the data in the commands
}

const maxWrites = 1 << 14

func (w *l1Write) end() uint64 { return w.addr + uint64(len(w.data)) }

func (m *l1Memory) command(c *command, w *cq.WritePackedLarge, offsets [4]uint32) error {
	err := fmt.Errorf("there is no write offset %d", w.OffsetIndex)
	if int(w.OffsetIndex) < len(offsets) {
		data := w.Data
		if c.header {
			data = slices.Concat(c.blocks...)
		}
		err = m.large(w, offsets[w.OffsetIndex], data, 0)
	}
	if err != nil {
		return refuse(c.offset, w.ID().String(), ErrNotTrace, "%v", err)
	}
	return nil
}

// large notes the writes of a command, whose data are at the offset at of the commands.
func (m *l1Memory) large(w *cq.WritePackedLarge, base uint32, data []byte, at int) error {
	start, align := 0, max(int(w.Alignment), 1)
	for i, s := range w.Subs {
		on, ok := areaOf(m.layout, s.NOC)
		if !ok {
			return fmt.Errorf("%#x is no rectangle", s.NOC)
		}
		end := start + int(s.Length)
		if end > len(data) {
			return fmt.Errorf("the data of entry %d are missing", i)
		}
		m.note(l1Write{on, uint64(base) + uint64(s.Addr), data[start:end], at + start})
		start += (int(s.Length) + align - 1) / align * align
	}
	return nil
}

func (m *l1Memory) note(n l1Write) {
	kept := slices.DeleteFunc(m.writes, func(w l1Write) bool { return w.area == n.area && w.addr >= n.addr && w.end() <= n.end() })
	if len(kept) == maxWrites {
		kept = kept[:copy(kept, kept[1:])]
	}
	m.writes = append(kept, n)
}

// find returns the index of the last write of n bytes at addr of a core's L1, or -1.
func (m *l1Memory) find(core chip.XY, addr, n uint64) int {
	i := len(m.writes) - 1
	for ; i >= 0; i-- {
		if w := &m.writes[i]; w.addr <= addr && addr+n <= w.end() && w.has(core) {
			break
		}
	}
	return i
}

func (m *l1Memory) read(core chip.XY, addr uint32) []byte {
	var out []byte
	for at := uint64(addr); ; {
		i := m.find(core, at, 1)
		if i < 0 {
			return out
		}
		w := &m.writes[i]
		end := w.end()
		for k := range m.writes[i+1:] {
			if later := &m.writes[i+1+k]; later.addr > at && later.addr < end && later.has(core) {
				end = later.addr
			}
		}
		out = append(out, w.data[at-w.addr:end-w.addr]...)
		at = end
	}
}

// ring is the prefetcher's cache of kernels, which tt-metal empties before each trace. Source:
// tt-metal cq_prefetch.cpp (process_paged_to_ringbuffer_cmd, process_set_ringbuffer_offset).
type ring struct {
	write  uint64
	offset uint64
	loads  []ringLoad
}

type ringLoad struct {
	at   uint64
	data []byte
}

func (l *ringLoad) end() uint64 { return l.at + uint64(len(l.data)) }

func (r *ring) load(reset bool, data []byte, advance uint64) {
	if reset {
		r.write = 0
	}
	n := ringLoad{r.write, data}
	r.loads = append(slices.DeleteFunc(r.loads, func(l ringLoad) bool { return l.end() > n.at && n.end() > l.at }), n)
	r.offset = r.write
	r.write += advance
}

func (r *ring) read(start, n uint64) (b []byte, ok bool) {
	at := r.offset + start
	for i := range r.loads {
		if l := &r.loads[i]; at >= l.at && at+n <= l.end() {
			return l.data[at-l.at : at-l.at+n], true
		}
	}
	return nil, false
}
