package reprise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/debug"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

// Debug returns the trace's debugger. It steps through the trace, splits it, checks it against its
// programs run one by one, bisects it, times its programs and compares device memory with what was
// recorded. For a trace over several devices only the comparison is possible, because programs of
// different devices may wait for each other: take the Subset of one device.
func (t *Trace) Debug() *debug.Debugger { return debug.New(debugTrace{t}) }

type debugTrace struct{ t *Trace }

func (d debugTrace) Name() string { return d.t.name }

func (d debugTrace) Parts() []debug.Part {
	all := d.t.everyPart()
	out := make([]debug.Part, len(all))
	for i, p := range all {
		p.params.mu.Lock()
		p.imageShared = true
		out[i] = debug.Part{Queue: p.q.ID(), Image: p.image, Banks: p.q.d.DRAMBanks(), Loaded: p.loaded != nil, Addr: uint32(p.ext.Addr)}
		p.params.mu.Unlock()
		for _, o := range p.called() {
			out[i].Callees = append(out[i].Callees, slices.Index(all, o))
		}
		if i >= len(d.t.parts) {
			out[i].Called, out[i].Name = true, p.name
			out[i].Home = slices.IndexFunc(d.t.parts, func(o *part) bool { return o.q == p.q })
		}
	}
	return out
}

func (t *Trace) everyPart() []*part { return append(slices.Clip(t.parts), allCallees(t.parts...)...) }

func (d debugTrace) Inside(ctx context.Context, op string, f func(debug.Memory) error) error {
	t := d.t
	leave, err := t.enter(op)
	if err != nil {
		return err
	}
	defer leave()
	for i, p := range t.everyPart() {
		err := p.flush(ctx, false)
		if err == nil && i > 0 && i < len(t.parts) { // results are read by the first queue
			err = p.q.await(ctx)
		}
		if err != nil {
			return p.q.d.objectError(op+" trace", t.name, err)
		}
	}
	return t.debugError(op, f(d))
}

func (t *Trace) debugError(op string, err error) error {
	d, what := t.parts[0].q.d, fmt.Sprintf("%s trace %q", op, t.name)
	named := errors.As(err, new(*debug.StepError)) || errors.As(err, new(*debug.CheckError)) || errors.As(err, new(*debug.VerifyError))
	if named && d.usable(what) == nil {
		return err
	}
	return d.opError(what, overlap(err))
}

func (d debugTrace) Exclusive(ctx context.Context, op string, f func(debug.Session) error) error {
	t, what := d.t, fmt.Sprintf("%s trace %q", op, d.t.name)
	dev := t.parts[0].q.d
	if err := dev.usable(what); err != nil {
		return err
	}
	if len(t.calls) > 1 {
		return fmt.Errorf("reprise: %s: it has parts on %d devices: take the Subset of one device: %w",
			what, len(t.calls), errors.ErrUnsupported)
	}
	s := &debugSession{t: t, d: dev, parts: t.everyPart()}
	for _, p := range t.parts {
		if p.subs != nil {
			return fmt.Errorf("reprise: %s: %w", what, dispatch.ErrSubDevices)
		}
		if err := dev.refuse(ctx, p.q, opDebug, t.name); err != nil {
			return err
		}
	}
	for _, p := range t.parts {
		r, err := p.q.q.Reserve()
		if err != nil {
			return dev.opError(what, err)
		}
		defer r.Release()
		s.rs, s.starts = append(s.rs, r), append(s.starts, r.Starts())
	}
	if len(t.parts) > 1 { // commands of one queue mustn't overtake earlier ones of another
		for i := range t.parts {
			if err := s.Wait(ctx, i); err != nil {
				return dev.opError(what, err)
			}
		}
	}
	u := &t.owner().use
	if err := u.enter(true); err != nil {
		return fmt.Errorf("reprise: %s: %w", what, err)
	}
	defer u.leave(true)
	for _, p := range s.parts {
		if err := p.flush(ctx, false); err != nil {
			return dev.opError(what, err)
		}
		s.commands = append(s.commands, p.image.InTurn(p.commands(), p.q.resetConfig(), &dev.disp.WorkerLayout().L1))
	}
	return t.debugError(op, f(s))
}

