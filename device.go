package reprise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/usage"
	"github.com/reprise-tt/reprise/kernels/metal"
	"github.com/reprise-tt/reprise/kmd"
)

// Device is an open chip. Its methods may be called from any goroutine.
type Device struct {
	name   string
	banks  int // DRAM banks
	kd     *kmd.Device
	disp   *dispatch.Device
	mem    *allocator.Allocator
	queues []*Queue

	missing *missingQueue // nil but for queues that are not there

	target   kmd.Target
	firmware *metal.Firmware // of the workers; nil for this runtime's own
	log      *usage.Log      // may be nil
	sampler  *usage.Sampler  // of the log
	logErr   error           // why log is nil

	mu     sync.Mutex
	closed bool
	cancel context.CancelFunc // cancels the Recover under way
	execs  map[*Executable]struct{}
	parts  map[resident]struct{} // trace parts
	cbs    *allocator.Area       // circular buffers

	capturing atomic.Int32 // captures under way; 0 is the fast path
	deferred  deferredFrees
	scratch   atomic.Pointer[scratch] // nil while a Recorder has it
	spares    spares
	lastSite  atomic.Uintptr // call site of the last capture
	watch     watchers
	subs      atomic.Pointer[SubDevices]

	admin sync.Mutex   // held by Recover and Close
	work  sync.RWMutex // Recover writes; placing and releasing kernels and traces reads
}

// Open opens a device, and starts its firmware and command queues. The target is kmd.Path for a
// device node, sim.Blackhole() or sim.Wormhole() for the embedded emulator, or ttsim.Library for
// the vendor's simulator.
func Open(ctx context.Context, t kmd.Target, opts ...Option) (*Device, error) {
	o := options{usageLog: usage.Dir}
	for _, opt := range opts {
		opt(&o)
	}
	if t == nil {
		return nil, errors.New("reprise: open: no target: give a kmd.Path, an emulated card of package sim or a library of package ttsim")
	}
	base, err := o.openFirmware(ctx)
	if err != nil {
		return nil, fmt.Errorf("reprise: open: %w", err)
	}
	kd, err := kmd.Open(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("reprise: open: %w", err)
	}
	disp, err := dispatch.Start(ctx, kd, o.dispatch)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reprise: open %s: %w", t, err), kd.Close())
	}
	d := &Device{
		name: t.String(), target: t, kd: kd, disp: disp, firmware: base,
		execs: map[*Executable]struct{}{}, parts: map[resident]struct{}{},
	}
	p, l1 := disp.Chip().Params(), &disp.WorkerLayout().L1
	d.banks = len(disp.Chip().DRAMBanks())
	m, align := &o.memory, uint64(p.Align.DRAM())
	// The first aligned unit of a bank holds the word that memory barriers write.
	m.DRAMBanks, m.DRAMBase, m.DRAMEnd, m.DRAMAlign = d.banks, align, d.DRAMBankSize(), align
	m.L1Banks, m.L1Base, m.L1End, m.L1Align = disp.L1Banks(), uint64(l1.Unreserved), uint64(l1.Size), uint64(p.Align.L1)
	m.Gauge = d.openLog(o.usageLog)
	d.mem, err = allocator.New(*m)
	if err != nil {
		d.sampler.Stop()
		return nil, errors.Join(fmt.Errorf("reprise: open %s: %w", t, err), d.closeLog(), disp.Close(ctx), kd.Close())
	}
	d.cbs = allocator.NewArea(d.mem, uint64(l1.Unreserved), "circular buffers", userPC)
	for id := range disp.Queues() {
		q := &Queue{d: d, q: disp.Queue(id)}
		q.self = []*Queue{q}
		d.queues = append(d.queues, q)
	}
	return d, nil
}

// Close closes the device and releases everything of it. It waits for work in the queues as long as
// the work makes progress and ctx lasts, and a second longer, so that an idle device closes under a
// context that has ended. Errors of that work are lost; use [Queue.Wait] first. If Close cuts off
// work, the error wraps the context's cause and the device is closed all the same. A second Close
// does nothing.
func (d *Device) Close(ctx context.Context) error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	cancel := d.cancel
	d.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	d.sampler.Stop()
	d.admin.Lock()
	defer d.admin.Unlock()
	return errors.Join(d.disp.Close(ctx), d.kd.Close(), d.closeLog())
}

