package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/reprise-tt/reprise/dispatch/cq"
)

// A trace may have parts on several queues of a device, with edges between them. Event ids can't
// express these, because the commands in DRAM are the same at every replay. So each dispatch core
// has an edge word for each queue that records ([Queue.EdgeWord]), which starts from 0 at every
// replay:
//
//  - A part ends by waiting for all recordings of the others, and then clears its own core's words.
//  - After each part an event is recorded, for which the next replay's parts of the others wait.
//
// All parts are put into their queues with all queues locked, so edges only go forwards.

// EdgeWord returns the L1 address, a multiple of 16, at which dispatch cores count the queue's
// recordings in a trace over several queues.
func (q *Queue) EdgeWord() uint32 { return q.d.ctl.EdgeWord[q.id] }

// Batch is prepared commands for queues of one or several devices, submitted as one: all queues
// take their part or none. Several goroutines may submit a Batch.
type Batch struct {
	// Guarded by the locks of all queues:
	parts  []batchPart
	errs   []error
	failed bool

	locks   []*Queue // in locking order
	devices int
	linked  bool // some parts share a device

	one struct {
		part [1]batchPart
		err  [1]error
		lock [1]*Queue
	}
}

type batchPart struct {
	*Prepared
	offset   uint32 // in the issue ring
	acquired bool
}

type peerWait struct {
	peer *Queue
	at   int // of the id in Prepared.Bytes
}

type partEnd struct {
	start uint64
	id    cq.Seq
}

// ErrSkipped is the error of a part that wasn't submitted because another queue of the batch
// failed.
var ErrSkipped = errors.New("not submitted, because another queue of the batch couldn't take its part")

// BatchError is returned when a batch over several devices was submitted in part or not at all.
type BatchError struct {
	// Errs has the error of each part: nil for a submitted part, ErrSkipped for one that another
	// held back.
	Errs []error

	queues []*Queue
}

func (e *BatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dispatch: submit to %d queues", len(e.Errs))
	for i, err := range e.Errs {
		if err != nil {
			q := e.queues[i]
			fmt.Fprintf(&b, "; %v queue %d: %v", q.d.kd, q.id, err)
		}
	}
	return b.String()
}

func (e *BatchError) Unwrap() []error {
	return slices.DeleteFunc(slices.Clone(e.Errs), func(err error) bool { return err == nil })
}

// NewBatch joins prepared commands, one Prepared for each queue. Parts on queues of one device are
// linked: each begins with a wait for the others' parts of the previous submission. A linked
// Prepared can't be joined again; [Batch.Subset] takes it into further batches.
func NewBatch(parts ...*Prepared) (*Batch, error) {
	if err := joinable(parts); err != nil {
		return nil, err
	}
	if len(parts) > 1 {
		if err := link(parts); err != nil {
			return nil, err
		}
	}
	return newBatch(parts)
}

// Init is [NewBatch] of one Prepared in the caller's memory, which must not be copied afterwards.
func (b *Batch) Init(p *Prepared) error {
	if err := joinable([]*Prepared{p}); err != nil {
		return err
	}
	b.init(p)
	return nil
}

func joinable(parts []*Prepared) error {
	for i, p := range parts {
		if p == nil || p.Queue == nil {
			return fmt.Errorf("dispatch: join a batch: part %d has no queue", i)
		}
		if p.peers != nil {
			return fmt.Errorf("dispatch: join a batch: %s is linked with other queues' parts already", p.Name)
		}
		for _, o := range parts[:i] {
			if o.Queue == p.Queue {
				return fmt.Errorf("dispatch: join a batch: %s and %s are both for queue %d", o.Name, p.Name, p.Queue.id)
			}
			if p.Queue.shared && o.Queue.set == p.Queue.set {
				return fmt.Errorf("dispatch: join a batch: queues %d and %d start the same workers: give them workers of their own", o.Queue.id,
					p.Queue.id)
			}
		}
	}
	return nil
}

func newBatch(parts []*Prepared) (*Batch, error) {
	if len(parts) == 0 {
		return nil, errors.New("dispatch: join a batch: no parts")
	}
	if len(parts) == 1 {
		b := new(Batch)
		b.init(parts[0])
		return b, nil
	}
	b := &Batch{parts: make([]batchPart, len(parts)), errs: make([]error, len(parts))}
	devices := map[*machine]bool{}
	for i, p := range parts {
		b.parts[i].Prepared = p
		b.locks = append(b.locks, p.Queue)
		devices[p.Queue.d] = true
		b.linked = b.linked || p.peers != nil
	}
	slices.SortFunc(b.locks, (*Queue).Compare)
	b.devices = len(devices)
	return b, nil
}

func (b *Batch) init(p *Prepared) {
	b.devices = 1
	b.one.part[0].Prepared, b.one.lock[0] = p, p.Queue
	b.parts, b.errs, b.locks = b.one.part[:], b.one.err[:], b.one.lock[:]
}