type debugSession struct {
	t        *Trace
	d        *Device
	parts    []*part                 // those of the trace, then what they call
	rs       []*dispatch.Reservation // by part
	starts   []uint64                // of the queues, when the session began
	commands [][]byte                // of each of parts
}

func (s *debugSession) Restarted() error {
	for i, r := range s.rs {
		if r.Starts() != s.starts[i] {
			return fmt.Errorf("the device was recovered in between, so that nothing can follow: %w", ErrRecovering)
		}
	}
	return nil
}

func (s *debugSession) Commands(part int) []byte { return s.commands[part] }

func (s *debugSession) Wait(ctx context.Context, part int) error { return s.parts[part].q.await(ctx) }

func (s *debugSession) Replay(ctx context.Context) error { return s.t.batch.SubmitReserved(ctx, s.rs) }

func (s *debugSession) Head(ctx context.Context, part int) error {
	p := s.parts[part]
	config := p.q.replayConfig(p.image, p.ext)
	head, err := tracebuf.NewReplay(config)
	if err != nil {
		return err
	}
	return s.rs[part].Commands(ctx, p.name, head.Bytes[:head.ExecBuf], counts(nil, &config, head), p.q.q.Dispatcher().After(0))
}

func (s *debugSession) Send(ctx context.Context, part int, name string, commands []byte, programs int) error {
	return s.rs[part].Commands(ctx, name, commands, nil, s.parts[part].q.q.Dispatcher().After(programs))
}

func (s *debugSession) Word(ctx context.Context, part, at int) (uint32, error) {
	p := s.parts[part]
	i := slices.IndexFunc(p.conds, func(c condWord) bool { return c.at == at })
	if i < 0 {
		return 0, fmt.Errorf("there is no condition at %#x of the commands", at)
	}
	var word [4]byte
	c := &p.conds[i]
	err := c.buf.read(ctx, p.q.q, c.off, word[:])
	return cq.Get32(word[:], 0), err
}

func (s *debugSession) Run(ctx context.Context, i, step int) error {
	p := s.parts[i]
	at, steps, commands := &p.image.Steps[step], p.image.Steps[:step], s.commands[i]
	for len(steps) > 0 && steps[len(steps)-1].Control.Kind == flow.Args {
		steps = steps[:len(steps)-1]
	}
	reads := commands[p.image.Steps[len(steps)].Offset:at.Offset]
	r := s.rs[slices.IndexFunc(s.t.parts, func(o *part) bool { return o.q == p.q })]
	return r.RunAgain(ctx, p.programs[at.Program].image, reads, commands[at.Offset:at.Offset+at.Size], dispatch.Variant(at.Variant))
}

func (s *debugSession) Edge(part int, recorded []uint32, e tracebuf.Edge, programs int) ([]byte, error) {
	q := s.parts[part].q
	var peers []tracebuf.Peer
	for i, p := range s.t.parts {
		if i != part {
			peers = append(peers, tracebuf.Peer{Dispatcher: p.q.dispatcher(), Recorded: recorded[i]})
		}
	}
	return q.edge(nil, peers, e, q.q.Dispatcher().After(programs).Expected)
}

func (s *debugSession) Stamp(ctx context.Context, part int) (func() (uint64, bool), error) {
	e := s.d.disp.NewEvent(s.t.name, true)
	return e.DeviceTime, s.parts[part].q.q.Record(ctx, e, 0)
}

func (s *debugSession) Recover(ctx context.Context) error { return s.d.Recover(ctx) }

func (s *debugSession) Hangs(err error) bool {
	var h *dispatch.HangError
	return errors.As(err, &h)
}

func (s *debugSession) Buffers() []debug.Buffer {
	var out []debug.Buffer
	for _, b := range s.t.Buffers() {
		out = append(out, debugBuffer{b, s.parts[0].q.q})
	}
	return out
}

