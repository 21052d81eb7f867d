package reprise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
)

// Queue is a hardware command queue: what is put into it runs in order. Its methods may be called
// from any goroutine; the order is that in which the calls return. Only events ([Queue.Record],
// [Queue.WaitEvent]) and the host's waits order two queues.
type Queue struct {
	d         *Device
	q         *dispatch.Queue
	rec       atomic.Pointer[recording] // the capture by Begin that Run records into
	capturing atomic.Int32              // captures with a function under way

	self    []*Queue    // itself, for Calls
	inOrder sync.Mutex  // held by observed calls
	logged  atomic.Bool // control flow is being logged

	spare atomic.Pointer[Pending] // reused by ReadTo and WriteFrom

	begun, finished atomic.Uint64 // numbers of the last wait that began, and that succeeded
}

// ID returns the queue's number.
func (q *Queue) ID() int {
	if m := q.d.missing; m != nil {
		return m.id
	}
	return q.q.ID()
}

// Abort ends the replays that are in the queue at the end of a loop's iteration, and waits until
// the queue has finished. Replays without loops run to their end. It returns how many replays it
// has ended.
func (q *Queue) Abort(ctx context.Context) (replays int, err error) {
	op := fmt.Sprintf("abort queue %d", q.ID())
	if err := q.d.usable(op); err != nil {
		return 0, err
	}
	before, err := q.q.Aborted()
	if err == nil {
		err = q.q.Abort()
	}
	if err != nil {
		return 0, q.d.opError(op, err)
	}
	if err := q.Wait(ctx); err != nil {
		return 0, err
	}
	after, err := q.q.Aborted()
	return int(after - before), q.d.opError(op, err)
}

// Workers returns the workers that the queue's programs may use.
func (q *Queue) Workers() chip.Range {
	if q.d.missing != nil {
		return chip.Range{}
	}
	return q.q.Workers()
}

// Blame adds to the Refusal of an emu.Finding the kernel to blame, as a [*dispatch.KernelError].
func (q *Queue) Blame(err error) error { return q.q.Blame(err) }

// Device returns the queue's device.
func (q *Queue) Device() *Device {
	if m := q.d.missing; m != nil {
		return m.d
	}
	return q.d
}

// Run puts a program into the queue and returns once its commands are in the issue ring. The error
// is a *dispatch.WorkersError if the program uses cores that the queue doesn't start. It is an
// *dispatch.OverlapError if another queue has put a program on the same workers and nothing orders
// the two. Between [Queue.Begin] and [Recorder.End] Run records the program instead.
//
// If ctx ends while the commands wait for room, nothing of the program is in the queue. The
// exception are commands larger than a quarter of the queue's memory: once their first part is in
// the queue, ctx no longer counts.
func (q *Queue) Run(ctx context.Context, x *Executable) (err error) {
	if q.d.watched() && q.rec.Load() == nil {
		defer q.d.begin(ctx, &Call{Kind: CallRun, Queues: q.self, Name: x.label(), Object: x}).end(ctx, &err)
	}
	if err := q.d.usable("run"); err != nil {
		return err
	}
	if q.d.capturing.Load() != 0 {
		if c := q.rec.Load(); c != nil {
			return c.begun.Run(x)
		}
		if err := q.d.refuse(ctx, q, opRun, x.label()); err != nil {
			return err
		}
	}
	if x != nil {
		// The kernels' memory must not be freed until Release can wait for the commands.
		x.mu.RLock()
		defer x.mu.RUnlock()
	}
	if err := x.checkDeviceLocked(q.d); err != nil {
		return fmt.Errorf("reprise: run: %w", err)
	}
	return q.d.opError("run", overlap(q.q.Run(ctx, x.image)))
}

// Wait waits until everything in the queue has run and all its results are in memory; with
// sub-devices, the programs of the stall group ([Queue.SetStallGroup]).
func (q *Queue) Wait(ctx context.Context) error { return q.WaitFor(ctx) }

// WaitFor is Wait for the programs of some sub-devices.
func (q *Queue) WaitFor(ctx context.Context, subs ...int) (err error) {
	const op = "wait for queue"
	defer q.d.observe(ctx, CallQueueWait, q.self, "", nil, 0).end(ctx, &err)
	if err := q.d.admit(ctx, q, op, opQueueWait, ""); err != nil {
		return err
	}
	if len(subs) > 0 {
		return q.d.opError(op, q.q.WaitFor(ctx, subs...))
	}
	return q.d.opError(op, q.settle(ctx))
}

