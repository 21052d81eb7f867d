package metaltrace

import (
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// l1Memory is what a trace has written to the workers' kernel-config memory.
type l1Memory struct {
	layout cq.Layout
	writes []l1Write // oldest first
}

type l1Write struct {
	noc            uint32
	x0, y0, x1, y1 uint8
	addr           uint32
	data           []byte
}

const maxWrites = 1 << 14

func (w *l1Write) end() uint64 { return uint64(w.addr) + uint64(len(w.data)) }

func (w *l1Write) on(c chip.XY) bool { return w.x0 <= c.X && c.X <= w.x1 && w.y0 <= c.Y && c.Y <= w.y1 }

func (m *l1Memory) write(c *command, w *cq.WritePackedLarge, offsets [4]uint32) error {
	fail := func(format string, args ...any) error {
		return refuse(c.offset, w.ID().String(), ErrNotTrace, format, args...)
	}
	if int(w.OffsetIndex) >= len(offsets) {
		return fail("there is no write offset %d", w.OffsetIndex)
	}
	data := w.Data
	if c.header {
		data = nil
		for _, b := range c.blocks {
			data = append(data, b...)
		}
	}
	align := max(int(w.Alignment), 1)
	for i, s := range w.Subs {
		x0, y0, x1, y1, ok := m.layout.SplitRect(s.NOC)
		if !ok {
			return fail("%#x is no rectangle", s.NOC)
		}
		if int(s.Length) > len(data) {
			return fail("the data of entry %d are missing", i)
		}
		m.add(l1Write{s.NOC, x0, y0, x1, y1, offsets[w.OffsetIndex] + s.Addr, data[:s.Length]})
		data = data[min((int(s.Length)+align-1)/align*align, len(data)):]
	}
	return nil
}

func (m *l1Memory) add(n l1Write) {
	kept := slices.DeleteFunc(m.writes, func(w l1Write) bool { return w.noc == n.noc && w.addr >= n.addr && w.end() <= n.end() })
	if len(kept) == maxWrites {
		kept = kept[:copy(kept, kept[1:])]
	}
	m.writes = append(kept, n)
}

func (m *l1Memory) read(core chip.XY, addr uint32) []byte {
	var out []byte
	for at := uint64(addr); ; {
		i := len(m.writes) - 1
		for ; i >= 0; i-- {
			if w := &m.writes[i]; uint64(w.addr) <= at && at < w.end() && w.on(core) {
				break
			}
		}
		if i < 0 {
			return out
		}
		w := &m.writes[i]
		end := w.end()
		for k := i + 1; k < len(m.writes); k++ {
			if o := &m.writes[k]; uint64(o.addr) > at && uint64(o.addr) < end && o.on(core) {
				end = uint64(o.addr)
			}
		}
		out = append(out, w.data[at-uint64(w.addr):end-uint64(w.addr)]...)
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

func (r *ring) set(offset uint64, write bool) {
	if write {
		r.write = offset
	} else {
		r.offset = offset
	}
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
