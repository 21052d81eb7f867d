package reprise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// Recorder records programs into the part of a trace that is on one queue. It has no method to write, read, allocate or
// load, because a replay can't do those. What it records must come from one goroutine at a time to have an order.
type Recorder struct {
	c *capture
	d *Device
	q *Queue

	part     *part // what it becomes; it holds what the programs need
	rec      tracebuf.Recording
	*scratch                     // nil once the capture has ended
	held     []int               // by part.programs: buffers of the program that the part holds
	heldOne  [1]int              // what held is made of for one program
	index    map[*Executable]int // place in part.programs, once there are many
	control  controlFlow         // loops and branches
	edges    *edges              // of a device on which the capture has several queues
}

// scratch is what a Recorder needs until the capture ends. The next one of the device uses it again, when it is still in the
// processor's caches.
type scratch struct {
	state dispatch.State // after what was recorded
	prior dispatch.State // before what was recorded last
	mem   []byte         // to record in
}

func (r *Recorder) init(c *capture, q *Queue, p *part) {
	d := q.d
	p.q, p.name = q, c.name
	*r = Recorder{c: c, d: d, q: q, part: p, rec: *tracebuf.NewRecording(cq.Layout(d.Arch())), scratch: d.scratch.Swap(nil)}
	r.held = r.heldOne[:0]
	if room := p.room; room != nil {
		p.programs, p.kept = room.programs[:0], room.kept[:0]
		r.rec.RoomFor(room.steps[:])
	}
	if r.scratch == nil {
		r.scratch = new(scratch)
	}
	r.state = d.disp.ReplayState()
}

// On returns the Recorder of another queue of the capture. For a queue that the capture doesn't have, that Recorder
// records nothing and the capture fails with an ErrOtherQueue.
func (r *Recorder) On(q *Queue) *Recorder {
	for _, o := range r.c.rs {
		if o.q == q {
			return o
		}
	}
	err := fmt.Errorf("%w: name it when the capture starts", ErrOtherQueue)
	if q == nil {
		err = fmt.Errorf("the queue is nil: %w", ErrOtherQueue)
	}
	_ = r.refused("record on another queue", err)
	none := &capture{name: r.c.name}
	none.ended.Store(true)
	none.one = Recorder{c: none, d: r.d, q: r.q, part: &part{q: r.q, name: r.c.name}}
	return &none.one
}

// Run records a program. An error also ends the capture that the Recorder belongs to. Whatever becomes of the
// executable and its buffers, the trace keeps the kernels and the memory from here on.
//
// args are arguments that the device computes: of each, From and Offset name a 32-bit word of a buffer in DRAM or L1. In each
// replay, and in each iteration of a loop, the device reads the word when all programs recorded before are done and their
// results are in memory, and the program has it in place of the value that the argument has otherwise. For programs of other
// queues it waits only where an event orders them. The error matches [dispatch.ErrQueueFirmware] on queues with firmware of
// tt-metal, and is a [*dispatch.ArgError] for an argument that the program doesn't have.
func (r *Recorder) Run(x *Executable, args ...Arg) error {
	if err := r.run(x, args); err != nil {
		op := opRun.what()
		if x != nil {
			op, err = fmt.Sprintf("%s %q", op, x.Name()), nameOnce(x.Name(), err)
		}
		return r.refused(op, err)
	}
	return nil
}

func (r *Recorder) run(x *Executable, args []Arg) error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.ended.Load() {
		return ErrCaptureEnded
	}
	if x != nil {
		x.mu.RLock()
		defer x.mu.RUnlock()
	}
	if err := x.checkDeviceLocked(r.d); err != nil {
		return err
	}
	if err := r.q.q.Fits(x.image); err != nil {
		return err
	}
	i, err := r.enter(x)
	if err != nil {
		return err
	}
	reads, err := r.readsLocked(x, args)
	if err != nil {
		return err
	}
	n := node{Name: x.Name(), Rec: recorded{program: i, reads: reads}}
	if len(r.control.open) > 0 || len(reads) > 0 {
		if err := r.snapshot(&n.Rec, x, false); err != nil {
			return err
		}
	}
	if len(r.control.open) > 0 {
		return r.addNodeLocked(n)
	}
	r.prior = r.state
	if len(reads) > 0 {
		r.useControl()
		err = encoder{r}.runLocked(&n, x)
	} else {
		if r.rec.Len() == 0 {
			r.borrowScratch()
		}
		r.rec.Reserve(x.image.RunBytes())
		r.rec.Add(n.Name, i, func(dst []byte) ([]byte, uint8) {
			dst, n.Rec.variant = x.image.AppendRun(dst, &r.state, r.q.q.Dispatcher(), uint16(r.rec.Len()))
			return dst, uint8(n.Rec.variant)
		})
	}
	r.control.last = n
	return err
}

