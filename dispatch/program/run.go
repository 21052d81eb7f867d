package program

import (
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
)

// Run is a run of a program in a given State.
type Run struct {
	im         *Image
	p          placement
	dispatcher Dispatcher
}

// Next places a run and moves st past it.
func (im *Image) Next(st *State, dispatcher Dispatcher) Run {
	im = im.current()
	return Run{im, im.place(st, dispatcher), dispatcher}
}

// Size returns the bytes of the run's commands.
func (r *Run) Size() int { return r.im.size(r.p.send) }

func (im *Image) size(texts bool) int {
	n := len(im.main.bytes)
	if texts {
		n += len(im.text.bytes)
	}
	return n
}

// Append appends the run's commands to dst. id names the run in profilers.
func (r *Run) Append(dst []byte, id uint16) []byte {
	return r.im.build(dst, r.im.main.bytes, &r.p, r.dispatcher, id)
}

// Cuts appends to ends where the run's commands may be cut into batches of at most most bytes.
func (r *Run) Cuts(ends []int, most int) []int {
	start, end := 0, 0 // of the batch so far
	cut := func(at int) {
		if at-start > most {
			ends = append(ends, end)
			start = end
		}
		end = at
	}
	if r.p.send {
		for _, at := range r.im.text.cuts {
			cut(at)
		}
	}
	for _, at := range r.im.main.cuts {
		cut(at + r.Size() - len(r.im.main.bytes))
	}
	return append(ends, end)
}

type placement struct {
	base     uint32
	text     uint32
	send     bool // they aren't there yet
	launch   uint32
	before   cq.Count
	stream   uint32 // of sub-device 0
	textWait await
	wait     await
}

func (im *Image) place(st *State, dispatcher Dispatcher) placement {
	p := placement{before: st.Expected, stream: uint32(im.stream), launch: im.launchBase + st.launch*im.launchSize}
	after := st.Expected + cq.Count(dispatcher.Workers)
	r := &st.config
	p.textWait = r.makeRoom(im.slotSize)
	text, ok := r.find(im.id, uint32(after))
	if !ok {
		var wait await
		p.send = true
		text, wait = r.place(im.id, im.textSize, im.slotSize, uint32(after))
		p.textWait = later(p.textWait, wait)
	}
	var off uint32
	off, p.wait = r.reserve(im.slotSize, uint32(after))
	p.base, p.text = im.configBase+off, im.configBase+text
	st.launch = (st.launch + 1) % LaunchEntries
	st.Expected = after
	return p
}

// build appends a run. main is the image's commands, or an earlier run's with other arguments.
func (im *Image) build(dst, main []byte, p *placement, dispatcher Dispatcher, id uint16) []byte {
	if p.send {
		start := len(dst)
		dst = append(dst, im.text.bytes...)
		im.text.patch(dst[start:], p, p.textWait, im.stream, dispatcher, id)
	}
	start := len(dst)
	dst = append(dst, main...)
	im.main.patch(dst[start:], p, p.wait, im.stream, dispatcher, id)
	return dst
}

func (c *commands) patch(b []byte, p *placement, wait await, stream uint16, dispatcher Dispatcher, id uint16) {
	cq.Put16(b, c.hostID, id)
	stream += uint16(dispatcher.Sub)
	flags := cq.WaitStream
	if !wait.on {
		flags, stream, wait.count = 0, 0, 0
	}
	cq.Put8(b, c.wait+cq.AtWaitFlags, uint8(flags))
	cq.Put16(b, c.wait+cq.AtWaitStream, stream)
	cq.Put32(b, c.wait+cq.AtWaitCount, wait.count)
	for _, o := range c.slots {
		cq.Put32(b, int(o), p.base)
	}
	for _, o := range c.texts {
		cq.Put32(b, int(o), p.text)
	}
	for _, e := range c.entries {
		cq.Put32(b, int(e.at), p.text-p.base+e.off)
	}
	for _, o := range c.launchAddr {
		cq.Put32(b, int(o), p.launch)
	}
	if c.goWord == 0 {
		return
	}
	cq.Put32(b, c.goWord, uint32(dispatcher.GoWord(cq.SignalGo)))
	cq.Put32(b, c.goCount, uint32(p.before))
	if dispatcher.Sub != 0 {
		at := c.goWord - cq.AtGoWord
		cq.Put8(b, at+cq.AtGoMulticast, dispatcher.Sub)
		cq.Put32(b, at+cq.AtGoWaitStream, p.stream+uint32(dispatcher.Sub))
		if c.notify != 0 {
			cq.Put16(b, c.notify, 1<<dispatcher.Sub)
		}
	}
}

