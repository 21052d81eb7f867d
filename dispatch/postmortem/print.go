package postmortem

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// Print writes the dump as text: the queues' pointers and commands, and every core that is not
// idle.
func (d *Dump) Print(w io.Writer) error {
	p := &dumpPrinter{d: d, w: bufio.NewWriter(w)}
	p.head()
	for i := range d.Queues {
		p.queue(&d.Queues[i])
	}
	if len(d.Watch) > 0 {
		p.printf("\nchecks that failed:\n")
	}
	for i := range d.Watch {
		p.printf("  %v\n", &d.Watch[i])
	}
	p.workers()
	p.stacks()
	if len(d.Prints) > 0 {
		p.printf("\nprinted by busy workers:\n")
	}
	for _, r := range d.Prints {
		p.printf("  %10d %v\n", r.Time, r)
	}
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("dispatch: print dump: %w", err)
	}
	return nil
}

type dumpPrinter struct {
	d *Dump
	w *bufio.Writer
}

func (p *dumpPrinter) printf(format string, a ...any) { fmt.Fprintf(p.w, format, a...) }

func (p *dumpPrinter) layout() cq.Layout {
	if p.d.Arch == chip.Wormhole.String() {
		return cq.Wormhole
	}
	return cq.Blackhole
}

func (p *dumpPrinter) head() {
	d := p.d
	p.printf("%s (%s) at %s: queue %d waited for %s; last submitted: %s\n", d.Target, d.Arch, d.Time.Format("2006-01-02 15:04:05 MST"),
		d.Queue, d.Waiting, d.Last)
	p.printf("cause: %s\n", d.Cause)
	if d.Unreachable != "" {
		p.printf("nothing could be read from the device: %s\n", d.Unreachable)
	}
}

func (p *dumpPrinter) queue(q *QueueDump) {
	p.printf("\nqueue %d, last submitted: %s\n", q.ID, q.Last)
	h, r := &q.Host, &q.Device
	if q.Busy {
		p.printf("  another goroutine was putting commands into it at that moment\n")
	} else {
		p.printf("  prefetch queue    %d of %d entries taken; next to be written at %#x%s\n", h.FetchTaken, h.FetchPut, h.FetchNext,
			p.seen(r, ", taken last at %#x", r.FetchRead))
		p.printf("  issue ring        host writes at %#x of %#x%s\n", h.IssueWrite, h.IssueSize,
			p.seen(r, ", device has read up to NoC address %#x", r.IssueRead))
	}
	p.printf("  completion queue  host at %s, device says %s in host memory%s; %d pages taken out\n", ringPointer(h.CompletionRd),
		ringPointer(h.CompletionWr),
		p.seen(r, " and %s in its own, where the host's is %s", ringPointer(r.CompletionWr), ringPointer(r.CompletionRd)), h.Pages)
	p.printf("  expected          %s\n", orNothing(q.Pending))
	if r.Read {
		p.rings(q)
	}
	for _, c := range p.d.Cores {
		if c.Unreadable == "" && (c.Core == q.Prefetch || c.Core == q.Dispatch) {
			p.core(c)
		}
	}
	p.entries(q)
	if r.Read {
		p.ring(q, RegionDispatchRing, memmap.PageSize, r.DispatchCredits-memmap.DispatchPages, r.DispatchPages, chip.BRISC,
			cq.Master)
		p.ring(q, RegionSubordinateRing, memmap.SubordinatePageSize, r.SubordinateCredits-memmap.SubordinatePages, r.SubordinatePages,
			chip.NCRISC, cq.Subordinate)
		p.trace(q)
	}
}

func (p *dumpPrinter) rings(q *QueueDump) {
	r := &q.Device
	p.printf("  dispatch ring     %d pages published, %d returned\n", r.DispatchPages, r.DispatchCredits-memmap.DispatchPages)
	p.printf("  subordinate ring  %d pages published, %d returned\n", r.SubordinatePages, r.SubordinateCredits-memmap.SubordinatePages)
	p.printf("  completions       %d of workers expected by the host", q.Host.Expected)
	for i, v := range r.Streams {
		if v != 0 || i == 0 {
			p.printf("; stream %d counts %d", r.FirstStream+i, v)
		}
	}
	p.printf(" (modulo %#x)\n", 1<<chip.StreamCounterBits)
	for _, l := range r.Loops {
		p.printf("  in a loop         %v\n", l)
	}
	if len(q.Programs) > 0 {
		p.printf("  in its trace      %s\n", q.running())
	}
	p.printf("  notifications     %d for STALLs, %v for go signals; last events %v\n", r.Syncs, r.GoSyncs, r.LastEvents)
	for _, c := range []struct {
		core  chip.Core
		kind  string
		reset uint32
	}{{q.Prefetch, Prefetch, r.PrefetchReset}, {q.Dispatch, Dispatch, r.DispatchReset}} {
		if held := heldProcessors(c.reset); len(held) > 0 {
			p.printf("  core %v (%s): held in reset: %s\n", c.core, c.kind, strings.Join(held, ", "))
		}
	}
}