func link(parts []*Prepared) error {
	prefixes, peers := make([][]byte, len(parts)), make([][]peerWait, len(parts))
	for i, p := range parts {
		d := p.Queue.d
		b := cq.NewBuilder(d.layout(), nil)
		for _, peer := range p.Queue.all {
			if peer != p.Queue && slices.ContainsFunc(parts, func(o *Prepared) bool { return o.Queue == peer }) {
				at := b.Wait(cq.Master, cq.Wait{Flags: cq.WaitMemory, Addr: d.ctl.LastEvent[peer.id]})
				peers[i] = append(peers[i], peerWait{peer: peer, at: at + cq.AtWaitCount})
			}
		}
		var err error
		if prefixes[i], err = b.Finish(); err == nil {
			_, err = cq.NewFetchEntry(len(prefixes[i])+len(p.Bytes), true)
		}
		if err != nil {
			return fmt.Errorf("dispatch: join %s: %w", p.Name, err)
		}
	}
	for i, p := range parts {
		if p.peers = peers[i]; p.peers == nil {
			continue
		}
		p.Bytes = append(prefixes[i], p.Bytes...)
		for k := range p.Counts {
			p.Counts[k].At += len(prefixes[i])
		}
	}
	return nil
}

// Subset returns the batch of the parts whose queues keep selects, shared with b. Linked queues
// stay together.
func (b *Batch) Subset(keep func(*Queue) bool) (*Batch, error) {
	var parts []*Prepared
	for i := range b.parts {
		p := b.parts[i].Prepared
		kept := keep(p.Queue)
		for _, w := range p.peers {
			if keep(w.peer) != kept {
				return nil, fmt.Errorf("dispatch: take a part of a batch: queues %d and %d of %v are linked: keep both or neither", p.Queue.id,
					w.peer.id, p.Queue.d.kd)
			}
		}
		if kept {
			parts = append(parts, p)
		}
	}
	return newBatch(parts)
}

// Submit copies the commands of all parts into their issue rings, and then rings the doorbells. It
// allocates nothing, and makes no system call unless a ring is full.
//
// If a queue can't take its part, no queue gets one. If a device stops in the middle, the others
// have their parts, and all queues of that device with a part are closed. With parts on several
// devices the error is a *BatchError.
func (b *Batch) Submit(ctx context.Context) (err error) {
	q := b.one.lock[0]
	if q == nil {
		return b.submit(ctx, nil)
	}
	before, left := q.enter(), false
	defer func() {
		if !left { // even a call of recover would cost too much
			q.leaveBy(recover(), &err, before)
		}
	}()
	part := &b.one.part[0]
	p, n, off := part.Prepared, uint32(len(part.Bytes)), q.rings.issue.wr
	if !q.freeLocked(p) || !q.rings.roomy(n) {
		if err = part.prepareLocked(ctx, nil); err != nil && part.acquired {
			q.rollbackLocked()
		}
		off = part.offset
	}
	if err == nil {
		// The steps of submit in one body: their calls take a twentieth of a replay.
		if l := &q.stream.lanes[p.Sub]; !p.sent || p.base != l.state.Expected || p.More != nil {
			p.count(q.stream.lanes)
		}
		copy(q.rings.issue.mem[off:], p.Bytes)
		if q.translates {
			q.dialect.translate(q.d.layout(), q.rings.issue.mem[off:off+n])
		}
		q.rings.issue.put(off, n, q.rings.fetch.put)
		q.tiles.prefetchL1.Publish()
		q.rings.fetch.push(cq.FetchEntry(n/cq.FetchUnit) | cq.FetchStall)
		q.rings.issue.prefetch()
		q.stream.replays++
		if q.stream.lastPrepared != p {
			q.submittedLocked(p)
		}
	}
	left = true
	q.mu.Unlock()
	debug.SetPanicOnFault(before)
	return err
}

func (q *Queue) freeLocked(p *Prepared) bool {
	return q.failure() == nil && !p.revoked && q.stream.reserved == nil && !q.shared && p.SubDevices == q.stream.subs
}

// SubmitReserved is Submit for queues that rs reserve.
func (b *Batch) SubmitReserved(ctx context.Context, rs []*Reservation) error {
	return b.submit(ctx, rs)
}

func (b *Batch) submit(ctx context.Context, rs []*Reservation) error {
	for _, q := range b.locks {
		q.mu.Lock()
	}
	defer b.unlock(debug.SetPanicOnFault(true))
	clear(b.errs)
	b.failed = false
	b.eachLocked(func(p *batchPart) error { return p.prepareLocked(ctx, rs) })
	if b.failed {
		b.rollbackLocked()
		return b.errorLocked()
	}
	for i := range b.parts {
		for _, w := range b.parts[i].peers {
			cq.Put32(b.parts[i].Bytes, w.at, uint32(w.peer.stream.end.id))
		}
	}
	for i := range b.parts {
		b.parts[i].copyLocked()
	}
	b.eachLocked((*batchPart).announceLocked)
	for i := range b.parts {
		if b.errs[i] == nil {
			b.parts[i].settleLocked()
		}
	}
	if b.linked {
		b.eachLocked((*batchPart).recordEndLocked)
	}
	if b.failed {
		b.cutLocked()
		return b.errorLocked()
	}
	return nil
}

