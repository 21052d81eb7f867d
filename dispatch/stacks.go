package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"weak"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/internal/debug/live"
	"github.com/reprise-tt/reprise/internal/debug/stack"
)

// stackPatience is how long a report waits for the processors that don't pause, all together.
const stackPatience = 250 * time.Millisecond

// dumpStacks takes the call stacks of busy workers: of those that the queue has or, if none of them is busy, of all. After them come
// those of the queue's own two cores. All processors are paused for that and go on.
func (q *Queue) dumpStacks(dump *Dump) {
	if dump.Unreachable != "" {
		return
	}
	d := q.d
	var own, all []chip.Core
	for i := range dump.Cores {
		if c := &dump.Cores[i]; c.Kind == kindWorker && c.Unreadable == "" && c.Busy() {
			all = append(all, c.Core)
			if q.set.cores.Contains(c.Core) {
				own = append(own, c.Core)
			}
		}
	}
	if len(own) > 0 {
		all = own
	}
	if len(all) > mostStacks {
		dump.StacksNote = fmt.Sprintf("those of %d of %d busy workers", mostStacks, len(all))
		all = all[:mostStacks]
	}
	var places []live.Place
	add := func(c chip.Core, l *abi.Layout) {
		xy, err := d.ch.Virtual(c)
		if err != nil {
			return
		}
		for p := range chip.Processor(chip.NumProcessors) {
			if has, err := live.HasKernel(l, d.reader(c), p); err == nil && (has || p == chip.BRISC) {
				places = append(places, live.Place{Core: c, XY: xy, Processor: p})
			}
		}
	}
	for _, c := range all {
		add(c, d.worker)
	}
	workers := len(places)
	for _, c := range [...]chip.Core{q.tiles.prefetch, q.tiles.dispatch} {
		add(c, d.queue)
	}
	stacks, err := live.Take(context.Background(), d.kd, places, stackPatience)
	switch {
	case errors.Is(err, core.ErrUnsupported):
		dump.StacksNote = "none, and no program counters: the device has no debug interface"
	case err != nil:
		dump.StacksNote = "none: " + err.Error()
	}
	texts, kernels := d.loadedTexts(), d.queueKernels()
	for i := range stacks {
		s := &stacks[i]
		known, l := kernels, d.queue
		if i < workers {
			known, l = texts.catalogue(s), d.worker
		}
		if _, err := known.Unwind(s, l, d.reader(s.Core)); err != nil {
			s.Note = err.Error()
		}
	}
	dump.Stacks = stacks
}

// queueKernels returns the kernels of command queues that have names: this runtime's own.
func (d *Device) queueKernels() *live.Catalogue {
	c := &live.Catalogue{}
	if d.opts.QueueFirmware == nil {
		_ = c.AddQueueKernels(d.ch.Arch()) // those that run were found there
	}
	return c
}

// reader reads L1 of a core.
func (d *Device) reader(c chip.Core) live.Reader {
	return func(addr uint32, p []byte) error { return d.read(c, addr, p) }
}

// loadedTexts are the kernels of all programs that are loaded, the oldest first.
type loadedTexts []*kernelTexts

func (d *Device) loadedTexts() (all loadedTexts) {
	type entry struct {
		id    textID
		texts *kernelTexts
	}
	var found []entry
	d.kernels.Range(func(id, v any) bool {
		if ref, ok := v.(weak.Pointer[kernelTexts]); ok {
			if texts := ref.Value(); texts != nil {
				found = append(found, entry{id.(textID), texts})
			}
		}
		return true
	})
	slices.SortFunc(found, func(a, b entry) int { return cmp.Compare(a.id, b.id) })
	for _, e := range found {
		all = append(all, e.texts)
	}
	return all
}

// catalogue returns the kernels that a processor can have.
func (t loadedTexts) catalogue(s *live.Snapshot) *live.Catalogue {
	c := &live.Catalogue{}
	for _, texts := range t {
		for i := range texts.list {
			if k := &texts.list[i]; k.processor == s.Processor && slices.Contains(k.cores, s.Core) {
				c.AddText(texts.program+"/"+k.kernel, k.text, k.file)
			}
		}
	}
	return c
}