func heldProcessors(reset uint32) (held []string) {
	if reset == ^uint32(0) {
		return nil // unreadable
	}
	for p := range chip.Processor(chip.NumProcessors) {
		if reset&p.ResetBit() != 0 {
			held = append(held, p.String())
		}
	}
	return held
}

func (p *dumpPrinter) seen(r *DeviceRings, format string, a ...any) string {
	if !r.Read {
		return ""
	}
	return fmt.Sprintf(format, a...)
}

func ringPointer(v uint32) string {
	if v&memmap.ToggleBit != 0 {
		return fmt.Sprintf("%#x+toggle", v&^memmap.ToggleBit)
	}
	return fmt.Sprintf("%#x", v)
}

func orNothing(s []string) string {
	const shown = 8
	switch {
	case len(s) == 0:
		return "no report"
	case len(s) > shown:
		return fmt.Sprintf("%s and %d more", strings.Join(s[:shown], ", "), len(s)-shown)
	}
	return strings.Join(s, ", ")
}

// The prefetcher works on the entry taken last or on the one before.
func (p *dumpPrinter) entries(q *QueueDump) {
	for _, e := range q.Entries {
		state := "waiting"
		if e.Taken {
			state = "taken"
			if e.Number+1 == q.Host.FetchTaken {
				state = "taken last"
			}
		}
		p.printf("  entry %d (%s), %d B at %#x of the issue ring:\n", e.Number, state, e.Size, e.Offset)
		for _, r := range p.d.Regions {
			if r.Name == RegionIssue && r.Core == q.Prefetch && r.Addr == uint64(e.Offset) && r.Size == int(e.Size) {
				p.commands(r.Data, "    ")
				break
			}
		}
	}
	if left := q.Host.FetchPut - min(q.Host.FetchPut, q.Host.FetchTaken+ShownWaiting); left > 0 && !q.Busy {
		p.printf("  and %d entries more\n", left)
	}
}

func (p *dumpPrinter) commands(b []byte, indent string) {
	var s strings.Builder
	_ = cq.Print(&s, p.layout(), b)
	for line := range strings.Lines(s.String()) {
		p.printf("%s%s", indent, line)
	}
}

// Readers release pages in blocks and late, so most of the commands have been executed.
func (p *dumpPrinter) ring(q *QueueDump, name string, page int, back, published uint32, proc chip.Processor, to cq.Dispatcher) {
	r, ok := p.d.Region(name, q.Dispatch)
	if !ok || len(r.Data) < page {
		return
	}
	pages := uint32(len(r.Data) / page)
	n := published - back
	if n > pages {
		p.printf("  %s: %d pages lie between what was published and returned, it has %d: one of the words was overwritten\n", name, n, pages)
		return
	}
	state := p.d.core(q.Dispatch)
	stopped := func(word uint32) bool {
		_, bad := placesOf("stop")[state.Processors[proc].Waypoint]
		return bad && word == state.Processors[proc].Detail
	}
	cmds := ringCommands(r.Data, page, back%pages, n, stopped)
	at := -1
	for i, c := range cmds {
		if w, ok := c.command.(cq.Wait); c.command == nil || ok && waitsAt(state.Processors[proc], w) {
			at = i
		}
	}
	if len(cmds) > 0 {
		p.printf("  %s, newest commands last (%v %s):\n", name, proc, state.Explain(proc))
	}
	const shown, after = 12, 5
	last := len(cmds)
	if at >= 0 {
		last = min(last, at+after)
	}
	first := max(0, last-shown)
	if first > 0 {
		p.printf("    ... %d before\n", first)
	}
	for i, c := range cmds[first:last] {
		if c.command == nil {
			p.printf("    page %3d  ? %#08x  <- stopped here\n", c.page, state.Processors[proc].Detail)
			continue
		}
		line := cq.Line(p.layout(), cq.RelayInline{Command: c.command, To: to})
		p.marked(fmt.Sprintf("page %3d  %s", c.page, line), first+i == at)
	}
	if last < len(cmds) {
		p.printf("    ... %d more\n", len(cmds)-last)
	}
}

func waitsAt(s ProcessorState, w cq.Wait) bool {
	switch s.Waypoint {
	case "WRKR":
		return w.Flags&cq.WaitStream != 0 && s.Detail == uint32(w.Stream)<<24|w.Count&0xFFFFFF
	case "WMEM":
		return w.Flags&cq.WaitMemory != 0 && s.Detail == w.Addr
	}
	return false
}

