package tracebuf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// walker checks the commands of a trace without running them.
type walker struct {
	im     *Image
	target *Target
	ch     *chip.Chip
	l1     *abi.L1Map

	peers   []Peer
	buffers []Buffer // of the trace
	nest    nest

	*lane // of the step
	lanes []lane
	of    map[chip.Core]uint8 // sub-device of each core that is in one; nil without sub-devices
	subs  []uint8             // by step

	step     int
	recorded uint32 // recordings before it
	readTo   uint32 // end, in the next program's slot, of the arguments that it reads; 0 without any
	started  bool   // the step's go signal has been seen: nothing may follow it
	notify   bool   // the subordinate dispatcher was notified of it
	offsets  [3]uint32
	relocs   int         // seen so far
	args     []ByteRange // in order
	config   []text
}

func (w *walker) fail(at int, format string, args ...any) error {
	return invalid(where(at), "%s", fmt.Sprintf(format, args...))
}

func (w *walker) walk() error {
	im := w.im
	if err := cq.CheckTrace(im.Layout, cq.DefaultLimits(0), im.Bytes); err != nil {
		at := "commands"
		if fe, ok := errors.AsType[*cq.FormatError](err); ok {
			at = where(fe.Offset)
		}
		return &FileError{Part: at, What: err.Error(), Err: err}
	}
	if err := w.divide(); err != nil {
		return err
	}
	if im.HasControl() {
		if err := w.noted(); err != nil {
			return err
		}
	}
	for e := range cq.All(im.Layout, im.Bytes[:im.Size]) {
		if e.Offset == im.offset(w.step) {
			if err := cmp.Or(w.enterLane(e.Offset), w.enter()); err != nil {
				return err
			}
		}
		if _, ok := e.Command.(cq.ExecBufEnd); ok {
			if w.step != len(im.Steps) {
				return w.fail(e.Offset, "EXEC_BUF_END in step %d of %d", w.step, len(im.Steps))
			}
			continue
		}
		if w.step == len(im.Steps) {
			return w.fail(e.Offset, "%s after the last step", e.Command.ID())
		}
		if w.started {
			return w.fail(e.Offset, "%s after the go signal of step %d", e.Command.ID(), w.step)
		}
		s := &im.Steps[w.step]
		if s.Program != NoProgram || s.Control.Kind == flow.Kernels {
			if err := w.command(&e); err != nil {
				return err
			}
		}
		left := s.Offset + s.Size - e.Offset - len(e.Raw)
		if left < 0 {
			return w.fail(e.Offset, "%s is longer than what is left of step %d, which ends at +%#x",
				e.Command.ID(), w.step, s.Offset+s.Size)
		}
		switch {
		case left > 0:
		case s.Program == NoProgram:
			check := w.edge
			if s.Control.Kind != flow.None {
				check = w.control
			}
			if err := check(&e, s); err != nil {
				return err
			}
			w.step++
		case !w.started:
			return w.fail(e.Offset, "step %d ends with %s, want SEND_GO_SIGNAL", w.step, e.Command.ID())
		case w.readTo > 0:
			return w.fail(e.Offset, "step %d doesn't take the arguments that READ_ARGs before it name", w.step)
		default:
			w.step, w.runs, w.started, w.notify, w.config = w.step+1, w.runs+1, false, false, w.config[:0]
		}
	}
	if w.relocs != len(im.Relocs) {
		return invalid("relocations", "%d relocations, the commands read DRAM at %d places", len(im.Relocs), w.relocs)
	}
	if err := w.nested(); err != nil {
		return err
	}
	return w.ended()
}

func (w *walker) expected() cq.Count {
	return cq.Count(w.runs * w.workers)
}

