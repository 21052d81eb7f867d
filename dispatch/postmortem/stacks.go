package postmortem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/internal/debug/live"
	"github.com/reprise-tt/reprise/kernels/print"
)

const stackPatience = 250 * time.Millisecond

// dumpStacks takes the call stacks of the queue's busy workers, or of all busy workers, then those
// of the queue's own cores. All processors are paused for that.
func (m *Machine) dumpStacks(dump *Dump, h *Hang) {
	all := dump.busyWorkers()
	if own := among(all, h.Workers); len(own) > 0 {
		all = own
	}
	if len(all) > mostStacks {
		dump.StacksNote = fmt.Sprintf("those of %d of %d busy workers", mostStacks, len(all))
		all = all[:mostStacks]
	}
	var places []live.Place
	add := func(c chip.Core, l *abi.Layout) {
		xy, err := m.Chip.Virtual(c)
		if err != nil {
			return
		}
		for p := range chip.Processor(chip.NumProcessors) {
			if has, err := live.HasKernel(l, m.reader(c), p); err == nil && (has || p == chip.BRISC) {
				places = append(places, live.Place{Core: c, XY: xy, Processor: p})
			}
		}
	}
	for _, c := range all {
		add(c, m.Workers)
	}
	workers := len(places)
	for _, c := range m.Queues[h.Queue] {
		add(c, m.Others)
	}
	stacks, err := live.Take(context.Background(), m.Device, places, stackPatience)
	switch {
	case errors.Is(err, core.ErrUnsupported):
		dump.StacksNote = "none, and no program counters: the device has no debug interface"
	case err != nil:
		dump.StacksNote = "none: " + err.Error()
	}
	kernels := &live.Catalogue{}
	if !m.Foreign {
		_ = kernels.AddQueueKernels(m.Chip.Arch())
	}
	for i := range stacks {
		s := &stacks[i]
		known, l := kernels, m.Others
		if i < workers {
			known, l = catalogue(h.Loaded, s), m.Workers
		}
		if _, err := known.Unwind(s, l, m.reader(s.Core)); err != nil {
			s.Note = err.Error()
		}
	}
	dump.Stacks = stacks
}

func (m *Machine) reader(c chip.Core) live.Reader {
	return func(addr uint32, p []byte) error { return m.Read(c, addr, p) }
}

func catalogue(loaded []*program.Loaded, s *live.Snapshot) *live.Catalogue {
	c := &live.Catalogue{}
	for _, of := range loaded {
		for i := range of.Kernels {
			if k := &of.Kernels[i]; k.Processor == s.Processor && slices.Contains(k.Cores, s.Core) {
				c.AddText(of.Program+"/"+k.Name, k.Text, k.File)
			}
		}
	}
	return c
}

// Symbolize renews the call stacks of processors whose kernel, as the dump has it, is in the
// catalogue, and returns their number. The error is that of a dump without the memory that this
// takes.
func (d *Dump) Symbolize(c *live.Catalogue) (n int, err error) {
	arch, err := chip.ParseArch(d.Arch)
	if err != nil {
		return 0, fmt.Errorf("dispatch: call stacks of a dump: %w", err)
	}
	for i := range d.Stacks {
		s := d.Stacks[i]
		l := abi.Own(arch)
		if name := d.core(s.Core).Firmware; name != "" {
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

func (p *dumpPrinter) stacks() {
	var workers, queue []live.Snapshot
	for _, s := range p.d.Stacks {
		if k := p.d.core(s.Core).Kind; k == Prefetch || k == Dispatch {
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

func (p *dumpPrinter) alikeStacks(stacks []live.Snapshot) {
	for _, g := range alike(stacks, func(s live.Snapshot) string { return callers(&s.Stack) }) {
		var of []string
		for _, s := range g {
			of = append(of, fmt.Sprintf("%v %v", s.Core, s.Processor))
		}
		const shown = 8
		if more := len(of) - shown; more > 1 {
			of = append(of[:shown], fmt.Sprintf("%d more", more))
		}
		p.printf("  %s%s", strings.Join(of, ", "), stackText(&g[0].Stack))
	}
}

// alike groups values of one key, in the order of the first ones.
func alike[T any, K comparable](all []T, key func(T) K) (groups [][]T) {
	index := map[K]int{}
	for _, v := range all {
		k := key(v)
		i, ok := index[k]
		if !ok {
			i, index[k] = len(groups), len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], v)
	}
	return groups
}

// callers is what equal stacks have in common: a processor that polls is at one of a few
// instructions.
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

func stackText(s *live.Stack) string {
	var b strings.Builder
	if s.Note != "" {
		fmt.Fprintf(&b, " (%s)", s.Note)
	}
	b.WriteByte('\n')
	for i, f := range s.Frames {
		fmt.Fprintf(&b, "    #%d %s\n", i, print.Printable(f.String())) // names come from a file
	}
	return b.String()
}