func (b *Batch) eachLocked(step func(*batchPart) error) {
	for i := 0; i < len(b.parts); i++ {
		b.fromLocked(&i, step)
	}
}

// fromLocked calls step for the parts from *i on, until one faults: a deferred call for all of
// them.
func (b *Batch) fromLocked(i *int, step func(*batchPart) error) {
	defer func() {
		if e := recover(); e != nil {
			q := b.parts[*i].Queue
			b.errs[*i] = q.fail(q.errorf("put commands: %w", q.d.kd.LostBy(e)))
			b.failed = true
		}
	}()
	for ; *i < len(b.parts); *i++ {
		if b.errs[*i] == nil {
			b.errs[*i] = step(&b.parts[*i])
			b.failed = b.failed || b.errs[*i] != nil
		}
	}
}

func (b *Batch) unlock(before bool) {
	debug.SetPanicOnFault(before)
	for _, q := range b.locks {
		q.mu.Unlock()
	}
}

func (b *Batch) rollbackLocked() {
	for i := range b.parts {
		if b.parts[i].acquired {
			b.parts[i].Queue.rollbackLocked()
		}
		if b.errs[i] == nil {
			b.errs[i] = ErrSkipped
		}
	}
}

// cutLocked closes the queues that would wait forever for the missing parts of their device.
func (b *Batch) cutLocked() {
	for i, err := range b.errs {
		if err == nil || b.parts[i].peers == nil {
			continue
		}
		for k := range b.parts {
			if q := b.parts[k].Queue; q.d == b.parts[i].Queue.d {
				_ = q.fail(err)
				if b.errs[k] == nil {
					b.errs[k] = err
				}
			}
		}
	}
}

func (b *Batch) errorLocked() error {
	if b.devices > 1 {
		e := &BatchError{Errs: slices.Clone(b.errs)}
		for i := range b.parts {
			e.queues = append(e.queues, b.parts[i].Queue)
		}
		return e
	}
	return b.errs[slices.IndexFunc(b.errs, func(err error) bool { return err != nil && err != ErrSkipped })]
}

// prepareLocked changes nothing but the owner of shared workers.
func (p *batchPart) prepareLocked(ctx context.Context, rs []*Reservation) (err error) {
	q := p.Queue
	p.acquired = false
	if !q.freeLocked(p.Prepared) || len(rs) > 0 {
		if err := q.submittableLocked(p.Prepared, rs); err != nil {
			return err
		}
		p.acquired = true
	}
	// No event since the start of the queue, or one so old that the difference of ids could wrap.
	if p.peers != nil && (q.stream.end.start != q.status.starts.Load() || uint32(q.stream.event-q.stream.end.id) >= 1<<30) {
		if err := q.recordEndLocked(ctx); err != nil {
			return err
		}
	}
	p.offset, err = q.roomLocked(ctx, uint32(len(p.Bytes)))
	return err
}

func (p *batchPart) copyLocked() {
	q := p.Queue
	p.count(q.stream.lanes)
	copy(q.rings.issue.mem[p.offset:], p.Bytes)
	q.placedLocked(p.offset, uint32(len(p.Bytes)))
}

func (p *batchPart) announceLocked() error {
	p.Queue.rings.fetch.push(cq.FetchEntry(uint32(len(p.Bytes))/cq.FetchUnit) | cq.FetchStall)
	return nil
}

func (p *batchPart) settleLocked() {
	q := p.Queue
	q.rings.issue.prefetch()
	q.stream.replays++
	if q.stream.lastPrepared != p.Prepared {
		q.submittedLocked(p.Prepared)
	}
}

// The end of ctx doesn't stop it: the next parts would have nothing to wait for.
func (p *batchPart) recordEndLocked() error {
	if p.peers == nil {
		return nil
	}
	p.Queue.stream.waits++
	return p.Queue.recordEndLocked(context.Background())
}

func (q *Queue) recordEndLocked(ctx context.Context) error {
	cq.Put32(q.stream.edgePayload[:], 0, uint32(q.stream.event+1))
	b := q.builderLocked()
	q.appendEventLocked(&b, q.stream.edgePayload[:], q.allLocked())
	if err := q.sendBuiltLocked(ctx, "record event", &b); err != nil {
		return err
	}
	q.stream.event++
	q.status.latest.Store(uint32(q.stream.event))
	q.stream.end = partEnd{start: q.status.starts.Load(), id: q.stream.event}
	return nil
}