func (w *walker) edge(_ *cq.Entry, s *Step) error {
	if len(w.peers) == 0 {
		return w.fail(s.Offset, "step %d is an edge to other parts, of which the trace has none", w.step)
	}
	want := Edge{Kind: s.Edge.Kind}
	switch s.Edge.Kind {
	case EdgeRecord:
		w.flight.landed(w.runs)
		w.recorded++
		want.Number = w.recorded
	case EdgeWait:
		i := slices.IndexFunc(w.peers, func(p Peer) bool { return p.Queue == s.Edge.Queue })
		if i < 0 || s.Edge.Number < 1 || s.Edge.Number > w.peers[i].Recorded {
			return w.fail(s.Offset, "step %d waits for recording %d of queue %d, which doesn't exist", w.step, s.Edge.Number, s.Edge.Queue)
		}
		want = s.Edge
	case EdgeEnd:
		if w.step != len(w.im.Steps)-1 {
			return w.fail(s.Offset, "step %d of %d ends the part", w.step, len(w.im.Steps))
		}
	}
	if s.Edge != want {
		return w.fail(s.Offset, "step %d is recording %d of queue %d, want number %d", w.step, s.Edge.Number, s.Edge.Queue, want.Number)
	}
	cmds, err := AppendEdge(nil, w.im.Layout, uint16(w.stream()), w.target.dispatcher(), w.peers, s.Edge, uint32(w.expected()))
	if err != nil {
		return w.fail(s.Offset, "%v", err)
	}
	if at := differsAt(cmds, w.im.Bytes[s.Offset:s.Offset+s.Size]); at < len(cmds) || len(cmds) != s.Size {
		return w.fail(s.Offset+at, "step %d isn't what its %v edge is made of", w.step, s.Edge.Kind)
	}
	return nil
}

// Only an EdgeEnd clears the words of others' recordings.
func (w *walker) ended() error {
	for _, p := range w.peers {
		if last := &w.im.Steps[len(w.im.Steps)-1]; p.Recorded > 0 && last.Edge.Kind != EdgeEnd {
			return invalid("steps", "the last one doesn't end the part, and queue %d records %d times", p.Queue, p.Recorded)
		}
	}
	return nil
}

func (w *walker) command(e *cq.Entry) error {
	if p, ok := e.Command.(cq.RelayPagedPacked); ok {
		return w.relays(e.Offset, p.Subs)
	}
	some := false
	for r := range e.Relayed {
		some = true
		if w.started {
			return w.fail(r.At, "%s after the go signal of step %d", r.Command.ID(), w.step)
		}
		if err := w.relayed(r); err != nil {
			return err
		}
	}
	if !some {
		return w.fail(e.Offset, "a trace can't contain %s", e.Command.ID())
	}
	return nil
}

func (w *walker) relayed(r cq.Relayed) error {
	switch c := r.Command.(type) {
	case cq.WritePackedLarge:
		if r.Header {
			return w.large(r.At, &c)
		}
	case cq.WritePacked:
		if r.Header && c.OffsetIndex == 1 {
			return w.packed(r.At, &c)
		}
	case cq.SendGoSignal:
		if !r.Header && r.To == cq.Subordinate {
			return w.goSignal(r.At, c)
		}
	}
	switch {
	case r.Header:
		return w.fail(r.At, "%s without its data: a trace sends only kernels and the data next to them that way", r.Command.ID())
	case r.To != cq.Master:
		return w.fail(r.At, "a trace can't contain %s for the subordinate", r.Command.ID())
	}
	return w.inline(r.At, r.Command)
}

func (w *walker) inline(at int, c cq.DispatchCommand) error {
	switch c := c.(type) {
	case cq.ForwardSubordinate:
		signal, ok := c.Command.(cq.SendGoSignal)
		if !ok || !c.Wait || w.notify {
			return w.fail(at, "a FORWARD_SUBORDINATE in a trace is for a go signal, and waits for the writes before")
		}
		w.notify = true
		if c.Args != (w.readTo > 0) {
			return w.fail(at, "%s in step %d, READ_ARGs before it name arguments up to %#x", c.ID(), w.step, w.readTo)
		}
		if w.readTo > 0 {
			if err := w.kernelConfig(at, c.ID(), 1, 0, w.readTo); err != nil {
				return err
			}
			w.readTo = 0
		}
		return w.goSignal(at, signal)
	case cq.SetWriteOffset:
		if c.Count != 3 || c.Offsets[0] != 0 {
			return w.fail(at, "SET_WRITE_OFFSET of %d offsets from %#x on, want 3 from 0 on", c.Count, c.Offsets[0])
		}
		copy(w.offsets[:], c.Offsets[:3])
		for _, o := range w.offsets[1:] { // may be below kernel memory: what it is added to brings kernels into it
			if o%cq.L1Align != 0 || o > w.l1.KernelEnd() {
				return w.fail(at, "a write offset is %#x, kernels are at multiples of 16 up to %#x", o, w.l1.KernelEnd())
			}
		}
		return nil
	case cq.WritePacked:
		return w.packed(at, &c)
	case cq.WritePackedLarge:
		return w.large(at, &c)
	case cq.Wait:
		return w.wait(at, &c)
	case cq.NotifySubordinate:
		if want := uint16(1) << w.sub; c.Mask != want || w.notify {
			return w.fail(at, "NOTIFY_SUBORDINATE_GO_SIGNAL with mask %#x, want one with mask %#x in a step", c.Mask, want)
		}
		w.notify = true
		return nil
	}
	return w.fail(at, "a trace can't contain %s", c.ID())
}

