package reprise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// Recorder records programs into the part of a trace that is on one queue. It has no method to
// write, read, allocate or load, because a replay can't do those. Record from one goroutine at a
// time to have a defined order. An error of a method makes the capture fail.
type Recorder struct {
	c *capture
	d *Device
	q *Queue

	part     *part // under construction
	rec      tracebuf.Recording
	*scratch                     // nil once the capture has ended
	held     []int               // by part.programs: how many of the program's buffers the part holds
	heldOne  [1]int              // backs held for one program
	index    map[*Executable]int // in part.programs, once there are many
	control  controlFlow
	subs     *dispatch.SubDevices
	states   []dispatch.State    // of sub-devices from 1 on
	home     dispatch.Dispatcher // of the last run
	edges    *edges              // shared by the device's Recorders; nil for one queue
}

func (r *Recorder) init(c *capture, q *Queue, p *part) {
	d := q.d
	p.q, p.name = q, c.name
	r.c, r.d, r.q, r.part, r.scratch = c, d, q, p, d.scratch.Swap(nil)
	r.rec = *tracebuf.NewRecording(cq.Layout(d.Arch()))
	r.held = r.heldOne[:0]
	if room := p.arena; room != nil {
		p.programs, p.kept = room.programs[:0], room.kept[:0]
		r.rec.RoomFor(room.steps[:])
	}
	if r.scratch == nil {
		r.scratch = new(scratch)
	}
	r.state, r.subs = d.disp.ReplayState(), q.q.SubDevices()
	p.subs, r.home = r.subs, q.q.Dispatcher()
}

// On returns the Recorder of another queue of the capture. For a queue outside of the capture it
// returns a Recorder that records nothing, and the capture fails with ErrOtherQueue.
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
	none := &capture{recording: recording{name: r.c.name}}
	none.ended.Store(true)
	none.one = Recorder{c: none, d: r.d, q: r.q, part: &part{q: r.q, name: r.c.name}}
	return &none.one
}

// Run records a program. From here on the trace holds the kernels and buffers, whatever becomes of
// the executable.
//
// args are arguments that the device computes: From and Offset name a 32-bit word of a buffer in
// DRAM or L1. In each replay, and in each iteration of a loop, the device reads the word when all
// programs recorded before are done and their results are in memory. Programs of other queues are
// waited for only where an event orders them. The error matches [dispatch.ErrQueueFirmware] on
// queues with tt-metal's firmware, and is a [*dispatch.ArgError] for an argument that the program
// doesn't have.
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
	home, err := r.q.q.Home(x.image, r.subs)
	if err != nil {
		return err
	}
	if err := r.control.branches.Add(x.image); err != nil {
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
	r.home = home
	r.prior = *r.stateOf(home)
	if len(reads) > 0 {
		r.useControl()
		err = encoder{r}.runLocked(&n, x)
	} else {
		if r.rec.Len() == 0 {
			r.borrowScratch()
		}
		r.rec.Reserve(x.image.RunBytes())
		r.rec.Add(n.Name, i, func(dst []byte) ([]byte, uint8) {
			dst, n.Rec.variant = x.image.AppendRun(dst, r.stateOf(home), home, uint16(r.rec.Len()))
			return dst, uint8(n.Rec.variant)
		})
	}
	r.control.last = n
	return err
}

// linearSearchMax: so many programs are searched faster without a map.
const linearSearchMax = 16