// linearSearchMax is how many programs are searched faster than a map is made.
const linearSearchMax = 16

// find returns the place of a program in the part's programs, -1 if it wasn't recorded yet.
func (r *Recorder) find(x *Executable) int {
	if r.index == nil {
		return slices.Index(r.part.programs, x)
	}
	if i, ok := r.index[x]; ok {
		return i
	}
	return -1
}

// enter has the part hold a program and its buffers, and returns the program's place.
func (r *Recorder) enter(x *Executable) (int, error) {
	i := r.find(x)
	if i < 0 {
		i = len(r.part.programs)
		if err := r.part.holdProgram(x); err != nil {
			return 0, err
		}
		r.held = append(r.held, 0)
		switch {
		case r.index != nil:
			r.index[x] = i
		case i >= linearSearchMax:
			r.index = make(map[*Executable]int, 2*linearSearchMax)
			for j, p := range r.part.programs {
				r.index[p] = j
			}
		}
	}
	for ; r.held[i] < len(x.bufs); r.held[i]++ {
		if err := r.part.hold(x.bufs[r.held[i]]); err != nil {
			return 0, err
		}
	}
	return i, nil
}

// Keep makes the trace hold buffers until it is released, as it holds those that a program names as its own: for programs
// that are given other buffers for each run, by [Executable.SetCommonArgs] or [Executable.SetArgs]. An error ends the
// capture.
func (r *Recorder) Keep(bs ...*Buffer) error {
	if err := r.keep(bs); err != nil {
		return r.refused("keep buffers", err)
	}
	return nil
}

func (r *Recorder) keep(bs []*Buffer) error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.ended.Load() {
		return ErrCaptureEnded
	}
	for _, b := range bs {
		if err := b.checkDevice(r.d); err != nil {
			return err
		}
		if err := r.part.hold(b); err != nil {
			return err
		}
	}
	return nil
}

// Param names arguments of the run that was recorded last, so that [Trace.Set] can change them. A name that was given
// before gets the arguments added, in this run or another: all of them change together, so all must have the same value
// when they are recorded. Without arguments, right after a [Recorder.Loop], it names the loop's number of iterations. An error
// ends the capture.
func (r *Recorder) Param(name string, args ...Arg) error {
	return r.param(name, tracebuf.Arg, nil, args)
}

// ParamBuffer is Param for arguments that hold the address of a buffer, which [Trace.SetBuffer] can change.
func (r *Recorder) ParamBuffer(name string, b *Buffer, args ...Arg) error {
	return r.param(name, tracebuf.BufferAddr, b, args)
}

func (r *Recorder) param(name string, kind tracebuf.ParamKind, b *Buffer, args []Arg) error {
	if err := r.nameParam(&argParam{name: name, kind: kind, buf: b}, args); err != nil {
		return r.refused(fmt.Sprintf("name parameter %q", name), err)
	}
	return nil
}

func (r *Recorder) nameParam(p *argParam, args []Arg) error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.rec.Own() // the commands change
	if r.c.ended.Load() {
		return ErrCaptureEnded
	}
	if p.kind == tracebuf.BufferAddr {
		if err := p.buf.checkDevice(r.d); err != nil {
			return err
		}
	}
	n, where, inside := &r.control.last, "", len(r.control.open) > 0
	if inside {
		body := *r.control.open[len(r.control.open)-1]
		if n, where = nil, " here"; len(body) > 0 {
			n = &body[len(body)-1]
		}
	} else if r.rec.Len() == 0 {
		n = nil
	}
	switch {
	case n == nil:
		return fmt.Errorf("nothing was recorded%s yet: name arguments after the run that they belong to", where)
	case n.Kind == flow.Loop && len(args) == 0:
		p.at = []int{cq.AtLoopCount}
		if !inside {
			return r.addParam(p, r.rec.Steps()[r.loopStep(n.Loop)].Offset)
		}
	case n.Kind != flow.None:
		return fmt.Errorf("what was recorded last is no program but %q: name arguments after the run that they belong to", n.Name)
	default:
		x := r.part.programs[n.Rec.program]
		x.mu.RLock()
		defer x.mu.RUnlock()
		var err error
		if p.at, err = x.words(args); err != nil {
			return err
		}
		if !n.Rec.variant.Inline() { // arguments that lie beside the kernels can't be changed for a single run
			if err := r.inline(n, x, inside); err != nil {
				return err
			}
		}
		if !inside {
			return r.addParam(p, r.lastStep().Offset+x.image.MainOffset(n.Rec.variant))
		}
	}
	n.Rec.params = append(n.Rec.params, *p)
	return nil
}

