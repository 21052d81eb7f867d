package reprise

import (
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// Cond is a condition that the device evaluates while a trace runs: a 32-bit little-endian word of
// a buffer, or the number of an iteration, compared with a constant as unsigned numbers. The word
// is read once all programs recorded before are done and their results are in memory. The number of
// an iteration is known without that wait.
type Cond struct {
	Buffer *Buffer // in DRAM or L1
	Offset int     // of the word in the buffer, in bytes, a multiple of 4
	// Iteration, if not 0, selects a loop around the condition instead of a buffer: 1 is the
	// innermost, 2 the one around it. In the condition of a While, 1 is that loop itself.
	// Iterations count from 0.
	Iteration int
	Is        cq.Compare
	Value     uint32
}

type node = flow.Node[recorded]

type recorded struct {
	program  int    // index of a run's program in part.programs
	commands []byte // of a run in a body
	variant  dispatch.Variant
	reads    []argRead // computed arguments of a run
	params   []argParam
	call     *part // callee
}

type argParam struct {
	name string
	kind tracebuf.ParamKind
	buf  *Buffer
	at   []int // offsets from the run's main commands, or from the loop's first command
}

// controlFlow keeps bodies as nodes until the outermost loop or branch ends: only then it is known
// which kernels can stay on the workers.
type controlFlow struct {
	open  []*[]node  // bodies that are being recorded, innermost last
	deep  int        // open loops
	loops int        // of the trace so far
	used  bool       // the trace has control flow
	last  node       // last node outside of bodies
	words []condWord // read by conditions, by flow.Cond.Word

	branches program.Branches // nil outside of Parallel
}

// condWord is a word of a buffer that a condition or a run reads.
type condWord struct {
	at        int // offset of the BRANCH or READ_ARG in the commands
	buf       *Buffer
	off       int    // in the whole buffer, in bytes
	noc, addr uint32 // its NoC address
}

// Loop records a loop of n iterations; body records its programs and is called once. 0 iterations
// run nothing. [Recorder.Param] after the loop, without arguments, makes n a parameter.
//
// Every iteration begins when all programs before are done. Kernels of the body are sent once,
// before the loop, if all of them have room in the workers' kernel-config memory. Loops nest up to
// cq.MaxLoops deep. An error of body makes the capture fail.
func (r *Recorder) Loop(n uint32, body func() error) error {
	loop := node{Name: fmt.Sprintf("loop of %d", n), Kind: flow.Loop, Count: n}
	return r.recordControl("loop", loop, nil, func(n *node) error { return r.loopOf(n, body) })
}

// While records a loop whose condition is tested before each iteration. One iteration more than
// limit stops the queue with a [*dispatch.HangError] that names the loop.
func (r *Recorder) While(c Cond, limit uint32, body func() error) error {
	n := node{Name: "while " + c.text(), Kind: flow.Loop, Count: limit}
	if limit == 0 {
		return r.refused("while", errors.New("its limit is 0 iterations: give the most that there may be"))
	}
	return r.recordControl("while", n, []Cond{c}, func(n *node) error { return r.loopOf(n, body) })
}

// If records a branch: then records what runs if the condition holds, otherwise what runs if not.
// otherwise may be nil.
func (r *Recorder) If(c Cond, then, otherwise func() error) error {
	return r.branch("if", "if "+c.text(), []Cond{c}, []func() error{then}, otherwise)
}

// Switch records a branch by a word of a buffer: body i runs if the word is i. Other words run no
// body.
func (r *Recorder) Switch(b *Buffer, offset int, bodies ...func() error) error {
	conds := make([]Cond, len(bodies))
	for i := range conds {
		conds[i] = Cond{Buffer: b, Offset: offset, Is: cq.Equal, Value: uint32(i)}
	}
	return r.branch("switch", "switch of "+b.label(), conds, bodies, nil)
}

func (r *Recorder) branch(op, name string, conds []Cond, bodies []func() error, otherwise func() error) error {
	n := node{Name: name, Kind: flow.Branch}
	return r.recordControl(op, n, conds, func(n *node) error {
		for i := range bodies {
			body := fmt.Sprintf("body %d", i)
			if op == "if" {
				body = "then"
			}
			if err := r.caseOf(n, i, body, bodies[i]); err != nil {
				return err
			}
		}
		if otherwise == nil {
			return nil
		}
		n.Cases = append(n.Cases, flow.Case[recorded]{})
		return r.caseOf(n, len(n.Cases)-1, "otherwise", otherwise)
	})
}

// Parallel records branches that run at once, between what comes before and what follows. At most 7
// may have programs, on cores that no other branch uses, else the error is a
// [*program.SharedCoresError], and nothing else. No branch may use what another one writes, which
// isn't checked. Programs start in turn.
func (r *Recorder) Parallel(branches ...func() error) error {
	n := node{Name: "branches", Kind: flow.Divide, Cases: make([]flow.Case[recorded], len(branches))}
	return r.recordControl("parallel", n, nil, func(n *node) error {
		b := &r.control.branches
		defer func() { *b = nil }()
		for i := range branches {
			*b = append(*b, map[chip.Core]string{})
			if err := r.caseOf(n, i, fmt.Sprintf("branch %d", i), branches[i]); err != nil {
				return err
			}
			n.Cases[i].Lane.Rects, n.Cases[i].Lane.Workers = b.Rects(r.d.disp.Chip())
		}
		return nil
	})
}

func (r *Recorder) caseOf(n *node, i int, name string, body func() error) error {
	defer r.d.recordControl(name)()
	return r.bodyOf(&n.Cases[i].Body, body)
}

// Call records that another trace runs here, with its parameters at each replay. The called trace
// must have one part on this device, on this queue. The trace that is being recorded keeps what the
// called one holds; both may be released in any order. Calls nest up to cq.MaxCalls deep.
func (r *Recorder) Call(t *Trace) error {
	if err := r.call(t); err != nil {
		op := "call"
		if t != nil {
			op = fmt.Sprintf("call trace %q", t.name)
		}
		return r.refused(op, err)
	}
	return nil
}

func (r *Recorder) call(t *Trace) error {
	if t == nil {
		return errors.New("no trace: it is nil")
	}
	if err := r.flowAllowed(); err != nil {
		return err
	}
	leave, err := t.enter("call")
	if err != nil {
		return err
	}
	defer leave()
	i := slices.IndexFunc(t.parts, func(p *part) bool { return p.q == r.q })
	if i < 0 || len(t.partsOn(r.d)) != 1 {
		return fmt.Errorf("it has no part on queue %d of %s, or parts on other queues of the device as well: %w", r.q.ID(), r.d.name,
			ErrOtherQueue)
	}
	defer r.d.recordControl("call " + t.name)()
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.ended.Load() {
		return ErrCaptureEnded
	}
	callee := t.parts[i]
	if callee.prep.SubDevices != nil {
		return dispatch.ErrSubDevices
	}
	if d := callee.depth + 1; d > cq.MaxCalls {
		return fmt.Errorf("calls would nest %d deep, at most %d are possible", d, cq.MaxCalls)
	}
	if err := r.deepLocked(callee.loops); err != nil {
		return err
	}
	if err := r.part.holdCallee(callee); err != nil {
		return err
	}
	return r.addNodeLocked(node{Name: "call " + t.name, Kind: flow.Call, Rec: recorded{call: callee}})
}

func (p *part) holdCallee(o *part) error {
	if slices.Contains(p.callees, o) {
		return nil
	}
	if err := o.retain(); err != nil {
		return err
	}
	p.callees, p.kept = append(p.callees, o), append(p.kept, o)
	p.depth = max(p.depth, o.depth+1)
	return nil
}

func (r *Recorder) flowAllowed() error {
	if r.edges != nil && r.edges.any() {
		return errFlowEdges
	}
	if r.subs != nil {
		return dispatch.ErrSubDevices
	}
	if r.control.branches != nil {
		return errors.New("a branch of Parallel has programs only")
	}
	return r.q.q.ControlFlow()
}

var errFlowEdges = fmt.Errorf("a trace can't have both control flow and events between its queues: %w", ErrInCapture)

func (r *Recorder) recordControl(op string, n node, conds []Cond, record func(*node) error) error {
	err := r.beginControl(&n, conds)
	if err == nil {
		end := r.d.recordControl(label(&n))
		err = record(&n)
		end()
	}
	if c := (*CaptureError)(nil); errors.As(err, &c) {
		return err // of the body
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if err == nil {
		if r.c.err != nil {
			return r.c.err
		}
		if err = ErrCaptureEnded; !r.c.ended.Load() {
			err = r.addNodeLocked(n)
		}
	}
	if err != nil {
		return r.refusedLocked(op, err)
	}
	return nil
}

func label(n *node) string {
	if n.Kind == flow.Loop && n.Cond != nil {
		return fmt.Sprintf("%s, at most %d", n.Name, n.Count)
	}
	return n.Name
}

func (r *Recorder) beginControl(n *node, conds []Cond) error {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.ended.Load() {
		return ErrCaptureEnded
	}
	if err := r.flowAllowed(); err != nil {
		return err
	}
	for _, c := range conds {
		loops := r.control.deep
		if n.Kind == flow.Loop {
			loops++ // its own
		}
		fc, err := r.condLocked(c, loops)
		if err != nil {
			return err
		}
		if n.Kind == flow.Loop {
			n.Cond = fc
		} else {
			n.Cases = append(n.Cases, flow.Case[recorded]{Cond: fc})
		}
	}
	if n.Kind == flow.Loop {
		if r.control.loops > cq.MaxLoopNumber {
			return fmt.Errorf("the trace has %d loops already, and they have numbers up to %d: put some into a trace of their own and call it",
				r.control.loops, cq.MaxLoopNumber)
		}
		n.Loop = r.control.loops
		r.control.loops++
	}
	return nil
}

func (r *Recorder) condLocked(c Cond, loops int) (*flow.Cond, error) {
	if !c.Is.Valid() || c.Is == cq.Never {
		return nil, fmt.Errorf("comparison %v: use one of cq.Equal to cq.NoneSet", c.Is)
	}
	if c.Iteration != 0 {
		if c.Buffer != nil {
			return nil, fmt.Errorf("a condition of both an iteration and buffer %q: give one of them", c.Buffer.name)
		}
		if c.Iteration < 0 || c.Iteration > loops {
			return nil, fmt.Errorf("the iteration of loop %d from the innermost: %d loops are around the condition", c.Iteration, loops)
		}
		return &flow.Cond{Level: c.Iteration, Is: c.Is, Value: c.Value}, nil
	}
	w, err := r.wordLocked(c.Buffer, c.Offset)
	if err != nil {
		return nil, err
	}
	r.control.words = append(r.control.words, w)
	return &flow.Cond{NOC: w.noc, Addr: w.addr, Is: c.Is, Value: c.Value, Word: len(r.control.words) - 1}, nil
}

// wordLocked finds a word of a buffer and holds the buffer.
func (r *Recorder) wordLocked(b *Buffer, offset int) (w condWord, err error) {
	if err := b.checkDevice(r.d); err != nil {
		return w, err
	}
	if offset < 0 || offset%4 != 0 || offset+4 > b.Size() {
		return w, fmt.Errorf("a word at offset %d of buffer %q, which has %d B: take a multiple of 4 inside of it", offset, b.name, b.Size())
	}
	w = condWord{buf: b.whole(), off: b.mem.First*b.PageSize() + offset}
	if w.noc, w.addr, err = b.word(offset); err == nil {
		err = r.part.hold(b)
	}
	return w, err
}

func (b *Buffer) word(off int) (noc, addr uint32, err error) {
	at, _ := b.Page(off / b.PageSize())
	addr = at.Addr + uint32(off%b.PageSize())
	if b.Kind() == allocator.DRAM {
		bank := b.d.disp.Chip().DRAMBanks()[at.Bank]
		return b.d.Arch().NOCXY(bank.Endpoint[chip.NOC0]), addr + uint32(bank.Offset), nil
	}
	xy, err := b.d.Virtual(at.Core)
	return b.d.Arch().NOCXY(xy), addr, err
}

func (r *Recorder) loopOf(n *node, body func() error) error {
	enter := func(by int) error {
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		r.control.deep += by
		return r.deepLocked(0)
	}
	err := enter(1)
	if err == nil {
		err = r.bodyOf(&n.Body, body)
	}
	_ = enter(-1)
	return err
}

// deepLocked notes that loops nest more levels deep than are open.
func (r *Recorder) deepLocked(more int) error {
	n := r.control.deep + more
	if n > cq.MaxLoops {
		return fmt.Errorf("loops would nest %d deep, at most %d are possible", n, cq.MaxLoops)
	}
	r.part.loops = max(r.part.loops, n)
	return nil
}

func (r *Recorder) bodyOf(into *[]node, record func() error) error {
	if record == nil {
		return errors.New("no function to record with: it is nil")
	}
	r.c.mu.Lock()
	r.control.open = append(r.control.open, into)
	r.c.mu.Unlock()
	defer func() {
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		r.control.open = r.control.open[:len(r.control.open)-1]
	}()
	return record()
}

// addNodeLocked adds a node to the innermost open body, or encodes it if there is none.
func (r *Recorder) addNodeLocked(n node) error {
	if k := len(r.control.open); k > 0 {
		into := r.control.open[k-1]
		*into = append(*into, n)
		return nil
	}
	r.useControl()
	r.control.last = n
	return flow.Encode(encoder{r}, &n)
}

func (r *Recorder) useControl() {
	if r.control.used {
		return
	}
	r.control.used = true
	r.rec.Own()
	if r.rec.Len() == 0 {
		r.borrowScratch()
	}
}

func (c Cond) text() string {
	switch {
	case c.Iteration == 1:
		return fmt.Sprintf("iteration %v %d", c.Is, c.Value)
	case c.Iteration != 0:
		return fmt.Sprintf("iteration of loop %d out %v %d", c.Iteration, c.Is, c.Value)
	}
	return fmt.Sprintf("%s[%d] %v %d", c.Buffer.label(), c.Offset, c.Is, c.Value)
}

// encoder implements flow.Target.
type encoder struct{ *Recorder }

func (e encoder) State() dispatch.State     { return e.state }
func (e encoder) SetState(s dispatch.State) { e.state = s }
func (e encoder) Next() int                 { return e.rec.Len() }
func (e encoder) SetTarget(step, to int)    { e.rec.SetTarget(step, to) }

func (e encoder) Join(s dispatch.State) {
	if !s.SameKernels(&e.state) {
		e.state = e.state.ResetWithoutKernels()
	}
}

func (e encoder) Leaf(n *node) error {
	if n.Kind == flow.Call {
		return e.call(n)
	}
	x := e.part.programs[n.Rec.program]
	x.mu.RLock()
	defer x.mu.RUnlock()
	return e.runLocked(n, x)
}

func (e encoder) runLocked(n *node, x *Executable) error {
	if err := e.reads(n.Rec.reads); err != nil {
		return err
	}
	var err error
	e.rec.Reserve(x.image.RunBytes())
	e.rec.Add(n.Name, n.Rec.program, func(dst []byte) ([]byte, uint8) {
		run := &n.Rec
		dst, run.variant, err = x.image.AppendAgain(dst, run.commands, run.variant, e.stateOf(e.home), e.home, uint16(e.rec.Len()))
		return dst, uint8(run.variant)
	})
	if err != nil {
		return err
	}
	return e.addParams(n.Rec.params, e.lastStep().Offset+x.image.MainOffset(n.Rec.variant))
}

func (e encoder) SetLane(sub uint8, workers uint32) {
	e.home.Sub, e.home.Workers = sub, workers
}

func (e encoder) Divide(name string, lanes []flow.Lane, join bool) error {
	for i := range e.states {
		lanes[i].Expected = uint32(e.states[i].Expected)
	}
	l1 := &e.d.disp.WorkerLayout().L1
	d := flow.Division{ResetConfig: e.q.resetConfig(), Go: l1.Go, GoIndex: l1.GoIndex, Lanes: lanes}
	cmds, err := d.Append(nil, join)
	if err == nil {
		e.rec.AddControl(name, flow.Control{Kind: flow.Divide}, cmds)
	}
	e.state, e.states, e.home = e.d.disp.ReplayState(), nil, e.q.q.Dispatcher()
	return err
}

func (e encoder) Begun(n *node) error { return e.addParams(n.Rec.params, e.lastStep().Offset) }

func (e encoder) addParams(params []argParam, base int) error {
	for _, p := range params {
		if err := e.addParam(&p, base); err != nil {
			return fmt.Errorf("name parameter %q: %w", p.name, err)
		}
	}
	return nil
}

func (e encoder) reads(reads []argRead) error {
	for i := range reads {
		a := &reads[i]
		b := e.builder()
		for _, c := range a.commands() {
			a.word.at = len(e.rec.Bytes()) + b.Dispatch(cq.Master, c)
			e.part.conds = append(e.part.conds, a.word)
		}
		cmds, err := b.Finish()
		if err != nil {
			return err
		}
		e.rec.AddControl(fmt.Sprintf("argument from %s[%d]", a.buf.name, a.offset), flow.Control{Kind: flow.Args}, cmds)
	}
	return nil
}

// Reset implements flow.Target: with stall the prefetcher waits for it.
func (e encoder) Reset(stall bool) error {
	if !e.state.IsReset() {
		cmds, err := flow.AppendReset(nil, e.q.resetConfig(), uint32(e.state.Expected), stall)
		if err != nil {
			return err
		}
		e.rec.AddControl("reset", flow.Control{Kind: flow.Reset}, cmds)
	} else if stall {
		if err := e.stall("reset", 0); err != nil {
			return err
		}
	}
	e.state = e.state.Reset()
	return nil
}

func (e encoder) Stall() error { return e.stall("wait for results", uint32(e.state.Expected)) }

func (e encoder) stall(name string, expected uint32) error {
	cmds, err := flow.AppendStall(nil, e.q.resetConfig(), expected)
	if err == nil {
		e.rec.AddControl(name, flow.Control{Kind: flow.Reset}, cmds)
	}
	return err
}

func (e encoder) Command(name string, c flow.Control, p cq.PrefetchCommand, reads *flow.Cond) (int, error) {
	if reads != nil && reads.Level == 0 {
		word := e.control.words[reads.Word]
		word.at = len(e.rec.Bytes())
		e.part.conds = append(e.part.conds, word)
	}
	b := e.builder()
	b.Append(p)
	cmds, err := b.Finish()
	if err != nil {
		return 0, err
	}
	return e.rec.AddControl(name, c, cmds), nil
}

func (e encoder) builder() cq.Builder { return cq.NewBuilder(cq.Layout(e.d.Arch()), nil) }

// Kernels implements flow.Target. Without room for all kernels, each iteration sends them again.
func (e encoder) Kernels(n *node) {
	var images []*dispatch.Image
	calls := false
	n.Inside(func(n *node) {
		calls = calls || n.Kind == flow.Call || n.Kind == flow.Divide // they bring their own kernels
		if n.Kind == flow.None {
			if im := e.part.programs[n.Rec.program].image; !slices.Contains(images, im) {
				images = append(images, im)
			}
		}
	})
	if calls || !program.FitKernels(e.state, images) {
		e.state = e.state.ResetWithoutKernels()
		return
	}
	for _, im := range images {
		if cmds := im.AppendKernels(nil, &e.state, e.q.q.Dispatcher()); len(cmds) > 0 {
			program := slices.IndexFunc(e.part.programs, func(x *Executable) bool { return x.image == im })
			e.rec.AddControl("kernels of "+im.Name(), flow.Control{Kind: flow.Kernels, Program: program}, cmds)
		}
	}
}

func (e encoder) call(n *node) error {
	if err := e.Reset(false); err != nil {
		return err
	}
	p := n.Rec.call
	call := flow.Control{Kind: flow.Call, Callee: slices.Index(e.part.callees, p)}
	if _, err := e.Command(n.Name, call, p.image.Call(uint32(p.ext.Addr)), nil); err != nil {
		return err
	}
	e.state = e.d.disp.After(p.prep.After)
	return nil
}