func (q *Queue) settle(ctx context.Context) error {
	if q.q.StallsAll() {
		return q.await(ctx)
	}
	return q.q.Wait(ctx)
}

// await waits until everything in the queue has run, and frees deferred memory.
func (q *Queue) await(ctx context.Context) error {
	n := q.begun.Add(1)
	if err := q.q.WaitAll(ctx); err != nil {
		return err
	}
	for was := q.finished.Load(); was < n && !q.finished.CompareAndSwap(was, n); was = q.finished.Load() {
	}
	return q.d.freeDeferred(false)
}

// Clock reads the clock of [Event.DeviceTime] for this queue, without waiting for the queue.
func (q *Queue) Clock() (dispatch.Clock, error) { return ask(q.d, "read clock", q.q.Clock) }

// ProgramTimes returns a reader of the times at which programs run from here on, in cycles of
// [Queue.Clock]. The device always notes these times, so nothing is put into the queue and nothing
// waits. Programs that are in the queue already may be among them. The error is
// [dispatch.ErrQueueFirmware] for queues that run tt-metal's firmware, and [dispatch.ErrSubDevices]
// with sub-devices, whose programs overlap.
func (q *Queue) ProgramTimes() (*dispatch.ProgramTimes, error) {
	const op = "read the times of programs"
	if q.d.missing == nil && q.d.SubDevices() != nil {
		return nil, q.d.opError(op, dispatch.ErrSubDevices)
	}
	return ask(q.d, op, q.q.ProgramTimes)
}

// WaitFunc waits until done reports true, at the pace of all waits ([WithPace]). It ends early with
// ctx, with the error of a queue that hangs or is lost, or with an ErrTimeout if nothing on the
// device moves for the hang timeout. The queue stays as it is. WaitFunc is for what kernels store
// to a [HostBuffer]: done reads memory and must not call the device.
func (q *Queue) WaitFunc(ctx context.Context, done func() bool) error {
	if err := q.d.usable("wait"); err != nil {
		return err
	}
	return q.d.opError("wait", q.q.WaitFunc(ctx, "what the caller asked for", done))
}

// Event marks a place among the commands of a queue, for other queues and the host to wait for. It
// can be recorded again and again. [Queue.WaitEvent], Wait and Query mean its newest recording at
// the moment of the call; later recordings don't change waits. The methods may be called from any
// goroutine.
//
// Waits can't deadlock: the recording was put into its queue before the wait.
type Event struct {
	d *Device
	e *dispatch.Event
}

// EventOption changes how NewEvent makes an event.
type EventOption func(timed *bool)

// Timed makes each recording of an event take the device's time, for [Event.DeviceTime]. Recording
// fails with dispatch.ErrQueueFirmware on a device opened with [WithQueueFirmware].
func Timed() EventOption { return func(timed *bool) { *timed = true } }

// NewEvent returns an event without a recording. The name is for errors.
func (d *Device) NewEvent(name string, opts ...EventOption) *Event {
	var timed bool
	for _, opt := range opts {
		opt(&timed)
	}
	return &Event{d: d, e: d.disp.NewEvent(name, timed)}
}

// Name returns the event's name.
func (e *Event) Name() string { return e.e.Name() }

// Wait waits until the event's newest recording is done. The error is an *dispatch.EventError if
// the event was never recorded or the recording is lost. It wraps a *dispatch.HangError if the
// device stops.
func (e *Event) Wait(ctx context.Context) (err error) {
	at := callerPC()
	if e != nil {
		defer e.d.observe(ctx, CallEventWait, nil, e.Name(), e, 0).end(ctx, &err)
	}
	if err := e.checkDevice(nil, "synchronize"); err != nil {
		return err
	}
	if id, ok := e.e.Recorder(); ok {
		if err := e.d.refuse(ctx, e.d.queues[id], opEventWait, e.Name()); err != nil {
			return err
		}
	}
	return e.d.opError("synchronize", e.e.Wait(ctx, at))
}