// Name returns the name of the target that was opened.
func (d *Device) Name() string { return d.name }

// Arch returns the chip's architecture.
func (d *Device) Arch() chip.Arch { return d.disp.Chip().Arch() }

// Grid returns the workers that programs may use.
func (d *Device) Grid() chip.Range { return d.disp.Grid() }

// Virtual returns the coordinate by which kernels name a worker in NoC addresses, the same on both
// NoCs. The error is a *chip.CoordinateError for a core outside of the chip.
func (d *Device) Virtual(c chip.Core) (chip.XY, error) { return d.disp.Chip().Virtual(c) }

// Multicast returns the rectangle of coordinates for a multicast to a range of workers, with their
// number. Routers skip columns and rows without workers, so one rectangle is enough on harvested
// chips too. Its Corners are those of a NoC. The error is a *chip.CoordinateError for a range that
// reaches beyond the chip.
func (d *Device) Multicast(r chip.Range) (chip.VirtualRect, error) {
	rects := d.disp.Chip().Rects(r)
	if len(rects) == 1 {
		return rects[0], nil
	}
	for _, c := range []chip.Core{r.Start, r.End} {
		if _, err := d.disp.Chip().Virtual(c); err != nil {
			return chip.VirtualRect{}, err
		}
	}
	return chip.VirtualRect{}, fmt.Errorf("reprise: multicast: the range %v has no workers", r)
}

// Debug gives access to the workers' memory, to what their engines wait for, and to what their
// kernels print.
func (d *Device) Debug() *dispatch.Debug { return d.disp.Debug() }

// DRAMBanks returns the number of DRAM banks.
func (d *Device) DRAMBanks() int { return d.banks }

// DRAMBankSize returns the bytes of each DRAM bank.
func (d *Device) DRAMBankSize() uint64 { return d.disp.Chip().DRAMBanks()[0].Size }

// AIClock reads the clock of the chip's tiles, in MHz. The runtime requests the full clock while
// the device is open, but the card's firmware may lower it. If the firmware doesn't tell, the error
// wraps [dispatch.ErrNoClock].
func (d *Device) AIClock(ctx context.Context) (float64, error) {
	return ask(d, "read the AI clock", func() (float64, error) { return d.disp.AIClock(ctx) })
}

// Queues returns the number of command queues.
func (d *Device) Queues() int { return len(d.queues) }

// Queue returns a command queue by number, from 0 up to Queues()-1. Whatever any other queue is
// asked for returns [ErrNoQueue].
func (d *Device) Queue(id int) *Queue {
	if id >= 0 && id < len(d.queues) {
		return d.queues[id]
	}
	q := &Queue{d: &Device{missing: &missingQueue{d, id}}}
	q.self = []*Queue{q}
	return q
}

// missingQueue makes a Device the device of a queue that isn't there.
type missingQueue struct {
	d  *Device
	id int
}

// Memory returns the state of one kind of memory; allocator.Trace is the kind of traces.
func (d *Device) Memory(k allocator.Kind) allocator.Stats { return d.mem.Stats(k) }

// ask calls f on an open device, and adds the operation to the error.
func ask[T any](d *Device, op string, f func() (T, error)) (v T, err error) {
	if err = d.usable(op); err != nil {
		return v, err
	}
	v, err = f()
	return v, d.opError(op, err)
}

// opError adds the operation to an error, which is ErrClosed if the device was closed meanwhile.
func (d *Device) opError(op string, err error) error {
	if err == nil {
		return nil
	}
	if closed := d.usable(op); closed != nil {
		return closed
	}
	return fmt.Errorf("reprise: %s: %w", op, err)
}

func (d *Device) objectError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return d.opError(fmt.Sprintf("%s %q", op, name), err)
}

func (d *Device) usable(op string) error {
	if m := d.missing; m != nil {
		return fmt.Errorf("reprise: %s: queue %d: %w: %s has %d, see WithQueues", op, m.id, ErrNoQueue, m.d.name, m.d.Queues())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("reprise: %s: %w", op, ErrClosed)
	}
	return nil
}