// No other wait is certain to end than barriers and waits for completions of earlier steps.
func (w *walker) wait(at int, c *cq.Wait) error {
	if c.Flags&^(cq.WaitBarrier|cq.WaitStream) != 0 {
		return w.fail(at, "a WAIT in a trace may be for a barrier and for completions, this one is %v", c.Flags)
	}
	if c.Flags&cq.WaitStream == 0 {
		return nil
	}
	if first := w.stream(); uint32(c.Stream) != first {
		return w.fail(at, "WAIT for stream %d, workers report to stream %d", c.Stream, first)
	}
	if c.Count > uint32(w.expected()) {
		return w.fail(at, "WAIT for %d completions, all steps before cause %d: it would hang", c.Count, uint32(w.expected()))
	}
	w.flight.landed(int(c.Count) / w.workers)
	return nil
}

func (w *walker) stream() uint32 { return uint32(w.ch.Params().Stream.FirstDispatch) + uint32(w.sub) }

func (w *walker) goSignal(at int, c cq.SendGoSignal) error {
	x, y := c.Go.XY()
	switch {
	case !w.notify:
		return w.fail(at, "SEND_GO_SIGNAL without a NOTIFY_SUBORDINATE_GO_SIGNAL before it: it would hang")
	case c.Go.Signal() != cq.SignalGo || c.Go.Offset() != w.sub || (chip.XY{X: x, Y: y}) != w.target.Dispatch:
		return w.fail(at, "the go word is %v, want %v", c.Go, cq.NewGoWord(w.sub, w.target.Dispatch.X, w.target.Dispatch.Y, cq.SignalGo))
	case c.Multicast != w.sub || c.NumUnicast != 0 || c.WaitStream != w.stream():
		return w.fail(at, "SEND_GO_SIGNAL to slot %d and %d cores after stream %d, want slot %d, 0 cores and stream %d", c.Multicast,
			c.NumUnicast, c.WaitStream, w.sub, w.stream())
	case c.WaitCount != uint32(w.expected()):
		return w.fail(at, "SEND_GO_SIGNAL after %d completions, all steps before cause %d", c.WaitCount, uint32(w.expected()))
	}
	w.started = true
	return nil
}

func (w *walker) packed(at int, c *cq.WritePacked) error {
	for _, xy := range c.Cores {
		if x, y, ok := w.im.Layout.SplitXY(xy); !ok || !w.worker(x, y) {
			return w.fail(at, "WRITE_PACKED to %#x, which is no worker", xy)
		}
	}
	for _, r := range c.Rects {
		if err := w.rect(at, c.ID(), r.NOC, int(r.Dests)); err != nil {
			return err
		}
	}
	switch c.OffsetIndex {
	case 0: // the launch message
		slot := w.l1.Launch + uint32(w.runs)%w.l1.LaunchEntries*w.l1.LaunchSize
		if c.Addr != slot || uint32(c.Size) != w.l1.LaunchSize {
			return w.fail(at, "WRITE_PACKED of %d B at %#x, want the launch message of %d B at %#x", c.Size, c.Addr, w.l1.LaunchSize, slot)
		}
		// A full ring of launch messages looks like an empty one.
		if most := int(w.l1.LaunchEntries) - 2; w.runs-w.flight.ended > most {
			return w.fail(at, "a launch message while %d programs before it may be running, at most %d are possible: no WAIT is for them",
				w.runs-w.flight.ended, most)
		}
		return w.launches(at, c)
	case 1: // unique arguments
		if err := w.writes(at, c.ID(), 1, c.Addr, uint32(c.Size)); err != nil {
			return err
		}
		if len(c.Data) > 0 {
			w.arguments(at, len(c.Data), cq.SlotStride(cq.AtPackedCore(len(c.Cores)+2*len(c.Rects))))
		}
		return nil
	}
	return w.fail(at, "WRITE_PACKED with offset index %d, want 0 or 1", c.OffsetIndex)
}