// Query reports whether the event's newest recording is done, without waiting.
func (e *Event) Query() (bool, error) {
	at := callerPC()
	if err := e.checkDevice(nil, "query"); err != nil {
		return false, err
	}
	done, err := e.e.Query(at)
	return done, e.d.opError("query", err)
}

// DeviceTime returns when the newest recording of a timed event was done, in cycles of the queue's
// dispatch core since its reset. ok is false if the event isn't timed or the host hasn't seen the
// recording done; after Wait, a Query that returned true, or Queue.Wait it has. The clocks of two
// queues run at the same rate and may differ by a constant.
func (e *Event) DeviceTime() (cycles uint64, ok bool) { return e.e.DeviceTime() }

// checkDevice checks that an event can be used with a device; d may be nil.
func (e *Event) checkDevice(d *Device, op string) error {
	if e == nil {
		return fmt.Errorf("reprise: %s: no event: it is nil", op)
	}
	if d != nil && e.d != d {
		return cmp.Or(d.usable(op), fmt.Errorf("reprise: %s: event %q: %w", op, e.Name(), ErrWrongDevice))
	}
	return e.d.usable(op)
}

// Record records an event: the recording is done when everything so far in the queue has run and
// all its results are in memory; with sub-devices, the programs of the stall group. Record returns
// once the command is in the issue ring.
func (q *Queue) Record(ctx context.Context, e *Event) error { return q.record(ctx, e, callerPC()) }

// RecordFor is Record after the programs of some sub-devices.
func (q *Queue) RecordFor(ctx context.Context, e *Event, subs ...int) error {
	return q.record(ctx, e, callerPC(), subs...)
}

func (q *Queue) record(ctx context.Context, e *Event, at uintptr, subs ...int) (err error) {
	defer q.d.observe(ctx, CallRecord, q.self, e.label(), e, 0).end(ctx, &err)
	if err := e.checkDevice(q.d, "record"); err != nil {
		return err
	}
	if err := q.d.refuse(ctx, q, opRecord, e.Name()); err != nil {
		return err
	}
	return q.d.opError("record", q.q.Record(ctx, e.e, at, subs...))
}

// WaitEvent holds everything that is put into the queue from now on until the event's newest
// recording is done. The call itself returns at once. The error is an *dispatch.EventError, which
// names both calls, if the event was never recorded or the recording is lost. Waiting for a
// recording of the same queue has no effect.
func (q *Queue) WaitEvent(ctx context.Context, e *Event) (err error) {
	at := callerPC()
	defer q.d.observe(ctx, CallWaitEvent, q.self, e.label(), e, 0).end(ctx, &err)
	if err := e.checkDevice(q.d, "wait"); err != nil {
		return err
	}
	if err := q.d.refuse(ctx, q, opWaitEvent, e.Name()); err != nil {
		return err
	}
	return q.d.opError("wait", q.q.WaitEvent(ctx, e.e, at))
}

func (e *Event) label() string {
	if e == nil {
		return ""
	}
	return e.Name()
}

// SubDevices divides a device's workers into up to [dispatch.MaxSubDevices] disjoint sets, the
// sub-devices, numbered from 0. While it is loaded, each
// program runs on one sub-device, and waits only for the programs before it there: programs of
// different sub-devices run at the same time. Workers in none run nothing.
//
// Transfers, waits and events of a queue wait for the programs of all sub-devices, or of those that
// [Queue.SetStallGroup] chooses. A trace runs with the division that was loaded when it was
// captured, also from a file. It has no control flow and isn't stepped through.
type SubDevices struct {
	d     *Device
	disp  *dispatch.SubDevices
	local allocator.Extent // L1 of the pools; zero without
	pools []*Pool
	freed atomic.Bool
}

// NewSubDevices divides the workers. With localL1 other than 0, that many bytes of each worker's L1
// are taken for the sub-devices' own buffers: those of one don't take room from those of another
// ([SubDevices.Pool]).
func (d *Device) NewSubDevices(localL1 int, sets ...[]chip.Range) (*SubDevices, error) {
	const op = "new sub-devices"
	fail := func(err error) (*SubDevices, error) { return nil, d.opError(op, err) }
	if err := d.usable(op); err != nil {
		return nil, err
	}
	disp, err := d.disp.NewSubDevices(sets...)
	if err != nil {
		return fail(err)
	}
	s := &SubDevices{d: d, disp: disp}
	if localL1 == 0 {
		return s, nil
	}
	first, err := d.newPool(PoolConfig{Kind: allocator.L1, Size: localL1 * d.disp.L1Banks(), Name: "sub-devices"})
	if err != nil {
		return fail(err)
	}
	s.local = first.ext
	for i := range sets {
		p := &Pool{d: d, name: fmt.Sprintf("sub-device %d", i), kind: allocator.L1, ext: first.ext, cores: sets[i]}
		if p.mem, err = allocator.New(first.mem.Config()); err != nil {
			return fail(errors.Join(err, d.mem.Free(first.ext)))
		}
		s.pools = append(s.pools, p)
	}
	return s, nil
}

