package reprise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/tracebuf"
	"github.com/reprise-tt/reprise/tracebuf/flow"
)

type part struct {
	q        *Queue
	name     string      // the trace's name
	arena    *singlePart // of a recorded trace with one part, else nil
	several  bool        // the trace has other parts
	image    *tracebuf.Image
	programs []*Executable // by Step.Program; their kernels are held
	buffers  []*Buffer     // held for programs, in order of first use
	holding  map[*Buffer]struct{}
	params   params
	loaded   *fileContents // nil unless loaded from a file

	callees []*part
	conds   []condWord // in the order of the commands
	depth   int        // nesting depth of calls
	loops   int        // nesting depth of loops, callees included

	ext     allocator.Extent
	subs    *dispatch.SubDevices // when it was recorded
	cbEnd   uint64
	kept    []any // see releaseKept
	prep    dispatch.Prepared
	patches [2]dispatch.CountPatch // prep.Counts
	afters  [1]dispatch.SubAfter
	site    uintptr // call site for the allocator; 0 if unknown

	// Guarded by params.mu.
	state       partState
	callers     int  // parts that call it and are not dropped
	imageShared bool // the image was handed out, so its memory isn't recycled
}

// partState only increases, and may skip states.
type partState uint8

const (
	partNew     partState = iota
	partWritten           // writes to its memory are in its queue
	partLive              // part of a trace
	partCalled            // released by the user, kept by callers
	partReleased
	partRecycled // another trace has the image's memory
)

func (p *part) move(to partState) {
	p.params.mu.Lock()
	defer p.params.mu.Unlock()
	p.moveLocked(to)
}

// moveLocked reports whether the state was lower before.
func (p *part) moveLocked(to partState) bool {
	if to <= p.state {
		return false
	}
	p.state = to
	return true
}

// fileContents is what the first part of a device has of its file.
type fileContents struct {
	buffers []*Buffer       // by their number in the file
	results []tracebuf.Data // what buffers hold after a replay
	setup   *tracebuf.Setup
}

func allCallees(parts ...*part) []*part {
	var out []*part
	var visit func(p *part)
	visit = func(p *part) {
		for _, o := range p.called() {
			if !slices.Contains(out, o) {
				visit(o)
				out = append(out, o)
			}
		}
	}
	for _, p := range parts {
		visit(p)
	}
	return out
}

// called returns the direct callees; none after drop.
func (p *part) called() []*part {
	p.params.mu.Lock()
	defer p.params.mu.Unlock()
	return p.callees
}

func (p *part) where() string { return fmt.Sprintf("queue %d of %s", p.q.ID(), p.q.d.name) }

func (p *part) label(s string) string {
	if p.several {
		return fmt.Sprintf("%s on queue %d", s, p.q.ID())
	}
	return s
}

func (p *part) hold(b *Buffer) error {
	if _, ok := p.holding[b]; ok {
		return nil
	}
	if err := p.keep(b); err != nil {
		return err
	}
	if p.holding == nil {
		p.holding = map[*Buffer]struct{}{}
	}
	p.holding[b] = struct{}{}
	p.buffers = append(p.buffers, b)
	return nil
}

func (p *part) keep(b *Buffer) error {
	if err := p.q.d.mem.Hold(b.owned()); err != nil {
		return err
	}
	p.kept = append(p.kept, heldBuffer{b})
	return nil
}

func (p *part) holdProgram(x *Executable) error {
	if err := p.q.d.mem.Hold(x.bin); err != nil {
		return err
	}
	p.addProgram(x)
	for _, h := range x.hosts {
		if err := h.hold(p.q.d, p, fmt.Sprintf("trace %q", p.name)); err != nil {
			return err
		}
		p.kept = append(p.kept, h)
	}
	return p.holdCircular(x.cbEnd)
}

func (p *part) addProgram(x *Executable) {
	p.q.d.disp.HoldPrints(x.image)
	p.programs, p.kept = append(p.programs, x), append(p.kept, x)
}

func (p *part) holdCircular(end uint64) error {
	if end <= p.cbEnd {
		return nil
	}
	if err := p.q.d.cbs.Move(p.cbEnd, end); err != nil {
		return err
	}
	p.cbEnd = end
	return nil
}

func (p *part) request() allocator.Request {
	if p.site == 0 {
		p.site = userPC()
	}
	return allocator.Request{
		Kind: allocator.Trace, Size: uint64(p.size()), PageSize: uint64(p.image.PageSize), Owner: p.name, Tag: "trace", Site: p.site,
	}
}

func (p *part) allocate() error {
	var err error
	if p.ext, err = p.q.d.mem.Allocate(p.request()); err != nil {
		return p.noRoom(p.size(), err)
	}
	return nil
}