func (w *walker) large(at int, c *cq.WritePackedLarge) error {
	if c.OffsetIndex != 1 && c.OffsetIndex != 2 {
		return w.fail(at, "WRITE_PACKED_LARGE with offset index %d, want 1 or 2", c.OffsetIndex)
	}
	for _, s := range c.Subs {
		if err := w.rect(at, c.ID(), s.NOC, int(s.Dests)); err != nil {
			return err
		}
		if err := w.writes(at, c.ID(), int(c.OffsetIndex), s.Addr, s.Length); err != nil {
			return err
		}
	}
	w.brings(c)
	switch {
	case len(c.Data) == 0:
	case c.OffsetIndex == 1:
		w.arguments(at, len(c.Data), cq.SlotStride(cq.AtLargeSub(len(c.Subs))))
	default:
		return w.kernels(at, c)
	}
	return nil
}

// Inline kernels begin at a page of the step's program.
func (w *walker) kernels(at int, c *cq.WritePackedLarge) error {
	program := w.im.Steps[w.step].program()
	p := &w.im.Programs[program]
	data := c.Data
	for i, s := range c.Subs {
		n := int(s.Length)
		if !p.has(data[:n]) {
			return w.fail(at, "the %d B of sub-command %d are no kernels of program %d", n, i, program)
		}
		data = data[min(roundUp(n, int(c.Alignment)), len(data)):]
	}
	return nil
}

func (p *Program) has(b []byte) bool {
	for page := 0; page+len(b) <= len(p.Binary); page += binaryPage {
		if bytes.Equal(p.Binary[page:page+len(b)], b) {
			return true
		}
	}
	return false
}

func (w *walker) arguments(at, n, header int) {
	w.args = append(w.args, ByteRange{at + header, at + header + n})
}

func (w *walker) kernelConfig(at int, name fmt.Stringer, index int, addr, n uint32) error {
	if w.offsets[index] == 0 {
		return w.fail(at, "%s relative to write offset %d, which isn't set", name, index)
	}
	start := uint64(w.offsets[index]) + uint64(addr)
	if start > math.MaxUint32 || !w.inKernelMemory(uint32(start), n) {
		return w.fail(at, "%s of %d B at %#x, kernel memory is %#x to %#x", name, n, start, w.l1.KernelConfig, w.l1.KernelEnd())
	}
	if start%cq.L1Align != 0 {
		return w.fail(at, "%s at %#x, want a multiple of %d", name, start, cq.L1Align)
	}
	return nil
}

func (w *walker) worker(x, y uint8) bool {
	c, ok := w.ch.Logical(chip.XY{X: x, Y: y})
	if ok && w.of != nil {
		sub, in := w.of[c]
		return in && sub == w.sub
	}
	return ok && w.target.Workers.Contains(c)
}

// rect lets a rectangle hold, beside workers, only columns and rows that multicasts leave out.
func (w *walker) rect(at int, name fmt.Stringer, noc uint32, dests int) error {
	x0, y0, x1, y1, ok := w.im.Layout.SplitRect(noc)
	if !ok || x0 > x1 || y0 > y1 {
		return w.fail(at, "%s to %#x, which is no rectangle", name, noc)
	}
	n := 0
	for x, y := range w.reached(x0, y0, x1, y1) {
		if n++; !w.worker(x, y) {
			return w.fail(at, "%s to the rectangle (%d,%d)-(%d,%d): (%d,%d) is no worker", name, x0, y0, x1, y1, x, y)
		}
	}
	if n != dests || n == 0 {
		return w.fail(at, "%s to %d cores of the rectangle (%d,%d)-(%d,%d), which has %d workers", name, dests, x0, y0, x1, y1, n)
	}
	return nil
}