func (r *Recorder) enter(x *Executable) (int, error) {
	i, ok := r.index[x]
	if r.index == nil {
		i = slices.Index(r.part.programs, x)
		ok = i >= 0
	}
	if !ok {
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

// Keep makes the trace hold buffers until it is released, for programs whose buffers
// [Executable.SetCommonArgs] or [Executable.SetArgs] change.
func (r *Recorder) Keep(bs ...*Buffer) error {
	return r.locked("keep buffers", func() error {
		for _, b := range bs {
			err := b.checkDevice(r.d)
			if err == nil {
				err = r.part.hold(b)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *Recorder) locked(op string, f func() error) error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	err := ErrCaptureEnded
	if !r.c.ended.Load() {
		err = f()
	}
	if err != nil {
		return r.refusedLocked(op, err)
	}
	return nil
}

// Param names arguments of the last recorded run, so that [Trace.Set] can change them. A name can
// be given again, in this run or another: all its arguments change together, so all must have the
// same value when they are recorded. Without arguments, right after a [Recorder.Loop], Param names
// the loop's number of iterations.
func (r *Recorder) Param(name string, args ...Arg) error {
	return r.param(name, tracebuf.Arg, nil, args)
}

// ParamBuffer is Param for arguments that hold a buffer's address, and for circular buffers that
// lie at it ([Arg].Circular). [Trace.SetBuffer] can change them.
func (r *Recorder) ParamBuffer(name string, b *Buffer, args ...Arg) error {
	return r.param(name, tracebuf.BufferAddr, b, args)
}

func (r *Recorder) param(name string, kind tracebuf.ParamKind, b *Buffer, args []Arg) error {
	return r.locked(fmt.Sprintf("name parameter %q", name), func() error {
		return r.paramLocked(&argParam{name: name, kind: kind, buf: b}, args)
	})
}

func (r *Recorder) paramLocked(p *argParam, args []Arg) error {
	r.rec.Own() // the commands change
	if p.kind == tracebuf.BufferAddr {
		if err := p.buf.checkDevice(r.d); err != nil {
			return err
		}
	} else if slices.ContainsFunc(args, func(a Arg) bool { return a.Circular }) {
		return errors.New("an address of a circular buffer is a buffer's: use ParamBuffer")
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

func (r *Recorder) inline(n *node, x *Executable, inside bool) error {
	if inside {
		return r.snapshot(&n.Rec, x, true)
	}
	*r.stateOf(r.home) = r.prior
	r.rec.Replace(func(dst []byte) ([]byte, uint8) {
		dst, n.Rec.variant = x.image.AppendInlineRun(dst, r.stateOf(r.home), r.home, uint16(len(r.rec.Steps())-1))
		return dst, uint8(n.Rec.variant)
	})
	return nil
}

func (r *Recorder) addParam(p *argParam, base int) error {
	for i := range p.at {
		p.at[i] += base
	}
	return r.part.params.add(r.part, r.rec.Bytes(), p.name, p.kind, p.buf, p.at)
}

func (r *Recorder) loopStep(loop int) int {
	return slices.IndexFunc(r.rec.Steps(), func(s tracebuf.Step) bool { return s.Control.Kind == flow.Loop && s.Control.Loop == loop })
}

func (r *Recorder) lastStep() *tracebuf.Step {
	steps := r.rec.Steps()
	return &steps[len(steps)-1]
}

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
	if room := r.part.arena; room != nil {
		r.part.image, err = r.rec.FinishInto(&room.image, r.d.DRAMBanks(), r.d.spares.take)
	} else {
		r.part.image, err = r.rec.Finish(r.d.DRAMBanks())
	}
	r.part.site = r.c.site
	return err
}

func (r *Recorder) place(ctx context.Context) error {
	if err := r.part.place(ctx, r.afters()...); err != nil {
		return err
	}
	return r.part.register(partLive)
}

func (r *Recorder) stateOf(home dispatch.Dispatcher) *dispatch.State {
	if home.Sub == 0 {
		return &r.state
	}
	for len(r.states) < int(home.Sub) {
		r.states = append(r.states, r.d.disp.ReplayState())
	}
	return &r.states[home.Sub-1]
}

// afters are the states after the recording, of the sub-devices that run something.
func (r *Recorder) afters() []dispatch.SubAfter {
	out := append(r.part.afters[:0], dispatch.SubAfter{After: r.state.Detach()})
	if r.state.Expected == 0 && r.subs != nil {
		out = out[:0]
	}
	for i := range r.states {
		if s := &r.states[i]; s.Expected != 0 {
			out = append(out, dispatch.SubAfter{Sub: uint8(i + 1), After: s.Detach()})
		}
	}
	return out
}

func (r *Recorder) empty() bool { return r.rec.Len() == 0 }

// scratchSize is enough for short traces; longer ones have memory of their own.
const scratchSize = 64 << 10

// borrowScratch makes the Recorder record in the scratch memory. Captures on several queues don't:
// their Recorders compare what they record.
func (r *Recorder) borrowScratch() {
	if len(r.c.rs) > 1 {
		return
	}
	if r.mem == nil {
		r.mem = make([]byte, scratchSize)
	}
	r.rec.Borrow(r.mem)
}

func (r *Recorder) returnScratch() {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.rec.Return()
	if s := r.scratch; s != nil {
		r.scratch = nil
		r.d.scratch.Store(s)
	}
}

type argRead struct {
	buf     *Buffer
	offset  int
	word    condWord
	targets []cq.ArgTarget
}

// readsLocked returns the words that the device reads for arguments, each once, and holds their
// buffers.
func (r *Recorder) readsLocked(x *Executable, args []Arg) ([]argRead, error) {
	if len(args) == 0 {
		return nil, nil
	}
	if err := cmp.Or(r.q.q.DeviceArgs(), r.flowAllowed()); err != nil {
		return nil, err
	}
	var out []argRead
	for i := range args {
		a := &args[i]
		if a.From == nil {
			return nil, fmt.Errorf("argument %d of kernel %q: From names no buffer to read it from", a.Index, a.Kernel)
		}
		at := slices.IndexFunc(out, func(o argRead) bool { return o.buf == a.From && o.offset == a.Offset })
		if at < 0 {
			word, err := r.wordLocked(a.From, a.Offset)
			if err != nil {
				return nil, err
			}
			at, out = len(out), append(out, argRead{buf: a.From, offset: a.Offset, word: word})
		}
		var err error
		if to := &out[at].targets; a.Common {
			*to, err = x.image.CommonArgTargets(*to, a.Kernel, a.Index)
		} else {
			*to, err = x.image.UniqueArgTargets(*to, a.Kernel, a.Index, a.on)
		}
		if err != nil {
			return nil, err
		}
	}
	n, bytes := 0, 0
	for _, a := range out {
		for _, c := range a.commands() {
			n, bytes = n+1, bytes+c.Size()
		}
	}
	if n > cq.MaxReadArgs || bytes > cq.MaxReadArgBytes {
		return nil, fmt.Errorf("the device would read %d words for arguments, with %d B of commands: at most %d with %d B are possible", n,
			bytes, cq.MaxReadArgs, cq.MaxReadArgBytes)
	}
	return out, nil
}

func (a *argRead) commands() []cq.ReadArg {
	var out []cq.ReadArg
	for some := range slices.Chunk(a.targets, cq.MaxArgTargets) {
		out = append(out, cq.ReadArg{OffsetIndex: program.ArgOffset, NOC: a.word.noc, Addr: a.word.addr, Targets: some})
	}
	return out
}

// snapshot encodes a run with the program's present arguments. inline puts all of them among the
// run's commands, where the device can write those that it reads.
func (r *Recorder) snapshot(run *recorded, x *Executable, inline bool) error {
	st, encode := r.d.disp.ReplayState(), x.image.AppendRun
	if inline {
		encode = x.image.AppendInlineRun
	}
	run.commands, run.variant = encode(nil, &st, r.q.q.Dispatcher(), 0)
	if len(run.reads) == 0 {
		return nil
	}
	if !run.variant.Inline() {
		return r.snapshot(run, x, true)
	}
	return x.image.ReadArgs(run.commands, run.variant)
}

// edges are the events inside a capture on several queues of a device.
type edges struct {
	rs       []*Recorder // of the device
	recorded []uint32    // recordings so far, by queue
	newest   map[*Event]edge
}

type edge struct {
	queue  int
	number uint32 // among the recordings of the queue's part
}

// any reports whether an event was recorded. Then every queue needs a part, to clear its counts.
func (s *edges) any() bool {
	return slices.ContainsFunc(s.recorded, func(n uint32) bool { return n > 0 })
}

// Record records an event into a capture over several queues of a device. A WaitEvent in another
// queue's part refers to the newest recording at that moment. Recordings outside of the capture
// aren't affected.
func (r *Recorder) Record(e *Event) error {
	return r.addEvent(opRecord, e, func() error {
		s, id := r.edges, r.q.ID()
		s.recorded[id]++
		s.newest[e] = edge{id, s.recorded[id]}
		return r.addEdge("record event", e, tracebuf.Edge{Kind: tracebuf.EdgeRecord, Number: s.recorded[id]})
	})
}

// WaitEvent holds what is recorded into this part from now on, at every replay, until everything
// before the event's newest recording in this capture has run and its results are in memory. An
// event that wasn't recorded in this capture can't be waited for.
func (r *Recorder) WaitEvent(e *Event) error {
	return r.addEvent(opWaitEvent, e, func() error {
		at, ok := r.edges.newest[e]
		if !ok {
			return fmt.Errorf("it wasn't recorded in this capture: wait on the queues before the replay: %w", ErrInCapture)
		}
		if at.queue == r.q.ID() {
			return nil // queue order suffices
		}
		return r.addEdge("wait for event", e, tracebuf.Edge{Kind: tracebuf.EdgeWait, Queue: at.queue, Number: at.number})
	})
}

func (r *Recorder) addEvent(op captureOp, e *Event, add func() error) error {
	what := op.what()
	if e != nil {
		what = fmt.Sprintf("%s %q", what, e.Name())
	}
	return r.locked(what, func() error {
		switch {
		case e == nil:
			return errors.New("no event: it is nil")
		case e.d != r.d:
			return ErrWrongDevice
		case r.edges == nil:
			return fmt.Errorf("the capture is of one queue of the device: name the others when it starts: %w", ErrInCapture)
		case r.control.used || len(r.control.open) > 0:
			return errFlowEdges
		}
		return add()
	})
}

func (r *Recorder) addEdge(what string, e *Event, edge tracebuf.Edge) error {
	commands, err := r.q.edge(nil, r.peers(), edge, r.state.Expected)
	if err == nil {
		r.control.last = node{Kind: flow.Reset, Name: what + " " + e.Name()} // no program
		r.rec.AddEdge(r.control.last.Name, edge, commands)
	}
	return err
}

func (r *Recorder) appendEnd() error {
	if r.edges == nil {
		return nil
	}
	end := tracebuf.Edge{Kind: tracebuf.EdgeEnd}
	commands, err := r.q.edge(nil, r.peers(), end, r.state.Expected)
	if err == nil && len(commands) > 0 {
		r.rec.AddEdge("end of the part", end, commands)
	}
	return err
}

func (r *Recorder) peers() []tracebuf.Peer {
	var out []tracebuf.Peer
	for _, o := range r.edges.rs {
		if o != r {
			out = append(out, tracebuf.Peer{Dispatcher: o.q.dispatcher(), Recorded: r.edges.recorded[o.q.ID()]})
		}
	}
	return out
}

func (q *Queue) edge(dst []byte, peers []tracebuf.Peer, e tracebuf.Edge, expected cq.Count) ([]byte, error) {
	return tracebuf.AppendEdge(dst, cq.Layout(q.d.Arch()), uint16(q.d.disp.Chip().Params().Stream.FirstDispatch), q.dispatcher(), peers, e,
		uint32(expected))
}

func (q *Queue) dispatcher() tracebuf.Dispatcher {
	return tracebuf.Dispatcher{Queue: q.ID(), Core: q.q.DispatchCore(), Word: q.q.EdgeWord()}
}