// Variant is how a run was encoded, from [Image.AppendRun].
type Variant uint8

const (
	residentArgs Variant = 1 << iota
	withTexts
)

// Inline reports whether the run has its arguments among the commands, not in DRAM, where runs with
// the same share them.
func (v Variant) Inline() bool { return v&residentArgs == 0 }

func (im *Image) form(v Variant) *Image {
	if v&residentArgs != 0 && im.resident != nil {
		return im.resident
	}
	return im
}

func (im *Image) variant(form *Image, p *placement) Variant {
	var v Variant
	if form == im.resident {
		v |= residentArgs
	}
	if p.send {
		v |= withTexts
	}
	return v
}

func (im *Image) runBytes(v Variant) int {
	return im.form(v).size(v&withTexts != 0)
}

// AppendRun appends the commands of one run to dst, moves st past it and returns the encoding. id
// names the run in profilers.
func (im *Image) AppendRun(dst []byte, st *State, dispatcher Dispatcher, id uint16) ([]byte, Variant) {
	r := im.Next(st, dispatcher)
	return r.Append(dst, id), im.variant(r.im, &r.p)
}

// AppendInlineRun appends a run in place of one that isn't [Variant.Inline], with that run's
// arguments among the commands.
func (im *Image) AppendInlineRun(dst []byte, st *State, dispatcher Dispatcher, id uint16) ([]byte, Variant) {
	main := im.main.bytes
	if im.changed {
		main = im.compiled
	}
	p := im.place(st, dispatcher)
	return im.build(dst, main, &p, dispatcher, id), im.variant(im, &p)
}

// AppendAgain appends a run with the runtime arguments of an earlier one, whose commands are run
// and whose encoding is v. It returns the new encoding.
func (im *Image) AppendAgain(dst, run []byte, v Variant, st *State, dispatcher Dispatcher, id uint16) ([]byte, Variant, error) {
	if want := im.runBytes(v); len(run) != want {
		return dst, v, fmt.Errorf("dispatch: program %q: a recorded run of %d B: its variant has %d B", im.name, len(run), want)
	}
	f := im.form(v)
	p := f.place(st, dispatcher)
	return f.build(dst, run[len(run)-len(f.main.bytes):], &p, dispatcher, id), im.variant(f, &p), nil
}

// MainOffset returns where the commands that CommandBytes counts begin in a run: the offsets of
// arguments count from there.
func (im *Image) MainOffset(v Variant) int { return im.runBytes(v) - len(im.form(v).main.bytes) }

// RelayedPages returns the first page of Binary for each entry of a RELAY_PAGED_PACKED in a run.
func (im *Image) RelayedPages(v Variant) []int {
	f := im.form(v)
	var pages []int
	if v&withTexts != 0 {
		pages = f.KernelPages()
	}
	return f.main.appendPages(pages)
}

func (c *commands) appendPages(pages []int) []int {
	for _, r := range c.relays {
		pages = append(pages, r.page)
	}
	return pages
}

// AppendKernels appends the commands that bring a program's kernels, unless they are on the workers
// already, and moves st past them.
func (im *Image) AppendKernels(dst []byte, st *State, dispatcher Dispatcher) []byte {
	r := &st.config
	wait := r.makeRoom(im.slotSize)
	if _, ok := r.find(im.id, uint32(st.Expected)); ok {
		return dst
	}
	off, room := r.place(im.id, im.textSize, im.slotSize, uint32(st.Expected))
	p := placement{base: im.configBase, text: im.configBase + off}
	start := len(dst)
	dst = append(dst, im.text.bytes...)
	im.text.patch(dst[start:], &p, later(wait, room), im.stream, dispatcher, 0)
	return dst
}