// reached yields the cores of a rectangle that a multicast reaches.
func (w *walker) reached(x0, y0, x1, y1 uint8) iter.Seq2[uint8, uint8] {
	p := w.ch.Params()
	return func(yield func(x, y uint8) bool) {
		for y := y0; y <= y1; y++ {
			for x := x0; x <= x1; x++ {
				if p.MulticastSkipColumns>>x&1 == 0 && p.MulticastSkipRows>>y&1 == 0 && !yield(x, y) {
					return
				}
			}
		}
	}
}

// Only kernels of the step's program are read from DRAM, each by its relocation, in order.
func (w *walker) relays(at int, subs []cq.PagedSub) error {
	im := w.im
	for i, s := range subs {
		entry := at + cq.AtPagedSub(i)
		if w.relocs >= len(im.Relocs) || im.Relocs[w.relocs].At != entry {
			return w.fail(entry, "RELAY_PAGED_PACKED reads DRAM that no relocation names")
		}
		r := im.Relocs[w.relocs]
		w.relocs++
		if program := im.Steps[w.step].program(); r.Program != program {
			return w.fail(entry, "its relocation is for program %d, step %d runs program %d", r.Program, w.step, program)
		}
		p := &im.Programs[r.Program]
		if r.Page < 0 || r.Page >= p.Pages || s.LogPageSize != binaryPageLog || r.Page*binaryPage+int(s.Length) > len(p.Binary) {
			return w.fail(entry, "it reads %d B from page %d on, of 2^%d B; the kernels of program %d have %d pages of %d B", s.Length, r.Page,
				s.LogPageSize, r.Program, p.Pages, binaryPage)
		}
		page, base := p.place(r.Page, w.target.Banks)
		if s.StartPage != page || s.Base != base {
			return w.fail(entry, "it reads page %d of a buffer at %#x, page %d of program %d is page %d of a buffer at %#x", s.StartPage, s.Base,
				r.Page, r.Program, page, base)
		}
	}
	return nil
}

func (w *walker) checkParams(buffers []Buffer) error {
	names := map[string]bool{}
	for i := range w.im.Params {
		p := &w.im.Params[i]
		part := fmt.Sprintf("patch point %d %q", i, p.Name)
		switch {
		case p.Kind > BufferAddr:
			return invalid(part, "kind %d, want 0 or 1", uint8(p.Kind))
		case names[p.Name]:
			return invalid(part, "another patch point has the name")
		case len(p.At) == 0:
			return invalid(part, "it has no words")
		}
		if err := p.check(part, buffers); err != nil {
			return err
		}
		names[p.Name] = true
		last := -1
		for _, at := range p.At {
			if at <= last || at%4 != 0 || !w.argument(at) {
				return invalid(part, "+%#x is no runtime argument, or isn't after the one before", at)
			}
			if v := le.Uint32(w.im.Bytes[at:]); v != p.Value {
				return invalid(part, "the word at +%#x is %#x, want %#x", at, v, p.Value)
			}
			last = at
		}
	}
	return nil
}

func (p *Param) check(part string, buffers []Buffer) error {
	if p.Kind != BufferAddr {
		if p.Buffer != 0 || p.First != 0 || p.Pages != 0 {
			return invalid(part, "it stands for no buffer, and names pages of buffer %d", p.Buffer)
		}
		return nil
	}
	if p.Buffer < 0 || p.Buffer >= len(buffers) {
		return invalid(part, "it is the address of buffer %d of %d", p.Buffer, len(buffers))
	}
	b := &buffers[p.Buffer]
	if uint64(p.Value) != b.Addr {
		return invalid(part, "it is %#x, buffer %q is at %#x", p.Value, b.Name, b.Addr)
	}
	if n := b.Pages(); p.First < 0 || p.Pages < 1 || p.First > n || p.Pages > n-p.First {
		return invalid(part, "%d pages from page %d on of buffer %q, which has %d", p.Pages, p.First, b.Name, n)
	}
	return nil
}

func (w *walker) argument(at int) bool {
	i, _ := slices.BinarySearchFunc(w.args, at+1, func(r ByteRange, end int) int { return r.End - end })
	return i < len(w.args) && w.args[i].Start <= at && at+4 <= w.args[i].End
}
