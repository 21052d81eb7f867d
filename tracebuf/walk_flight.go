package tracebuf

import (
	"fmt"
	"maps"
	"slices"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// flight is what may still be running on the workers at a command of a trace.
type flight struct {
	ended int
	busy  []memory
}

type memory struct {
	run        int
	start, end uint32
}

func (f *flight) meet(o *flight) {
	f.ended = min(f.ended, o.ended)
	for _, m := range o.busy {
		f.use(m)
	}
}

func (f *flight) use(m memory) {
	if !slices.Contains(f.busy, m) {
		f.busy = append(f.busy, m)
	}
}

func (f *flight) landed(n int) {
	f.ended = max(f.ended, n)
	f.busy = slices.DeleteFunc(f.busy, func(m memory) bool { return m.run < f.ended })
}

// text is a place of kernels in the kernel-config memory of a rectangle of cores.
type text struct {
	x0, y0, x1, y1 uint8
	start, end     uint32
}

func (t *text) holds(x, y uint8, start, end uint32) bool {
	return t.x0 <= x && x <= t.x1 && t.y0 <= y && y <= t.y1 && t.start <= start && end <= t.end
}

// writes checks that a write is to kernel memory, and changes nothing that an earlier program may
// still use.
func (w *walker) writes(at int, name fmt.Stringer, index int, addr, n uint32) error {
	if err := w.kernelConfig(at, name, index, addr, n); err != nil {
		return err
	}
	start := w.offsets[index] + addr
	for _, m := range w.flight.busy {
		if m.run < w.runs && m.start < start+n && start < m.end {
			return w.fail(at, "%s of %d B at %#x, where program %d of the trace may still have its kernels or arguments: no WAIT before it is for that program", name, n, start, m.run)
		}
	}
	if w.im.Steps[w.step].Program != NoProgram {
		w.use(start, start+n)
	}
	return nil
}

func (w *walker) use(start, end uint32) { w.flight.use(memory{w.runs, start, end}) }

func (w *walker) brings(c *cq.WritePackedLarge) {
	for _, s := range c.Subs {
		x0, y0, x1, y1, _ := w.im.Layout.SplitRect(s.NOC)
		start := w.offsets[c.OffsetIndex] + s.Addr
		t := text{x0, y0, x1, y1, start, start + s.Length}
		if c.OffsetIndex == 1 {
			w.config = append(w.config, t)
			continue
		}
		w.placed(t)
	}
}

func (w *walker) placed(ts ...text) {
	for _, t := range ts {
		w.texts = append(slices.DeleteFunc(w.texts, func(o text) bool { return o == t }), t)
	}
}

func (w *walker) textAt(x, y uint8, start, end uint32) (text, bool) {
	for _, t := range slices.Backward(w.texts) {
		if t.holds(x, y, start, end) {
			return t, true
		}
	}
	return text{}, false
}

// room: a full ring of launch messages looks like an empty one.
func (w *walker) room(at int) error {
	if before := w.runs - w.flight.ended; before > int(w.l1.LaunchEntries)-2 {
		return w.fail(at, "a launch message while %d programs before it may be running, at most %d are possible: no WAIT is for them", before,
			w.l1.LaunchEntries-2)
	}
	return nil
}

func (w *walker) flies(step int) {
	if w.nest.flights == nil {
		w.nest.flights = map[int]*flight{}
	}
	if f := w.nest.flights[step]; f != nil {
		f.meet(&w.flight)
		return
	}
	w.nest.flights[step] = &flight{w.flight.ended, slices.Clone(w.flight.busy)}
}

func (w *walker) lands(dead bool) {
	f := w.nest.flights[w.step]
	if f == nil {
		return
	}
	if dead {
		w.flight = *f
	} else {
		w.flight.meet(f)
	}
	maps.DeleteFunc(w.nest.flights, func(step int, _ *flight) bool { return step <= w.step })
}
