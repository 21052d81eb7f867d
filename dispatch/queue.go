package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/kmd"
)

// Queue is a hardware command queue. Commands run in the order of submission. Its methods may be
// called from any goroutine.
type Queue struct {
	d          *machine
	id         int
	tiles      queueTiles
	dispatcher Dispatcher
	set        *workers
	divided    []*workers                 // by sub-device, if some are loaded
	division   atomic.Pointer[SubDevices] // stream.subs, for readers without mu
	shared     bool
	all        []*Queue // of the device
	dialect    dialect
	translates bool // the dialect isn't this runtime's

	mu     sync.Mutex
	rings  queueRings
	stream streamState
	order  ordering

	history   history
	status    queueStatus
	comp      completions
	life      lifetime
	forecasts forecasts
}

type queueTiles struct {
	prefetch, dispatch     chip.Core
	prefetchL1, dispatchL1 *kmd.Window
}

// streamState is guarded by Queue.mu.
type streamState struct {
	lanes        []lane
	one          [1]lane     // backs lanes without sub-devices
	subs         *SubDevices // that the lanes are of
	stall        lanes       // that transfers, waits and events wait for
	taken        lanes       // by the last acquireLocked
	lastPrepared *Prepared
	runs         uint16
	replays      uint32
	event        cq.Seq // last recorded
	waits        uint64 // for other queues
	end          partEnd
	edgePayload  [16]byte // of that event

	reserved *Reservation

	buf  []byte
	ends []int // of their batches
}

// history is the newest submission, for hang reports.
type history struct {
	last     atomic.Pointer[string] // of any kind
	replayed atomic.Pointer[Prepared]

	reading sync.Mutex // keeps replayed
}

func (h *history) name() string {
	if last := h.last.Load(); last != nil {
		return *last
	}
	return "nothing"
}

// show calls f with the newest replay, if there is one.
func (h *history) show(f func(*Prepared)) {
	h.reading.Lock()
	defer h.reading.Unlock()
	if p := h.replayed.Load(); p != nil {
		f(p)
	}
}

// queueStatus may be read without Queue.mu.
type queueStatus struct {
	failed atomic.Pointer[error]
	stop   atomic.Pointer[error] // why waits have to end
	starts atomic.Uint64         // of the kernels
	latest atomic.Uint32         // streamState.event
}

// lifetime guards the windows and host memory of a queue: use them with Queue.mu or with mu held
// for reading.
type lifetime struct {
	mu     sync.RWMutex
	closed bool
	ending bool // the holder of Queue.mu ends the kernels and may wait in spite of queueStatus.stop; guarded by Queue.mu
}

var errClosed = errors.New("the queue is closed")

// State returns the state after the queue's commands so far. If another queue has acquired the
// workers since, only the completion count is valid.
func (q *Queue) State() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stream.lanes[0].state
}

// ID returns the queue's number.
func (q *Queue) ID() int { return q.id }

// Starts counts the starts of the queue, from 1 on. A restart loses all earlier commands.
func (q *Queue) Starts() uint64 { return q.status.starts.Load() }

// Compare orders the queues of all devices, for locking: as the devices were started, then by
// number.
func (q *Queue) Compare(o *Queue) int {
	return cmp.Or(q.d.opened.Compare(o.d.opened), cmp.Compare(q.d.tie, o.d.tie), cmp.Compare(q.id, o.id))
}

// Dispatcher returns the dispatch core, to which the queue's workers report.
func (q *Queue) Dispatcher() Dispatcher { return q.dispatcher }

func (q *Queue) usable(op string) error {
	if err := q.failure(); err != nil {
		return q.errorf("%s: %w", op, err)
	}
	return nil
}

func (q *Queue) errorf(format string, a ...any) error {
	return fmt.Errorf("dispatch: queue %d: "+format, append([]any{q.id}, a...)...)
}

func (q *Queue) enter() (before bool) {
	q.mu.Lock()
	return debug.SetPanicOnFault(true)
}

// leave makes the fault of a removed device's memory an error.
func (q *Queue) leave(err *error, before bool) { q.leaveBy(recover(), err, before) }

func (q *Queue) leaveBy(e any, err *error, before bool) {
	debug.SetPanicOnFault(before)
	defer q.mu.Unlock()
	if e != nil {
		*err = q.fail(q.errorf("put commands: %w", q.d.kd.LostBy(e)))
	}
}