func (p *part) noRoom(n int, err error) error {
	d := p.q.d
	var oom *allocator.OutOfMemoryError
	if !errors.As(err, &oom) || oom.TraceRegion == 0 {
		return fmt.Errorf("trace needs %d B on %s: %w", n, d.name, err)
	}
	return fmt.Errorf("trace needs %d B on %s, the trace region holds %d B: open the device with reprise.WithTraceRegion(%d): %w",
		n, d.name, oom.Total*uint64(oom.Banks), oom.TraceRegion, err)
}

func (p *part) place(ctx context.Context, afters ...dispatch.SubAfter) error {
	d := p.q.d
	config, to := p.q.replayConfig(p.image, p.ext, afters...), []byte(nil)
	if p.arena != nil {
		to = p.arena.replay[:0]
	}
	replay, err := config.Append(to)
	if err != nil {
		return err
	}
	p.prep = dispatch.Prepared{
		Queue: p.q.q, Name: p.name, Bytes: replay.Bytes, Image: p.image.Bytes[:p.image.Size],
		After: afters[0].After, Sub: afters[0].Sub, More: afters[1:], SubDevices: p.subs,
		Counts: counts(p.patches[:0], &config, &replay),
	}
	if len(afters) == 1 {
		p.prep.More = nil
	}
	if len(p.params.patches.All()) > 0 {
		p.params.patches.Place(p.image, int(d.disp.Chip().Params().Align.DRAMWrite))
		p.prep.Image = slices.Clone(p.prep.Image) // hang reports read it while parameters are set
	}
	if p.image.HasControl() {
		p.prep.Flow = p.flow()
	}
	iv := interleaved(p.ext)
	p.move(partWritten)
	// The queue's later commands wait for the write in the prefetcher; the host doesn't.
	return p.q.q.WriteSettled(ctx, &iv, 0, p.q.q.TraceBytes(p.image.Bytes))
}

func (q *Queue) replayConfig(im *tracebuf.Image, e allocator.Extent, afters ...dispatch.SubAfter) tracebuf.ReplayConfig {
	c := tracebuf.ReplayConfig{ResetConfig: q.resetConfig(), Addr: uint32(e.Addr), PageSize: im.PageSize, Pages: im.Pages()}
	s := q.q.SubDevices()
	for i, a := range afters {
		if s == nil {
			break
		}
		one := c.ResetConfig
		if one.Sub, one.Workers = a.Sub, s.Workers(a.Sub); i == 0 {
			c.ResetConfig = one
		} else {
			c.Others = append(c.Others, one)
		}
	}
	return c
}

func (q *Queue) resetConfig() flow.ResetConfig {
	core := q.q.DispatchCore()
	return flow.ResetConfig{
		Layout: cq.Layout(q.d.Arch()), DispatchX: core.X, DispatchY: core.Y, Workers: uint32(q.q.Workers().Size()),
		Stream: uint16(q.d.disp.Chip().Params().Stream.FirstDispatch), Packed: q.d.disp.PackedPage() > 0,
	}
}

// counts appends the words of a replay that depend on the queue's expected counts.
func counts(out []dispatch.CountPatch, c *tracebuf.ReplayConfig, r *tracebuf.Replay) []dispatch.CountPatch {
	out = append(out, dispatch.CountPatch{At: r.GoCount, Sub: c.Sub},
		dispatch.CountPatch{At: r.WaitCount, Add: cq.Count(c.Workers), Sub: c.Sub})
	for i, o := range r.Others {
		sub := c.Others[i].Sub
		out = append(out, dispatch.CountPatch{At: o.Go, Sub: sub},
			dispatch.CountPatch{At: o.Wait, Add: cq.Count(c.Others[i].Workers), Sub: sub})
	}
	return out
}

func (p *part) register(as partState) error {
	d := p.q.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	d.parts[p] = struct{}{}
	p.move(as)
	return nil
}

func (p *part) contents() ([]*Executable, dispatch.Content) {
	return p.programs, content("trace "+p.name, p.ext, p.q.q.TraceBytes(p.commands()))
}

func (p *part) unregister() {
	d := p.q.d
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.parts, p)
}

func (p *part) replayError(err error) error {
	if errors.Is(err, dispatch.ErrRevoked) {
		err = ErrReleased
	}
	return p.q.d.objectError("replay trace", p.name, overlap(err))
}

func (p *part) release(ctx context.Context) error {
	if p.stateNow() > partLive {
		return nil
	}
	d := p.q.d
	d.work.RLock()
	defer d.work.RUnlock()
	p.q.q.Revoke(&p.prep)
	if err := p.q.await(ctx); err != nil {
		return d.objectError("release trace", p.name, fmt.Errorf("%w; call Release again", err))
	}
	return p.leave(0)
}