func (o *options) openFirmware(ctx context.Context) (base *metal.Firmware, err error) {
	if o.firmware != "" {
		if base, err = metal.OpenFirmware(o.firmware); err != nil {
			return nil, err
		}
		for _, wheel := range o.wheels {
			if err := base.Select(wheel); err != nil {
				return nil, err
			}
		}
		o.dispatch.Firmware = baseFirmware(base)
	}
	if o.queues != "" {
		q, err := metal.OpenQueueFirmware(ctx, o.queues)
		if err != nil {
			return nil, err
		}
		o.dispatch.QueueFirmware = queueFirmware(q)
	}
	return base, nil
}

func baseFirmware(m *metal.Firmware) *dispatch.Firmware {
	f := &dispatch.Firmware{Layout: m.Layout, DRAMBanks: m.DRAMBanks, L1Banks: m.L1Banks, CountsArgs: m.CountsArgs()}
	for p := range m.Base {
		for _, s := range m.Base[p].Segments {
			if len(s.Data) > 0 {
				f.Segments[p] = append(f.Segments[p], dispatch.Segment{Addr: s.Addr, Data: s.Data})
			}
		}
	}
	return f
}

func queueFirmware(m *metal.QueueFirmware) *dispatch.QueueFirmware {
	f := &dispatch.QueueFirmware{Name: m.Dir, Base: baseFirmware(m.Base)}
	for i := range m.Queues {
		k := &m.Queues[i]
		f.Queues = append(f.Queues, dispatch.QueueKernels{
			Prefetch: k.Prefetch.Image.Text, Dispatch: k.Dispatch.Image.Text, Subordinate: k.Subordinate.Image.Text,
			Constants: k.Constants, DRAMBanks: k.Prefetch.Image.Metal.DRAMBanks,
		})
	}
	f.Stripped = dispatch.StrippedKernels{Prefetch: strippedKernels(m.Prefetch), Dispatch: strippedKernels(m.Dispatch),
		Subordinate: strippedKernels(m.Subordinate)}
	return f
}

func strippedKernels(all []metal.QueueKernel) []dispatch.StrippedKernel {
	var out []dispatch.StrippedKernel
	for i := range all {
		k := &all[i]
		out = append(out, dispatch.StrippedKernel{Image: k.Image.Text, Has: k.Has, DRAMBanks: k.Image.Metal.DRAMBanks})
	}
	return out
}

func (d *Device) checkFirmware(k *Kernel) error {
	if d.firmware != nil {
		return d.firmware.CheckProcessor(k.Image, k.Processor)
	}
	if k.Image.Metal != nil {
		return metal.ErrOwnFirmware
	}
	return nil
}

func lockOrder(ds []*Device) []*Device {
	return slices.SortedFunc(slices.Values(ds), func(a, b *Device) int { return a.queues[0].q.Compare(b.queues[0].q) })
}

func distinct(ds []*Device) error {
	for i, d := range ds {
		if d == nil {
			return fmt.Errorf("device %d of the list is nil", i)
		}
		if slices.Contains(ds[:i], d) {
			return fmt.Errorf("device %s is given twice", d.name)
		}
	}
	if len(ds) == 0 {
		return errors.New("no devices")
	}
	return nil
}

func memories(ds []*Device) []*allocator.Allocator {
	out := make([]*allocator.Allocator, len(ds))
	for i, d := range ds {
		out[i] = d.mem
	}
	return out
}

func eachOf(n int, f func(i int) error) error {
	if n == 1 {
		return f(0)
	}
	var g errgroup.Group
	for i := range n {
		g.Go(func() error { return f(i) })
	}
	return g.Wait()
}

// RecoverError names the step in which Recover failed. The device is as unusable as before, and
// Recover can be called again.
type RecoverError struct {
	Device string
	Step   string // "reopen", "reset" or "start"
	Err    error
}

func (e *RecoverError) Error() string {
	return fmt.Sprintf("reprise: recover %s: %s: %v", e.Device, e.Step, e.Err)
}

// Unwrap returns why it failed.
func (e *RecoverError) Unwrap() error { return e.Err }