func (p *dumpPrinter) trace(q *QueueDump) {
	r, ok := p.d.Region(RegionTrace, q.Prefetch)
	if !ok {
		return
	}
	state := p.d.core(q.Dispatch)
	var lines []string
	at := -1
	for e, err := range cq.All(p.layout(), r.Data) {
		if err != nil || e.Command == nil {
			break
		}
		if c, _, ok := e.Dispatch(); !ok || c.ID() != cq.DispatchSequence {
			lines = append(lines, fmt.Sprintf("%08x  %s", e.Offset, cq.Line(p.layout(), e.Command)))
		}
		for r := range e.Relayed {
			if c, _, _ := e.Dispatch(); c.ID() == cq.DispatchSequence {
				lines = append(lines, fmt.Sprintf("%08x  %s", r.At, cq.Line(p.layout(), cq.RelayInline{To: r.To, Command: r.Command})))
			}
			if wait, ok := r.Command.(cq.Wait); ok && r.To == cq.Master && at < 0 && waitsAt(state.Processors[chip.BRISC], wait) {
				at = len(lines) - 1
			}
		}
	}
	p.printf("  the trace that was replayed last has %d commands in %d B\n", len(lines), r.Size)
	if at < 0 {
		return
	}
	const around = 3
	p.printf("  if it is the one that runs, the dispatcher is in it at:\n")
	for i := max(0, at-around); i < min(len(lines), at+around+1); i++ {
		p.marked(lines[i], i == at)
	}
}

func (p *dumpPrinter) marked(line string, waits bool) {
	if waits {
		line += "  <- waits here"
	}
	p.printf("    %s\n", line)
}

func (p *dumpPrinter) workers() {
	if p.d.Unreachable != "" {
		return
	}
	var busy []CoreState
	idle := 0
	for _, c := range p.d.Cores {
		switch {
		case c.Kind != Worker:
		case c.Busy():
			busy = append(busy, c)
		default:
			idle++
		}
	}
	p.printf("\n%d workers are idle\n", idle)
	type state struct {
		message    uint32
		processors [chip.NumProcessors]ProcessorState
		unreadable string
	}
	for _, g := range alike(busy, func(c CoreState) state { return state{c.Go, c.Processors, c.Unreadable} }) {
		if len(g) > 1 {
			p.printf("%d cores alike:", len(g))
			for _, c := range g {
				p.printf(" %v", c.Core)
			}
			p.printf("\n")
		}
		p.core(g[0])
	}
}

func (p *dumpPrinter) core(c CoreState) {
	if c.Unreadable != "" {
		p.printf("  %v\n", c)
		return
	}
	p.printf("  core %v (%s): go message %#08x, launch message %d\n", c.Core, c.Kind, c.Go, c.LaunchRead)
	for i := range c.Processors {
		at := &c.Processors[i]
		p.printf("    %-7v %-4s after %d kernels: %s\n", chip.Processor(i), at.Waypoint, at.Kernels, c.Explain(chip.Processor(i)))
		if at.Engine != "" {
			p.printf("            its engines: %s\n", at.Engine)
		}
	}
}

type ringCommand struct {
	page    uint32
	command cq.DispatchCommand // nil if unreadable
}

// ringCommands finds the commands in n pages of a ring. They begin at pages, but the first page may
// be the middle of one: pages that don't begin like a command are skipped unless keep wants their
// first word.
func ringCommands(ring []byte, page int, first, n uint32, keep func(word uint32) bool) []ringCommand {
	pages := uint32(len(ring) / page)
	flat := make([]byte, 0, int(n)*page)
	for i := range n {
		at := int((first+i)%pages) * page
		flat = append(flat, ring[at:at+page]...)
	}
	var out []ringCommand
	for at := 0; at < len(flat); {
		cmds, size := ringPage(flat[at:], keep)
		for _, c := range cmds {
			out = append(out, ringCommand{page: (first + uint32(at/page)) % pages, command: c})
		}
		at += max(1, (size+page-1)/page) * page
	}
	return out
}

// ringPage reads the command or sequence at the start of b. An unreadable command that is kept is
// nil and the last one.
func ringPage(b []byte, keep func(word uint32) bool) (cmds []cq.DispatchCommand, size int) {
	left := 1
	if cq.DispatchID(b[0]) == cq.DispatchSequence {
		left, size = int(binary.LittleEndian.Uint16(b[cq.AtSequenceCount:])), cq.HeaderSize
	}
	for ; left > 0; left-- {
		size = cq.SlotStride(size)
		if len(b) < size+cq.HeaderSize {
			break
		}
		c, n := cq.ReadDispatch(b[size:])
		if c == nil && !keep(binary.LittleEndian.Uint32(b[size:])) {
			break
		}
		cmds, size = append(cmds, c), size+n
		if c == nil {
			break
		}
	}
	return cmds, size
}