// leave notes that callers were dropped, or with 0 the user's release. The last one ends the part.
func (p *part) leave(callers int) error {
	p.params.mu.Lock()
	p.callers -= callers
	if callers == 0 {
		p.moveLocked(partCalled)
	}
	ends := p.callers == 0 && p.state != partLive && p.moveLocked(partReleased)
	p.params.mu.Unlock()
	if !ends {
		return nil
	}
	p.unregister()
	err := p.drop()
	p.recycleImage()
	if err != nil {
		return fmt.Errorf("reprise: release trace %q: %w", p.name, err)
	}
	return nil
}

// recycleImage recycles the memory of commands that are not shared.
func (p *part) recycleImage() {
	if p.arena == nil {
		return
	}
	p.q.q.Forget(&p.prep)
	p.params.mu.Lock()
	mine := !p.imageShared && p.moveLocked(partRecycled)
	p.params.mu.Unlock()
	if mine {
		p.q.d.spares.give(p.image.Bytes)
	}
}

func (p *part) stateNow() partState {
	p.params.mu.Lock()
	defer p.params.mu.Unlock()
	return p.state
}

func (p *part) retain() error {
	p.params.mu.Lock()
	defer p.params.mu.Unlock()
	if p.state > partLive {
		return ErrReleased
	}
	p.callers++
	return nil
}

func (p *part) extents() []tracebuf.Extent {
	p.params.mu.Lock()
	defer p.params.mu.Unlock()
	return p.image.Extents(p.ext.Addr, int(p.ext.Banks))
}

func (p *part) discard(ctx context.Context, others ...*Queue) error {
	p.unregister()
	written := func(p *part) bool { return p.stateNow() >= partWritten }
	if slices.ContainsFunc(append(allCallees(p), p), written) || len(others) > 0 {
		others = append(others, p.q)
	}
	return p.q.d.freeAfter(ctx, p.drop, others...)
}

func (p *part) drop() error {
	mem := p.q.d.mem
	p.params.mu.Lock()
	kept, ext, cbEnd := p.kept, p.ext, p.cbEnd
	p.kept, p.callees, p.ext, p.cbEnd = nil, nil, allocator.Extent{}, 0
	p.params.mu.Unlock()
	var errs []error
	for _, one := range kept {
		errs = append(errs, p.releaseKept(one))
	}
	errs = append(errs, p.params.drop(mem))
	if !ext.IsZero() {
		errs = append(errs, mem.Free(ext))
	}
	errs = append(errs, p.q.d.cbs.Shrink(cbEnd))
	return errors.Join(errs...)
}

type heldBuffer struct{ *Buffer }

func (p *part) releaseKept(one any) error {
	mem := p.q.d.mem
	switch one := one.(type) {
	case *Executable: // kernels and prints
		p.q.d.disp.DropPrints(one.image)
		return mem.Unhold(one.bin)
	case heldBuffer:
		return mem.Unhold(one.owned())
	case *HostBuffer:
		one.unhold(p)
	case *part: // callee
		return one.leave(1)
	case *Buffer: // allocated by loading
		if !one.freed.Swap(true) {
			return mem.Free(one.ext)
		}
	}
	return nil
}

// use counts the users of a trace's memory, for a release to wait for. It is no lock: while a trace
// is stepped through, it may also be read, verified and saved.
type use struct {
	mu        sync.Mutex
	n         int
	alone     bool          // the trace is being stepped through or checked
	idle      chan struct{} // closed when n falls to 0; nil unless a release waits
	releasing bool
	released  bool

	freeing sync.Mutex // held by a release
}

func (u *use) enter(alone bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.released || u.releasing {
		return ErrReleased
	}
	u.n++
	u.alone = u.alone || alone
	return nil
}

func (u *use) leave(alone bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if alone {
		u.alone = false
	}
	if u.n--; u.n == 0 && u.idle != nil {
		close(u.idle)
		u.idle = nil
	}
}

// close refuses new users and waits for the others.
func (u *use) close(ctx context.Context) error {
	idle, err := u.closing()
	if err != nil || idle == nil {
		return err
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("it is in use: %w; call Release again", context.Cause(ctx))
	}
}

// closing returns the channel to wait on; nil without users.
func (u *use) closing() (<-chan struct{}, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.released {
		return nil, ErrReleased
	}
	if u.alone {
		return nil, ErrReserved
	}
	u.releasing = true
	if u.n > 0 && u.idle == nil {
		u.idle = make(chan struct{})
	}
	return u.idle, nil
}

func (u *use) done() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.released = true
}

func (t *Trace) enter(op string) (leave func(), err error) {
	what := fmt.Sprintf("%s trace %q", op, t.name)
	for i := range t.calls {
		if err := t.calls[i].d.usable(what); err != nil {
			return nil, err
		}
	}
	u := &t.owner().use
	if err := u.enter(false); err != nil {
		return nil, fmt.Errorf("reprise: %s: %w", what, err)
	}
	return func() { u.leave(false) }, nil
}