// Recover makes a device usable again whose queue hangs, or that was lost: reset by another
// process, stopped, or unplugged and plugged in again. It ends every wait on the device with
// ErrRecovering, drops what is in the queues, and restarts the firmware and the queues. A lost
// device is opened again. If it doesn't answer, or its cores don't start, the chip is reset, unless
// another process has it open.
//
// Every Buffer, Executable and Trace stays valid at its address. Kernels and traces are written
// again and compared before any queue takes commands. A HostBuffer is pinned again with its
// contents. The contents of buffers are undefined, in DRAM and in L1: write them again.
// See docs/failures.md.
//
// A working device can be recovered too. The error is a *RecoverError, or matches ErrClosed.
func (d *Device) Recover(ctx context.Context) error {
	d.admin.Lock()
	defer d.admin.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return fmt.Errorf("reprise: recover: %w", ErrClosed)
	}
	d.cancel = func() { cancel(ErrClosed) }
	d.mu.Unlock()
	d.disp.Interrupt(ErrRecovering)
	d.work.Lock()
	defer d.work.Unlock()
	if err := d.recover(ctx); err != nil {
		if context.Cause(ctx) == ErrClosed {
			return fmt.Errorf("reprise: recover: %w", ErrClosed)
		}
		err.Device = d.name
		return err
	}
	return d.freeDeferred(true)
}

func (d *Device) recover(ctx context.Context) *RecoverError {
	wasReset := false
	if err := d.kd.Alive(); err != nil {
		d.disp.StopRelay()
		if wasReset, err = d.reopen(ctx); err != nil {
			return &RecoverError{Step: "reopen", Err: err}
		}
	}
	contents := d.contents()
	err := d.disp.Restart(ctx, contents)
	if err != nil && !wasReset && ctx.Err() == nil && !errors.Is(err, dispatch.ErrOtherChip) {
		// A core can keep itself, or the network, from ever answering: then only a reset helps.
		if e := d.reset(ctx, err); e != nil {
			return &RecoverError{Step: "reset", Err: errors.Join(err, e)}
		}
		err = d.disp.Restart(ctx, contents)
	}
	if err != nil {
		return &RecoverError{Step: "start", Err: err}
	}
	return nil
}

func (d *Device) reopen(ctx context.Context) (wasReset bool, err error) {
	err = d.kd.Recover(ctx)
	if err == nil || !errors.Is(err, ErrDeviceLost) {
		return false, err
	}
	return true, d.reset(ctx, err)
}

func (d *Device) reset(ctx context.Context, why error) error {
	c := kmd.ResetConfig{Mode: kmd.ResetASIC}
	_, err := kmd.Reset(ctx, d.target, c)
	var held *kmd.HeldError
	if errors.As(err, &held) && d.onlyOurs(held) {
		// The files that would lose the device are this one's.
		c.Force = true
		_, err = kmd.Reset(ctx, d.target, c)
	}
	if err != nil {
		return fmt.Errorf("the device needs a reset (%w): %w", why, err)
	}
	if err := d.kd.Alive(); err == nil {
		return nil // drivers before 2.6.0 leave the file as it is
	}
	return d.kd.Recover(ctx)
}

// onlyOurs reports whether only this Device's files prevent a reset.
func (d *Device) onlyOurs(e *kmd.HeldError) bool {
	return len(e.Holders) == 1 && e.Holders[0].PID == os.Getpid() && e.Holders[0].Files <= d.kd.Files()
}

func (d *Device) contents() []dispatch.Content {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []dispatch.Content
	seen := map[*Executable]bool{}
	add := func(x *Executable) {
		if !seen[x] {
			seen[x] = true
			out = append(out, content("the kernels of "+x.Name(), x.bin, x.image.Binary()))
		}
	}
	for x := range d.execs {
		add(x)
	}
	for t := range d.parts {
		programs, own := t.contents()
		for _, x := range programs {
			add(x)
		}
		out = append(out, own)
	}
	slices.SortFunc(out, func(a, b dispatch.Content) int { return cmp.Compare(a.At.Addr, b.At.Addr) })
	return out
}

// resident is a part of a trace.
type resident interface {
	// contents returns its programs and its commands.
	contents() ([]*Executable, dispatch.Content)
}

func content(name string, e allocator.Extent, data []byte) dispatch.Content {
	return dispatch.Content{Name: name, At: interleaved(e), Data: data}
}