// Sets returns the cores of each sub-device.
func (s *SubDevices) Sets() [][]chip.Range { return s.disp.Sets() }

// Pool returns the memory of a sub-device's own, for buffers that are sharded over cores of it; nil
// without local L1. It isn't released.
func (s *SubDevices) Pool(sub int) *Pool {
	if sub < 0 || sub >= len(s.pools) {
		return nil
	}
	return s.pools[sub]
}

// Load waits for everything in the device's queues and loads the division, instead of any other.
// All queues must have all workers. The error matches dispatch.ErrQueueFirmware for tt-metal's
// queues. Calls of other goroutines that put something into a queue meanwhile make it fail. A
// division with buffers in its pools can't be replaced.
func (s *SubDevices) Load(ctx context.Context) error {
	return s.d.loadSubDevices(ctx, "load sub-devices", s)
}

// ClearSubDevices undoes the loaded division. It waits as [SubDevices.Load] does.
func (d *Device) ClearSubDevices(ctx context.Context) error {
	return d.loadSubDevices(ctx, "clear sub-devices", nil)
}

func (d *Device) loadSubDevices(ctx context.Context, op string, s *SubDevices) error {
	var disp *dispatch.SubDevices
	if s != nil {
		if s.freed.Load() {
			return d.opError(op, ErrReleased)
		}
		disp = s.disp
	}
	for _, q := range d.queues {
		if err := d.admit(ctx, q, op, opQueueWait, ""); err != nil {
			return err
		}
	}
	d.work.Lock()
	defer d.work.Unlock()
	if old := d.subs.Load(); old != nil && old != s {
		if err := old.unused(); err != nil {
			return d.opError(op, err)
		}
	}
	if err := d.disp.LoadSubDevices(ctx, disp); err != nil {
		return d.opError(op, err)
	}
	d.subs.Store(s)
	return nil
}

func (s *SubDevices) unused() error {
	for _, p := range s.pools {
		if p.Memory().Allocated > 0 {
			return fmt.Errorf("%s has buffers: release them first", p.name)
		}
	}
	return nil
}

// SubDevices returns the division that is loaded; nil without one.
func (d *Device) SubDevices() *SubDevices { return d.subs.Load() }

// Release releases a division that isn't loaded, with its local L1.
func (s *SubDevices) Release() error {
	err := s.unused()
	switch {
	case s.d.subs.Load() == s:
		err = errors.New("they are loaded: clear them, or load others, before")
	case err != nil:
	case s.freed.Swap(true):
		err = ErrReleased
	case !s.local.IsZero():
		err = s.d.mem.Free(s.local)
	}
	return s.d.opError("release sub-devices", err)
}

// SetStallGroup chooses the sub-devices whose programs later transfers, waits and events of the
// queue wait for; without any it is all. Loading or clearing sub-devices chooses all. The error is
// a *dispatch.SubDeviceError for a sub-device that isn't there.
func (q *Queue) SetStallGroup(subs ...int) error {
	const op = "set the stall group"
	if err := q.d.usable(op); err != nil {
		return err
	}
	return q.d.opError(op, q.q.SetStallGroup(subs...))
}

// inside refuses a buffer that isn't in the pool's sub-device.
func (p *Pool) inside(c *BufferConfig) error {
	if p.cores == nil {
		return nil
	}
	if c.Sharding == nil {
		return errors.New("an interleaved buffer: a sub-device has sharded ones only")
	}
	for _, r := range c.Sharding.Cores {
		for core := range r.Cores() {
			if !core.In(p.cores) {
				return fmt.Errorf("core %v is not in the sub-device", core)
			}
		}
	}
	return nil
}