// fail closes the queue: host and device may disagree about the rings.
func (q *Queue) fail(err error) error {
	q.status.failed.CompareAndSwap(nil, &err)
	return err
}

// Run runs a program. It returns once the commands are in the issue ring.
func (q *Queue) Run(ctx context.Context, im *Image) (err error) {
	defer q.leave(&err, q.enter())
	if err := q.usable("run"); err != nil {
		return err
	}
	if q.stream.reserved != nil {
		return q.errorf("run program %q: %w", im.Name(), ErrReserved)
	}
	if !im.Placed() {
		return q.errorf("run program %q: its kernels were not placed in DRAM", im.Name())
	}
	l, err := q.homeLocked(im)
	if err != nil {
		return err
	}
	if q.shared {
		if err := q.acquireLocked(1<<l.Sub, opRun, im.Label()); err != nil {
			return err
		}
	}
	st := l.state
	run := im.Next(&st, l.Dispatcher)
	if n := run.Size(); n <= memmap.MaxCommandSize {
		// built in the issue ring, to copy the commands once
		off, err := q.roomLocked(ctx, uint32(n))
		if err != nil {
			q.rollbackLocked()
			return err
		}
		run.Append(q.rings.issue.mem[off:off:int(off)+n], q.stream.runs)
		q.publishLocked(off, uint32(n), false)
	} else {
		q.stream.buf = run.Append(q.stream.buf[:0], q.stream.runs)
		q.stream.ends = run.Cuts(q.stream.ends[:0], memmap.MaxCommandSize)
		if err := q.sendBatchesLocked(ctx, im.Name(), q.stream.buf, q.stream.ends); err != nil {
			q.rollbackLocked()
			return err
		}
	}
	q.history.last.Store(im.Label())
	l.state, q.stream.lastPrepared = st, nil
	q.stream.runs++
	return nil
}

// Prepared is a queue's commands that are built once and submitted many times. Only completion
// counts change.
type Prepared struct {
	Queue *Queue
	// Bytes are a whole number of PCIe-aligned units.
	Bytes []byte
	// Counts are 32-bit words that hold the queue's completion count plus Add.
	Counts []CountPatch
	// After is the state of sub-device Sub afterwards, More those of others.
	After Detached
	Sub   uint8
	More  []SubAfter
	// SubDevices are those with which the commands were made; nil without any.
	SubDevices *SubDevices
	Name       string
	// Image is the trace in DRAM that Bytes run, or nil. It doesn't change before Forget.
	Image []byte
	// Flow describes a trace with control flow.
	Flow *postmortem.Trace

	revoked bool
	sent    bool
	base    cq.Count
	peers   []peerWait
}

// Commands returns how many prefetcher commands are sent.
func (p *Prepared) Commands() int { return program.CountCommands(p.Queue.d.layout(), p.Bytes) }

// ErrRevoked is returned when prepared commands are submitted after Revoke.
var ErrRevoked = errors.New("the commands were revoked")

// Revoke makes later submissions of p fail with ErrRevoked. Earlier ones stay in the queue.
func (q *Queue) Revoke(p *Prepared) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.revoked = true
	if q.stream.lastPrepared == p {
		q.stream.lastPrepared = nil
	}
}

// Forget drops the last reference to p's Image, after Revoke and p's last run.
func (q *Queue) Forget(p *Prepared) {
	q.history.reading.Lock()
	defer q.history.reading.Unlock()
	q.history.replayed.CompareAndSwap(p, nil)
}

// SubAfter is the state of a sub-device after commands.
type SubAfter struct {
	Sub   uint8
	After Detached
}

// CountPatch is a word in Prepared.Bytes.
type CountPatch struct {
	At  int
	Add cq.Count
	Sub uint8 // whose count
}

// A reserved queue must be reserved by one of rs.
func (q *Queue) submittableLocked(p *Prepared, rs []*Reservation) error {
	if err := q.usable("replay"); err != nil {
		return err
	}
	if p.revoked {
		return q.errorf("submit %s: %w", p.Name, ErrRevoked)
	}
	if len(rs) == 0 && q.stream.reserved != nil {
		return q.errorf("submit %s: %w", p.Name, ErrReserved)
	}
	if p.SubDevices != q.stream.subs {
		return &SubDeviceError{"submit " + p.Name, "it was recorded with other sub-devices: load those"}
	}
	if len(rs) > 0 && (q.stream.reserved == nil || !slices.Contains(rs, q.stream.reserved)) {
		return q.errorf("submit %s: the reservation has ended", p.Name)
	}
	if q.shared {
		if err := q.acquireLocked(p.lanes(), opReplay, &p.Name); err != nil {
			return err
		}
	}
	return nil
}

