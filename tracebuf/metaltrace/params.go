package metaltrace

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
)

// ErrArgument: a runtime argument can't be a parameter.
var ErrArgument = errors.New("it can't be a parameter")

// Argument names a runtime argument of a kernel, on one core or on all that run it. Arguments of
// one name are one parameter: they have one value in the trace, and change together.
type Argument struct {
	Name      string // of the parameter
	Step      int    // that runs the program
	Processor chip.Processor
	Kernel    string // "" for all kernels of the processor
	Index     int    // among the common ones if Common is set
	Common    bool
	Core      chip.XY // virtual; zero for all cores
	Buffer    string  // empty for a value
}

// An ArgumentError says why an argument can't be a parameter. It matches ErrArgument.
type ArgumentError struct {
	Argument Argument
	Why      string
}

func (e *ArgumentError) Error() string {
	kind := "argument"
	if e.Argument.Common {
		kind = "common argument"
	}
	return fmt.Sprintf("metaltrace: parameter %q: %s %d of program %d on %v: %s: %v", e.Argument.Name, kind, e.Argument.Index,
		e.Argument.Step, e.Argument.Processor, e.Why, ErrArgument)
}

func (e *ArgumentError) Unwrap() error { return ErrArgument }

func (a *Argument) fail(format string, args ...any) error {
	return &ArgumentError{*a, fmt.Sprintf(format, args...)}
}

func (t *Trace) params(im *tracebuf.Image, buffers []tracebuf.Buffer, args []Argument) ([]tracebuf.Param, error) {
	var patches tracebuf.Patches[int]
	writes := map[int]*l1Memory{}
	for i := range args {
		a := &args[i]
		kind, of := tracebuf.Arg, -1
		if a.Buffer != "" {
			kind = tracebuf.BufferAddr
			of = slices.IndexFunc(buffers, func(b tracebuf.Buffer) bool { return b.Name == a.Buffer })
			if of < 0 {
				return nil, a.fail("there is no buffer %q", a.Buffer)
			}
		}
		if a.Step < 0 || a.Step >= len(t.Steps) {
			return nil, a.fail("the trace has %d programs", len(t.Steps))
		}
		if a.Index < 0 {
			return nil, a.fail("arguments are counted from 0")
		}
		if writes[a.Step] == nil {
			var err error
			if writes[a.Step], err = configOf(im, &im.Steps[a.Step]); err != nil {
				return nil, err
			}
		}
		at, err := t.Steps[a.Step].argument(writes[a.Step], a)
		if err != nil {
			return nil, err
		}
		value, err := tracebuf.SameWords(im.Bytes, at)
		if err == nil && of >= 0 && uint64(value) != buffers[of].Addr {
			err = fmt.Errorf("it is %#x, buffer %q is at %#x", value, a.Buffer, buffers[of].Addr)
		}
		if err == nil {
			_, err = patches.Add(a.Name, kind, value, of, at)
		}
		if err != nil {
			return nil, a.fail("%v", err)
		}
	}
	patches.Place(im, cq.L1Align)
	var out []tracebuf.Param
	for _, p := range patches.All() {
		param := p.Param
		if p.Of >= 0 {
			param.Buffer, param.Pages = p.Of, buffers[p.Of].Pages()
		}
		out = append(out, param)
	}
	return out, nil
}

func (s *Step) argument(writes *l1Memory, a *Argument) ([]int, error) {
	var at []int
	runs := false
	for i := range s.Launches {
		l := &s.Launches[i]
		for k := range l.Kernels {
			kernel := &l.Kernels[k]
			if kernel.Processor != a.Processor || a.Kernel != "" && kernel.Name != a.Kernel {
				continue
			}
			r := kernel.args
			if a.Common {
				r = kernel.common
			}
			addr := r.start + 4*uint64(a.Index)
			for y := uint(l.Start.Y); y <= uint(l.End.Y); y++ {
				for x := uint(l.Start.X); x <= uint(l.End.X); x++ {
					core := chip.XY{X: uint8(x), Y: uint8(y)}
					if a.Core != (chip.XY{}) && core != a.Core {
						continue
					}
					runs = true
					if i := writes.find(core, addr, 4); i >= 0 && addr+4 <= r.end {
						at = append(at, writes.writes[i].at+int(addr-writes.writes[i].addr))
					} else if a.Core != (chip.XY{}) {
						return nil, a.fail("the trace writes no such argument to %v", core)
					}
				}
			}
		}
	}
	switch {
	case !runs:
		return nil, a.fail("the program starts no such kernel there")
	case len(at) == 0:
		return nil, a.fail("the trace writes no such argument")
	}
	return at, nil
}

func configOf(im *tracebuf.Image, s *tracebuf.Step) (*l1Memory, error) {
	ws := &l1Memory{layout: im.Layout}
	for e, err := range cq.All(im.Layout, im.Bytes[s.Offset:s.Offset+s.Size]) {
		inline, _ := e.Command.(cq.RelayInline)
		at := s.Offset + e.Offset + cq.HeaderSize
		switch c := inline.Command.(type) {
		case cq.WritePacked:
			at += cq.SlotStride(cq.AtPackedCore(len(c.Cores)))
		case cq.WritePackedLarge:
			at += cq.SlotStride(cq.AtLargeSub(len(c.Subs)))
		}
		if err = cmp.Or(err, ws.config(inline.Command, at)); err != nil {
			return nil, fmt.Errorf("metaltrace: %w", err)
		}
	}
	return ws, nil
}

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