func (s *debugSession) Verify(ctx context.Context, part int) error {
	return debug.Compare(ctx, s.t.name, []debug.Region{s.parts[part].commandRegion(s.parts[part].commands())})
}

type debugBuffer struct {
	*Buffer
	q *dispatch.Queue
}

func (b debugBuffer) Read(ctx context.Context, dst []byte) error   { return b.read(ctx, b.q, 0, dst) }
func (b debugBuffer) Write(ctx context.Context, data []byte) error { return b.write(ctx, b.q, 0, data) }

type placed struct {
	s       *debugSession
	pieces  []debug.Piece
	extents []allocator.Extent
	batch   *dispatch.Batch
	busy    []*Queue // that may write to its memory, or run what lies there
}

func (s *debugSession) Place(ctx context.Context, pieces []debug.Piece) (debug.Placed, error) {
	p := &placed{s: s, pieces: pieces}
	prepared, err := make([]*dispatch.Prepared, len(pieces)), error(nil)
	for i := 0; i < len(pieces) && err == nil; i++ {
		prepared[i], err = p.place(ctx, &pieces[i])
	}
	if err == nil {
		p.batch, err = dispatch.NewBatch(prepared...)
	}
	if err != nil {
		return nil, errors.Join(err, p.Release(ctx))
	}
	return p, nil
}

func (p *placed) place(ctx context.Context, piece *debug.Piece) (*dispatch.Prepared, error) {
	t, im := p.s.parts[piece.Part], piece.Image
	ext, err := t.q.d.mem.Allocate(allocator.Request{
		Kind: allocator.Trace, Size: uint64(len(im.Bytes)), PageSize: uint64(im.PageSize), Owner: t.name, Tag: "part of a trace",
	})
	if err != nil {
		return nil, t.noRoom(len(im.Bytes), err)
	}
	p.extents = append(p.extents, ext)
	config := t.q.replayConfig(im, ext)
	replay, err := tracebuf.NewReplay(config)
	if err != nil {
		return nil, err
	}
	prep := &dispatch.Prepared{
		Queue: t.q.q, Name: t.name, Bytes: replay.Bytes[replay.ExecBuf:], Image: im.Bytes[:im.Size], After: t.q.q.Dispatcher().After(piece.After),
	}
	if piece.Before == 0 {
		prep.Bytes, prep.Counts = replay.Bytes, counts(nil, &config, replay)
	}
	iv := interleaved(ext)
	p.busy = []*Queue{t.q} // it has waited for the others
	if err := t.q.q.Write(ctx, &iv, 0, t.q.q.TraceBytes(im.Bytes)); err != nil {
		return nil, err
	}
	if err := t.q.await(ctx); err != nil {
		return nil, err
	}
	p.busy = nil
	return prep, nil
}

func (p *placed) Run(ctx context.Context) error {
	for i := range p.pieces {
		p.busy = append(p.busy, p.s.parts[p.pieces[i].Part].q)
	}
	if err := p.batch.SubmitReserved(ctx, p.s.rs); err != nil {
		return err
	}
	for i := range p.pieces {
		if err := p.s.Wait(ctx, p.pieces[i].Part); err != nil {
			return err
		}
	}
	p.busy = nil
	return nil
}

func (p *placed) Release(ctx context.Context) error {
	return p.s.d.freeAfter(ctx, func() error {
		var errs []error
		for _, e := range p.extents {
			errs = append(errs, p.s.d.mem.Free(e))
		}
		return errors.Join(errs...)
	}, p.busy...)
}

func (p *part) region(what string, e allocator.Extent, want []byte) debug.Region {
	iv := interleaved(e)
	return debug.Region{What: p.label(what), Want: want,
		Read: func(ctx context.Context, dst []byte) error { return p.q.q.Read(ctx, &iv, 0, dst) }}
}

func (p *part) commandRegion(commands []byte) debug.Region {
	return p.region("the commands", p.ext, p.q.q.TraceBytes(commands))
}

