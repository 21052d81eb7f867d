package tracebuf

import (
	"fmt"
	"maps"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

func (w *walker) launches(at int, c *cq.WritePacked) error {
	size, stride := int(c.Size), cq.SlotStride(int(c.Size))
	if c.NoStride {
		stride = 0
	}
	one := func(i int, x0, y0, x1, y1 uint8) error {
		if i*stride+size > len(c.Data) {
			return w.fail(at, "%d launch messages in %d B", i+1, len(c.Data))
		}
		m := c.Data[i*stride:][:size]
		if err := w.launch(at, m); err != nil {
			return err
		}
		for x, y := range w.reached(x0, y0, x1, y1) {
			if err := w.launched(at, m, x, y); err != nil {
				return err
			}
		}
		return nil
	}
	for i, xy := range c.Cores {
		x, y, _ := w.im.Layout.SplitXY(xy)
		if err := one(i, x, y, x, y); err != nil {
			return err
		}
	}
	for i, r := range c.Rects {
		x0, y0, x1, y1, _ := w.im.Layout.SplitRect(r.NOC)
		if err := one(i, x0, y0, x1, y1); err != nil {
			return err
		}
	}
	return nil
}

// launched checks that the trace has written what a launch message names: kernels, in this step or
// before, and the configuration of circular buffers, in this step.
func (w *walker) launched(at int, m []byte, x, y uint8) error {
	l := &w.target.layout().Launch
	base, enables := le.Uint32(m[l.ConfigBase:]), le.Uint32(m[l.Enables:])
	for p := range chip.Processor(chip.NumProcessors) {
		if enables>>p&1 == 0 {
			continue
		}
		start := base + le.Uint32(m[l.Text+4*uint32(p):])
		end := start + cq.L1Align
		if p == chip.NCRISC && w.target.layout().Boot.IRAMSize > 0 {
			end = start + 16*uint32(le.Uint16(m[l.NCRISCSize:]))
		}
		t, ok := w.textAt(x, y, start, end)
		if !ok {
			return w.fail(at, "a launch message has %v's kernel at %#x of (%d,%d), where the trace has written none", p, start, x, y)
		}
		w.use(t.start, t.end)
	}
	cbs := base + uint32(le.Uint16(m[l.Circular:]))
	for i := range uint32(l.CircularBuffers) {
		start := cbs + 16*i
		if m[l.CBMask+i/8]>>(i%8)&1 != 0 && !slices.ContainsFunc(w.config, func(t text) bool { return t.holds(x, y, start, start+16) }) {
			return w.fail(at, "a launch message has circular buffer %d at %#x of (%d,%d), where its program has written nothing", i, start, x, y)
		}
	}
	return nil
}

func (w *walker) launch(at int, m []byte) error {
	layout := w.target.layout()
	l := &layout.Launch
	base := le.Uint32(m[l.ConfigBase:])
	if base != w.offsets[1] {
		return w.fail(at, "a launch message has its program at %#x, which was written to %#x", base, w.offsets[1])
	}
	mode, noc, remote, preload := m[l.Mode], m[l.NOC], int(m[l.FirstRemote]), m[l.Preload]
	if mode != 0 || noc > 1 || remote > l.CircularBuffers || preload&^0x80 != 0 {
		return w.fail(at, "a launch message with mode %d, NoC %d, remote circular buffers from %d on and preload %#x, want 0, 0 or 1, at most %d, 0 or 0x80", mode, noc, remote, preload, l.CircularBuffers)
	}
	if w.target.Layout == "" && remote != l.CircularBuffers {
		return w.fail(at, "a launch message with remote circular buffers from %d on, of which this runtime has none", remote)
	}
	// The vendor's firmware lets kernels share both NoCs, which this runtime's doesn't.
	switch mode := m[l.NOCMode]; {
	case mode > 1, mode == 1 && w.target.Layout == "":
		return w.fail(at, "a launch message with NoC mode %d, want 0, each data movement processor has a NoC of its own", mode)
	case w.target.Layout == "" && (m[l.Origin] != 0 || m[l.Origin+1] != 0):
		return w.fail(at, "a launch message with its origin at core (%d,%d), want (0,0)", m[l.Origin], m[l.Origin+1])
	}
	enables := le.Uint32(m[l.Enables:])
	if enables == 0 || enables>>chip.NumProcessors != 0 {
		return w.fail(at, "a launch message starts processors %#b, there are %d", enables, chip.NumProcessors)
	}
	for p := range chip.Processor(chip.NumProcessors) {
		if enables>>p&1 == 0 {
			continue
		}
		text := base + le.Uint32(m[l.Text+4*uint32(p):])
		if text%cq.L1Align != 0 || !w.inKernelMemory(text, 1) {
			return w.fail(at, "a launch message has %v's kernel at %#x, kernels are at multiples of 16 from %#x up to %#x", p, text,
				w.l1.KernelConfig, w.l1.KernelEnd())
		}
		if size := 16 * uint32(le.Uint16(m[l.NCRISCSize:])); p == chip.NCRISC && layout.Boot.IRAMSize > 0 &&
			(size > layout.Boot.IRAMSize || !w.inKernelMemory(text, size)) {
			return w.fail(at, "a launch message has %d B of NCRISC's kernel at %#x, its instruction RAM has %d B, and kernel memory ends at %#x",
				size, text, layout.Boot.IRAMSize, w.l1.KernelEnd())
		}
		for _, off := range []uint32{0, 2} {
			if args := le.Uint16(m[l.Args+4*uint32(p)+off:]); args != noArgs && (args%4 != 0 || !w.inKernelMemory(base, uint32(args))) {
				return w.fail(at, "a launch message has %v's arguments at offset %#x of %#x", p, args, base)
			}
		}
	}
	last := 0
	for i := range l.CircularBuffers {
		if m[int(l.CBMask)+i/8]>>(i%8)&1 != 0 {
			last = i + 1
		}
	}
	sems, cbs := le.Uint16(m[l.Semaphores:]), le.Uint16(m[l.Circular:])
	if sems%4 != 0 || cbs%4 != 0 || !w.inKernelMemory(base, uint32(sems)) || !w.inKernelMemory(base, uint32(cbs)+16*uint32(last)) {
		return w.fail(at, "a launch message has semaphores at offset %#x and %d circular buffers at %#x of %#x, kernel memory ends at %#x", sems,
			last, cbs, base, w.l1.KernelEnd())
	}
	return nil
}

func (w *walker) inKernelMemory(addr, n uint32) bool {
	return addr >= w.l1.KernelConfig && uint64(addr)+uint64(n) <= uint64(w.l1.KernelEnd())
}

// noArgs is the offset of an empty block of arguments. Source: tt-metal rta_constants.h.
const noArgs = 0xFFFF

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

// lane is the workers that go signals of one kind start, and what a trace has done there: a
// sub-device, or without sub-devices all workers of the queue.
type lane struct {
	sub     uint8
	rects   []cq.Rect // of a branch
	workers int
	runs    int
	flight  flight
	texts   []text // written so far
}

// divide makes the walker's lanes.
func (w *walker) divide() error {
	t := w.target
	w.subs = w.im.stepSubDevices()
	if t.SubDevices == nil {
		w.lanes = []lane{{workers: t.Workers.Size()}}
		w.lane = &w.lanes[0]
		return nil
	}
	if len(w.peers) > 0 || w.im.HasControl() {
		return invalid("sub-devices", "the trace has parts on other queues or control flow, which go with all workers only")
	}
	of, n, err := chip.Divide(t.Workers, cq.MaxSubDevices, t.SubDevices)
	if err != nil {
		return &FileError{Part: "sub-devices", What: err.Error(), Err: ErrInvalid}
	}
	w.of = of
	for i, n := range n {
		w.lanes = append(w.lanes, lane{sub: uint8(i), workers: n})
	}
	w.lane = &w.lanes[0]
	return nil
}

// enterLane makes the lane of the present step the walker's.
func (w *walker) enterLane(at int) error {
	if w.step >= len(w.im.Steps) {
		return nil
	}
	sub, control := int(w.subs[w.step]), w.im.Steps[w.step].Control.Kind != flow.None
	if control {
		sub = 0
	}
	if sub >= len(w.lanes) || sub == 0 && !control && w.of != nil && w.target.SubDevices == nil {
		return w.fail(at, "step %d starts none of the %d sub-devices", w.step, len(w.lanes))
	}
	w.lane = &w.lanes[sub]
	return nil
}

// stepSubDevices returns the sub-device that each step's last go signal starts.
func (im *Image) stepSubDevices() []uint8 {
	out, step := make([]uint8, len(im.Steps)), 0
	for at, c := range im.goSignals {
		for step+1 < len(im.Steps) && im.Steps[step+1].Offset <= at {
			step++
		}
		out[step] = c.Multicast
	}
	return out
}

// goSignals yields the go signals with their offsets.
func (im *Image) goSignals(yield func(at int, c cq.SendGoSignal) bool) {
	for e := range cq.All(im.Layout, im.Bytes[:im.Size]) {
		for r := range e.Relayed {
			if h, ok := r.Command.(cq.ForwardSubordinate); ok {
				r.At, r.Command = r.At+cq.AtForwarded, h.Command
			}
			if c, ok := r.Command.(cq.SendGoSignal); ok && !yield(r.At, c) {
				return
			}
		}
	}
}

// RunsOf returns how many programs the trace runs on each sub-device, in the order of Target's
// SubDevices, or on all workers.
func (im *Image) RunsOf(t *Target) []int {
	if t.SubDevices == nil {
		return []int{im.Counted()}
	}
	out := make([]int, len(t.SubDevices))
	for _, sub := range im.stepSubDevices() {
		if int(sub) < len(out) {
			out[sub]++
		}
	}
	return out
}

// StateAfter is the completion count and the slot of the next launch message after a valid trace,
// as 32-bit words, of each sub-device or of all workers.
func (im *Image) StateAfter(t *Target) []byte {
	var out []byte
	workers := []int{t.Workers.Size()}
	if t.SubDevices != nil {
		_, workers, _ = chip.Divide(t.Workers, cq.MaxSubDevices, t.SubDevices)
	}
	for i, runs := range im.RunsOf(t) {
		out = le.AppendUint32(out, uint32(runs*workers[i]))
		out = le.AppendUint32(out, uint32(runs)%t.layout().L1.LaunchEntries)
	}
	return out
}