func (q *Queue) submittedLocked(p *Prepared) {
	q.history.last.Store(&p.Name)
	q.history.replayed.Store(p)
	if p.More == nil {
		q.stream.lanes[p.Sub].state, q.stream.lastPrepared = q.d.programs.After(p.After), p
		return
	}
	for _, a := range append(p.More, SubAfter{p.Sub, p.After}) {
		q.stream.lanes[a.Sub].state = q.d.programs.After(a.After)
	}
	q.stream.lastPrepared = nil
}

// count fills in the counts for a queue whose lanes expect so many completions.
func (p *Prepared) count(on []lane) {
	base := on[p.Sub].state.Expected
	if p.sent && p.base == base && p.More == nil {
		return
	}
	for _, c := range p.Counts {
		cq.Put32(p.Bytes, c.At, uint32(on[c.Sub].state.Expected+c.Add))
	}
	p.sent, p.base = true, base
}

// lanes are those whose workers the commands start.
func (p *Prepared) lanes() lanes {
	g := lanes(1) << p.Sub
	for _, a := range p.More {
		g |= 1 << a.Sub
	}
	return g
}

func (q *Queue) builderLocked() cq.Builder { return cq.NewBuilder(q.d.layout(), q.stream.buf[:0]) }

func (q *Queue) sendBuiltLocked(ctx context.Context, op string, b *cq.Builder) error {
	cmds, err := b.Finish()
	if err != nil {
		return q.errorf("%s: %w", op, err)
	}
	q.stream.buf = cmds
	return q.sendLocked(ctx, cmds, false)
}

func (q *Queue) sendLocked(ctx context.Context, p []byte, stall bool) error {
	off, err := q.roomLocked(ctx, uint32(len(p)))
	if err != nil {
		return err
	}
	copy(q.rings.issue.mem[off:], p)
	q.publishLocked(off, uint32(len(p)), stall)
	return nil
}

func (q *Queue) roomLocked(ctx context.Context, n uint32) (uint32, error) {
	if q.rings.roomy(n) {
		return q.rings.issue.wr, nil
	}
	return q.findRoomLocked(ctx, n)
}

func (q *Queue) findRoomLocked(ctx context.Context, n uint32) (uint32, error) {
	off := q.rings.issue.place(n)
	if q.fitsLocked(off, n) {
		return off, nil
	}
	if q.rings.fetch.advance(q.comp.taken.Load()); q.fitsLocked(off, n) {
		return off, nil
	}
	return off, q.awaitRoomLocked(ctx, func() bool { return q.fitsLocked(off, n) })
}

func (q *Queue) awaitRoomLocked(ctx context.Context, fits func() bool) error {
	var lost error
	err := q.awaitLocked(ctx, "space in the issue queue", func() bool {
		lost = q.rings.fetch.poll()
		return lost != nil || fits()
	})
	if lost != nil {
		if e := q.d.kd.Alive(); e != nil {
			lost = fmt.Errorf("%w: %w", lost, e)
		}
		return q.fail(lost)
	}
	return err
}

func (q *Queue) fitsLocked(off, n uint32) bool {
	// An entry counts as taken when its read was issued: the last one's bytes may be on their way.
	oldest := q.rings.fetch.taken
	if oldest > 0 {
		oldest--
	}
	return !q.rings.fetch.full() && q.rings.issue.free(off, n, oldest, q.rings.fetch.put)
}

func (q *Queue) publishLocked(off, n uint32, stall bool) {
	q.placedLocked(off, n)
	entry := cq.FetchEntry(n / cq.FetchUnit)
	if stall {
		entry |= cq.FetchStall
	}
	q.rings.fetch.push(entry)
	q.rings.issue.prefetch()
}

// placedLocked makes commands in the issue ring ready for the entry that announces them.
func (q *Queue) placedLocked(off, n uint32) {
	if q.translates {
		q.dialect.translate(q.d.layout(), q.rings.issue.mem[off:off+n])
	}
	q.rings.issue.put(off, n, q.rings.fetch.put)
	q.tiles.prefetchL1.Publish()
}

// DispatchCore returns the virtual coordinate of the core that runs the queue's dispatcher.
func (q *Queue) DispatchCore() chip.XY { return q.dispatcher.At }