// inline has all arguments of the run that was recorded last among its commands.
func (r *Recorder) inline(n *node, x *Executable, inside bool) error {
	if inside {
		return r.snapshot(&n.Rec, x, true)
	}
	r.state = r.prior
	r.rec.Replace(func(dst []byte) ([]byte, uint8) {
		dst, n.Rec.variant = x.image.AppendInlineRun(dst, &r.state, r.q.q.Dispatcher(), uint16(len(r.rec.Steps())-1))
		return dst, uint8(n.Rec.variant)
	})
	return nil
}

// addParam makes words of the recording a parameter, whose offsets count from base.
func (r *Recorder) addParam(p *argParam, base int) error {
	for i := range p.at {
		p.at[i] += base
	}
	return r.part.params.add(r.part, r.rec.Bytes(), p.name, p.kind, p.buf, p.at)
}

// loopStep returns the step that begins a loop.
func (r *Recorder) loopStep(loop int) int {
	return slices.IndexFunc(r.rec.Steps(), func(s tracebuf.Step) bool { return s.Control.Kind == flow.Loop && s.Control.Loop == loop })
}

func (r *Recorder) lastStep() *tracebuf.Step {
	steps := r.rec.Steps()
	return &steps[len(steps)-1]
}

// refused is the error of a method of the Recorder. The capture fails with it.
func (r *Recorder) refused(op string, err error) error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.refusedLocked(op, err)
}

func (r *Recorder) refusedLocked(op string, err error) error {
	at := callSite()
	err = &CaptureError{Trace: r.c.name, Op: op, File: at.File, Line: at.Line, Err: err}
	r.c.err = cmp.Or(r.c.err, err)
	return err
}

// finish makes an image of what was recorded.
func (r *Recorder) finish() error {
	if len(r.control.open) > 0 {
		return errors.New("a loop or a branch is still being recorded: end the capture after its function has returned")
	}
	if r.control.used {
		// An aborted replay leaves the queue in the same state.
		if err := (encoder{r}).Reset(false); err != nil {
			return err
		}
	}
	if err := r.appendEnd(); err != nil {
		return err
	}
	var err error
	if room := r.part.room; room != nil {
		r.part.image, err = r.rec.FinishInto(&room.image, r.d.DRAMBanks(), r.d.spares.take)
	} else {
		r.part.image, err = r.rec.Finish(r.d.DRAMBanks())
	}
	r.part.site = r.c.site
	return err
}

// place writes the image to its memory and enters the part in its device.
func (r *Recorder) place(ctx context.Context) error {
	if err := r.part.place(ctx, r.state.Detach()); err != nil {
		return err
	}
	return r.part.register(partLive)
}

// empty reports whether nothing was recorded.
func (r *Recorder) empty() bool {
	return r.rec.Len() == 0
}

// scratchSize is enough for traces of some programs; others are recorded in memory of their own.
const scratchSize = 64 << 10

// borrowScratch has the Recorder record in the scratch's memory. In captures on several queues Recorders compare what they
// record, so each has memory of its own there.
func (r *Recorder) borrowScratch() {
	if len(r.c.rs) > 1 {
		return
	}
	if r.mem == nil {
		r.mem = make([]byte, scratchSize)
	}
	r.rec.Borrow(r.mem)
}

// returnScratch ends the recording.
func (r *Recorder) returnScratch() {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.rec.Return()
	if s := r.scratch; s != nil {
		r.scratch = nil
		r.d.scratch.Store(s)
	}
}