func (d debugTrace) Regions() []debug.Region {
	var out []debug.Region
	for _, p := range d.t.everyPart() {
		out = append(out, p.commandRegion(p.commands()))
		for _, x := range p.programs {
			out = append(out, p.region(fmt.Sprintf("the kernels of %q", x.Name()), x.bin, x.image.Binary()))
		}
	}
	return out
}

func (d debugTrace) Results() []debug.Region {
	var out []debug.Region
	for _, p := range d.t.parts { // the first of each device has them
		if p.loaded == nil {
			continue
		}
		for i := range p.loaded.results {
			r := &p.loaded.results[i]
			b := p.loaded.buffers[r.Buffer]
			out = append(out, debug.Region{
				What: fmt.Sprintf("the results in %q", b.name), Offset: r.Offset, Want: r.Bytes,
				Read: func(ctx context.Context, dst []byte) error { return b.read(ctx, p.q.q, r.Offset, dst) },
			})
		}
	}
	return out
}

type controlLog struct {
	q       *Queue
	ext     allocator.Extent
	entries uint32
	starts  uint64 // of the queue, when the log began
	stopped bool
}

func (d debugTrace) LogControl(part, entries int) (debug.ControlLog, error) {
	q := d.t.parts[part].q
	l, err := q.logControl(entries)
	if err != nil {
		return nil, q.d.opError(fmt.Sprintf("log the control flow of queue %d", q.ID()), err)
	}
	return l, nil
}

func (q *Queue) logControl(entries int) (*controlLog, error) {
	if entries <= 0 || entries > math.MaxInt32/cq.TurnSize {
		return nil, fmt.Errorf("a log of %d entries: want 1 to %d", entries, math.MaxInt32/cq.TurnSize)
	}
	if err := q.q.ControlFlow(); err != nil {
		return nil, err
	}
	l := &controlLog{q: q, entries: uint32(entries), starts: q.q.Starts()}
	if !q.logged.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("the queue has a log already: stop it first: %w", ErrReserved)
	}
	size := uint64(entries) * cq.TurnSize // one page, so that it lies in one bank
	var err error
	if l.ext, err = q.d.mem.Allocate(allocator.Request{
		Kind: allocator.DRAM, Size: size, PageSize: size, Owner: "log of control flow", Tag: "control", Site: userPC(),
	}); err == nil {
		if err = q.q.LogControl(l.ext.Addr, l.entries); err != nil {
			err = errors.Join(err, q.d.mem.Free(l.ext))
		}
	}
	if err != nil {
		q.logged.Store(false)
		return nil, err
	}
	return l, nil
}

func (l *controlLog) Stop(ctx context.Context) (log []cq.TurnEntry, dropped int, err error) {
	log, dropped, err = l.stop(ctx)
	return log, dropped, l.q.d.opError(fmt.Sprintf("read the log of control flow of queue %d", l.q.ID()), err)
}

func (l *controlLog) stop(ctx context.Context) (log []cq.TurnEntry, dropped int, err error) {
	q := l.q
	if l.stopped {
		return nil, 0, errors.New("it was stopped before")
	}
	if err := q.q.LogControl(0, 0); err != nil {
		return nil, 0, err
	}
	if err := q.await(ctx); err != nil {
		return nil, 0, err // a queue that hangs may still write there
	}
	if q.q.Starts() == l.starts { // what was there before is forgotten
		log, dropped, err = q.q.ReadControlLog(l.ext.Addr, l.entries)
	}
	l.stopped = true
	q.logged.Store(false)
	return log, dropped, errors.Join(err, q.d.mem.Free(l.ext))
}

// flow describes the part and its callees for hang reports.
func (p *part) flow() *postmortem.Trace {
	t := &postmortem.Trace{Name: p.name, Addr: uint32(p.ext.Addr), Image: p.prep.Image, Steps: p.image.Steps,
		Patched: len(p.params.patches.All()) > 0}
	for _, x := range p.programs { // none if the trace is loaded from a file
		t.Cores = append(t.Cores, x.image.Bounds())
	}
	for _, o := range p.called() {
		c := o.prep.Flow
		if c == nil {
			c = o.flow()
		}
		t.Calls = append(t.Calls, c)
	}
	return t
}