// KernelPages is RelayedPages for the commands of AppendKernels.
func (im *Image) KernelPages() []int { return im.text.appendPages(nil) }

// State is what a command stream assumes about the workers and how it leaves them, as a value. A
// queue has one; a trace starts from ReplayState and carries the one it ends with.
type State struct {
	// Expected is the completion count once everything so far has run. It wraps.
	Expected cq.Count
	launch   uint32
	config   configRing
}

// TakeOver makes s the state of a stream that takes the workers over from another one, whose
// programs are all done.
func (t *Target) TakeOver(s, from *State) {
	s.launch, s.config = from.launch, newRing(t.Workers.L1.KernelConfigSize)
}

// ReplayState is the state in which a trace's commands run: nothing counted, launch messages at the
// first slot, all memory free.
func (t *Target) ReplayState() State {
	return State{config: newRing(t.Workers.L1.KernelConfigSize)}
}

// Detached is the state after a trace: all kernel-config memory is in use until its last program is
// done. It is a sixtieth of a State.
type Detached struct {
	Expected cq.Count
	launch   uint32
}

// Detach returns the state after a trace that ended in s.
func (s *State) Detach() Detached { return Detached{s.Expected, s.launch} }

// After returns the state of a queue after a trace.
func (t *Target) After(end Detached) State {
	return State{Expected: end.Expected, launch: end.launch, config: fullRing(t.Workers.L1.KernelConfigSize, uint32(end.Expected))}
}

// Dispatcher is the core that starts workers and to which they report completions.
type Dispatcher struct {
	At      chip.XY
	Workers uint32 // of one run: one from each worker of the queue
	Sub     uint8  // sub-device that is started: its workers have a go message and a completion stream of their own
}

// GoWord returns a go message of workers that report to the core.
func (d Dispatcher) GoWord(s cq.Signal) cq.GoWord { return cq.NewGoWord(d.Sub, d.At.X, d.At.Y, s) }

// After returns the state after that many programs of a trace.
func (d Dispatcher) After(programs int) Detached {
	return Detached{Expected: cq.Count(programs) * cq.Count(d.Workers), launch: uint32(programs % LaunchEntries)}
}

// A body can't depend on how often it ran before. So it begins where all programs are done, no
// completion is counted and the next launch message is the first. Kernels may stay on the workers.

// IsReset reports whether a Reset needs no commands.
func (s *State) IsReset() bool { return s.Expected == 0 && s.launch == 0 }

// Reset returns the state after a reset of launch pointers and completion count. Kernels stay.
func (s State) Reset() State {
	r := &s.config
	r.head, r.first, r.n = 0, 0, 0
	for i := range r.texts.list {
		r.texts.list[i].last = 0
	}
	s.Expected, s.launch = 0, 0
	return s
}

// ResetWithoutKernels is Reset without knowledge of the kernels on the workers.
func (s State) ResetWithoutKernels() State { return State{config: newRing(s.config.size)} }

// SameKernels reports whether two states have the same kernels at the same places.
func (s *State) SameKernels(o *State) bool {
	return s.config.end == o.config.end && s.config.texts == o.config.texts
}

// FitKernels reports whether the kernels of all these programs fit on the workers together, beside
// those in state s. Then running the programs in any order, after their kernels were put there in
// this order, moves none of them.
func FitKernels(s State, images []*Image) bool {
	r := &s.config
	before := r.texts
	for _, im := range images {
		r.makeRoom(im.slotSize)
		if _, ok := r.find(im.id, 0); !ok {
			r.place(im.id, im.textSize, im.slotSize, 0)
		}
	}
	for _, im := range images {
		r.makeRoom(im.slotSize)
	}
	for _, im := range images {
		if _, ok := r.find(im.id, 0); !ok {
			return false
		}
	}
	for _, t := range before.list {
		if _, ok := r.find(t.id, 0); !ok {
			return false
		}
	}
	return true
}
