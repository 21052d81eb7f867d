package tracebuf

import (
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
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