// Symbolize makes the call stacks again with kernels of a catalogue: those of processors whose kernel, as the dump has it, is in the
// catalogue. It returns how many these are. The error is that of a dump without the memory that this takes.
func (d *Dump) Symbolize(c *live.Catalogue) (n int, err error) {
	var arch chip.Arch
	for _, a := range [...]chip.Arch{chip.Wormhole, chip.Blackhole} {
		if a.String() == d.Arch {
			arch = a
		}
	}
	if !arch.Valid() {
		return 0, fmt.Errorf("dispatch: call stacks of a dump: architecture %q doesn't exist", d.Arch)
	}
	for i := range d.Stacks {
		s := d.Stacks[i]
		l := abi.Own(arch)
		if name := d.firmwareOf(s.Core); name != "" {
			l = abi.Of(name, arch)
		}
		if l == nil {
			continue
		}
		pieces := map[uint32][]byte{}
		for _, name := range [...]string{RegionMailbox, RegionKernelConfig, RegionFirmware} {
			if r, ok := d.Region(name, s.Core); ok {
				pieces[uint32(r.Addr)] = r.Data
			}
		}
		known, err := c.Unwind(&s, l, live.MemoryOf(pieces))
		if err != nil {
			return n, fmt.Errorf("dispatch: call stacks of a dump: %w", err)
		}
		if known {
			d.Stacks[i] = s
			n++
		}
	}
	return n, nil
}

// firmwareOf returns the revision of a core's base firmware, empty for this runtime's.
func (d *Dump) firmwareOf(c chip.Core) string {
	for i := range d.Cores {
		if d.Cores[i].Core == c {
			return d.Cores[i].Firmware
		}
	}
	return ""
}

// stacks prints the call stacks.
func (p *dumpPrinter) stacks() {
	kinds := map[chip.Core]string{}
	for i := range p.d.Cores {
		kinds[p.d.Cores[i].Core] = p.d.Cores[i].Kind
	}
	var workers, queue []live.Snapshot
	for _, s := range p.d.Stacks {
		if k := kinds[s.Core]; k == kindPrefetch || k == kindDispatch {
			queue = append(queue, s)
		} else {
			workers = append(workers, s)
		}
	}
	if p.d.StacksNote != "" {
		p.printf("\ncall stacks of busy workers: %s\n", p.d.StacksNote)
	} else if len(workers) > 0 {
		p.printf("\ncall stacks of busy workers:\n")
	}
	p.alikeStacks(workers)
	if len(queue) > 0 {
		p.printf("\ncall stacks of the queue's cores:\n")
	}
	p.alikeStacks(queue)
}

// alikeStacks prints call stacks, alike ones together.
func (p *dumpPrinter) alikeStacks(stacks []live.Snapshot) {
	type group struct {
		first *live.Stack
		of    []string
	}
	var groups []*group
	byKey := map[string]*group{}
	for i := range stacks {
		s := &stacks[i]
		key := callers(&s.Stack)
		g := byKey[key]
		if g == nil {
			g = &group{first: &s.Stack}
			groups, byKey[key] = append(groups, g), g
		}
		g.of = append(g.of, fmt.Sprintf("%v %v", s.Core, s.Processor))
	}
	for _, g := range groups {
		const shown = 8
		if more := len(g.of) - shown; more > 1 {
			g.of = append(g.of[:shown], fmt.Sprintf("%d more", more))
		}
		p.printf("  %s%s", strings.Join(g.of, ", "), stackText(g.first))
	}
}

// callers is what stacks have in common that are alike: a processor that polls is at one of a few instructions of a function.
func callers(s *live.Stack) string {
	var b strings.Builder
	b.WriteString(s.Note)
	top := true
	for _, f := range s.Frames {
		switch {
		case !top:
			fmt.Fprintf(&b, "\n%v", f)
		case !f.Inlined:
			fmt.Fprintf(&b, "\n%s in %s", f.Function, f.Module)
			top = false
		}
	}
	return b.String()
}

// stackText is the note and the frames of a stack in lines.
func stackText(s *live.Stack) string {
	var b strings.Builder
	if s.Note != "" {
		fmt.Fprintf(&b, " (%s)", s.Note)
	}
	b.WriteByte('\n')
	for i, f := range s.Frames {
		fmt.Fprintf(&b, "    #%d %s\n", i, printableFrame(f))
	}
	return b.String()
}

// printableFrame is a frame without characters that a terminal would obey: its names are of a file.
func printableFrame(f stack.Frame) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7F {
			return '?'
		}
		return r
	}, f.String())
}
