// Package dispatch runs programs on the workers of one chip through its command queues: it brings
// up the base firmware, feeds the prefetcher through rings in pinned host memory, and reads what
// the dispatcher reports back.
//
// It knows nothing of traces: it gives recording the commands of a program as bytes for a given
// [State].
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/firmware/relay"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/kmd"
)

const (
	defaultQueueMemory = 16 << 20
	defaultHangTimeout = 10 * time.Second
)

// Device is a chip whose Tensix cores run the base firmware and some of them the command queues.
type Device struct {
	*machine

	queues []*Queue
	power  func() error
	pinned hostBuffers
}

// Start brings the chip up: firmware on every core, then the command queues. The caller closes kd
// after the Device.
func Start(ctx context.Context, kd *kmd.Device, o Options) (*Device, error) {
	if o.Queues == 0 {
		o.Queues = 1
	}
	if o.Queues < 1 || o.Queues > memmap.MaxQueues {
		return nil, fmt.Errorf("dispatch: start: %d command queues asked for, a device has 1 or %d", o.Queues, memmap.MaxQueues)
	}
	asked := o.QueueMemory
	if o.QueueMemory == 0 {
		o.QueueMemory = defaultQueueMemory
	}
	if o.QueueMemory < memmap.MinQueueSize || o.QueueMemory%memmap.PageSize != 0 {
		return nil, fmt.Errorf("dispatch: start: %d B of host memory for each queue asked for: give a multiple of %d B, at least %d B",
			o.QueueMemory, memmap.PageSize, memmap.MinQueueSize)
	}
	if o.HangTimeout == 0 {
		o.HangTimeout = defaultHangTimeout
	}
	if o.HangTimeout < 0 {
		return nil, fmt.Errorf("dispatch: start: a hang timeout of %v asked for: give a positive one, or 0 for %v", o.HangTimeout,
			defaultHangTimeout)
	}
	if o.Pace.Spin < 0 || o.Pace.Longest < 0 {
		return nil, fmt.Errorf("dispatch: start: waits that spin for %v and sleep for at most %v asked for: give positive times, or 0 for the defaults", o.Pace.Spin, o.Pace.Longest)
	}
	if err := checkDumpDir(o.DumpDir); err != nil {
		return nil, fmt.Errorf("dispatch: start: %w", err)
	}
	if o.QueueFirmware != nil {
		o.StockWireFormat = true
	}
	h, err := kd.Harvesting(ctx)
	if err != nil {
		return nil, fmt.Errorf("dispatch: start: read harvesting: %w", err)
	}
	ch, err := chip.New(kd.Arch(), h)
	if err != nil {
		return nil, fmt.Errorf("dispatch: start: %w", err)
	}
	d := &Device{machine: newMachine(kd, ch, o)}
	d.asked = asked
	if o.Firmware != nil {
		d.worker = o.Firmware.Layout
	}
	if o.QueueFirmware != nil {
		d.queue = o.QueueFirmware.Base.Layout
	}
	if u := kd.Uplink(); u != nil {
		d.up = &uplink{Uplink: u, d: d.machine}
	}
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(err, d.Close(ctx))
	}
	return d, nil
}

func checkDumpDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", dir)
	}
	if err != nil {
		return fmt.Errorf("directory for dumps: %w: make it before", err)
	}
	return nil
}

func (d *Device) start(ctx context.Context) error {
	d.grid = programGrid(d.ch)
	for c := range d.grid.Cores() {
		xy, err := d.ch.Virtual(c)
		if err != nil {
			return fmt.Errorf("dispatch: start: %w", err)
		}
		d.l1Banks = append(d.l1Banks, xy)
	}
	if err := d.checkFirmware(); err != nil {
		return err
	}
	var err error
	if d.sets, err = d.workerSets(); err != nil {
		return fmt.Errorf("dispatch: start: %w", err)
	}
	if err := d.planQueues(); err != nil {
		return err
	}
	d.describe()
	if err := d.bringUp(ctx); err != nil {
		return err
	}
	d.eventXYs = d.dispatchXYs()
	if err := d.pinQueueMemory(); err != nil {
		return fmt.Errorf("dispatch: start: %w", err)
	}
	if err := d.startLink(); err != nil {
		return err
	}
	for id := range d.opts.Queues {
		q := newQueue(d.machine, id)
		d.add(q)
		if err := q.start(); err != nil {
			d.queues = d.queues[:id]
			return fmt.Errorf("dispatch: start: queue %d: %w", id, err)
		}
		if d.opts.QueueFirmware != nil {
			if err := q.probe(ctx); err != nil {
				return err
			}
		}
	}
	return d.guard()
}

func (d *Device) add(q *Queue) {
	q.set = &workers{workerSet: d.sets[q.id]}
	for _, o := range d.queues {
		if o.set.workerSet == q.set.workerSet {
			q.set = o.set
		}
	}
	d.queues = append(d.queues, q)
	for _, o := range d.queues {
		o.all = d.queues
	}
}

// guard asks the driver for the full clock, and to stop the cores that use this process's memory if
// it is killed. A device that is open exclusively has one such store, for the dispatcher of queue
// 0. The near end of a link is stopped when the first file goes and right before the last one, with
// which the memory goes.
func (d *Device) guard() error {
	if d.power != nil {
		_ = d.power()
		d.power = nil
	}
	var err error
	if d.power, err = d.hostSide().HoldPower(kmd.PowerAIClock); err != nil {
		d.power = nil
		return fmt.Errorf("dispatch: start: raise the clock: %w", err)
	}
	if d.up != nil {
		stop := kmd.NOCStore{Target: d.up.Link.Near, Addr: relay.Stop, Value: 1}
		return d.cleanUpBy(stop, stop)
	}
	var stores []kmd.NOCStore
	for id := range d.queues {
		prefetch, dispatch := d.queueCores(id)
		for _, c := range []chip.Core{dispatch, prefetch} {
			xy, err := d.ch.Virtual(c)
			if err != nil {
				return fmt.Errorf("dispatch: start: %w", err)
			}
			stores = append(stores, kmd.NOCStore{Target: xy, Addr: uint64(d.pr.SoftReset), Value: d.pr.ResetAll})
		}
	}
	if err = d.cleanUpBy(stores...); errors.Is(err, kmd.ErrBusy) {
		err = nil
	}
	return err
}

func (d *Device) cleanUpBy(stores ...kmd.NOCStore) error {
	err := d.hostSide().SetNOCCleanups(stores...)
	if err != nil && !errors.Is(err, kmd.ErrDriverTooOld) {
		return fmt.Errorf("dispatch: start: have the driver stop the queues' cores when this process ends: %w", err)
	}
	return nil
}

// WorkerLayout returns the layout of the workers' L1 and messages.
func (d *Device) WorkerLayout() *abi.Layout { return d.worker }

// Chip describes the chip.
func (d *Device) Chip() *chip.Chip { return d.ch }

// ErrNoClock: the firmware's telemetry has no clock.
var ErrNoClock = errors.New("the card's firmware doesn't tell it")

// AIClock reads the clock of the chip's tiles in MHz from its firmware's telemetry, or returns
// [ErrNoClock].
func (d *Device) AIClock(ctx context.Context) (float64, error) {
	t, err := d.kd.Telemetry(ctx)
	if err != nil {
		return 0, err
	}
	mhz, ok := t.Value(chip.TagAICLK)
	if !ok {
		return 0, fmt.Errorf("dispatch: read the AI clock: %w", ErrNoClock)
	}
	return float64(mhz), nil
}

// Grid returns the logical cores that programs may use.
func (d *Device) Grid() chip.Range { return d.grid }

// Queues returns the number of command queues.
func (d *Device) Queues() int { return len(d.queues) }

// Queue returns a command queue by number, 0 up to Queues()-1.
func (d *Device) Queue(id int) *Queue { return d.queues[id] }

// L1Banks returns the number of L1 banks: one for each core of Grid, row by row.
func (d *Device) L1Banks() int { return len(d.l1Banks) }

// closeGrace suffices for queues without work, which end within microseconds.
const closeGrace = time.Second

// Close ends the command queues and holds every core in reset. It waits for queued work as long as
// that makes progress, and for a second after ctx has ended. Completions are lost, unless
// Queue.Wait came first. Work that is cut off is an error that wraps the context's cause;
// everything is released all the same.
func (d *Device) Close(ctx context.Context) error {
	ctx, cancel := endsLater(ctx, closeGrace)
	defer cancel()
	var errs []error
	for _, q := range d.queues {
		errs = append(errs, q.close(ctx))
	}
	errs = append(errs, d.up.close())
	if err := d.hold(); !errors.Is(err, kmd.ErrDeviceLost) {
		errs = append(errs, err)
	}
	if d.power != nil {
		if err := d.power(); !errors.Is(err, kmd.ErrDeviceLost) {
			errs = append(errs, err)
		}
		d.power = nil
	}
	errs = append(errs, d.pinned.closeAll())
	if d.sysmem != nil {
		errs = append(errs, d.sysmem.Close())
		d.sysmem = nil
	}
	d.naps.Close()
	return errors.Join(errs...)
}

// Compile checks a program and encodes its commands. Its kernels' print texts are kept until
// DropPrints.
func (d *Device) Compile(p *Program) (*Image, error) {
	im, err := d.programs.Compile(p)
	if err == nil {
		d.HoldPrints(im)
	}
	return im, err
}

// PackedPage returns the bytes of a page that dispatcher commands may share (cq.Pack); 0 for none.
func (d *Device) PackedPage() int { return d.programs.PackedPage() }

// ReplayState is the state in which a trace's commands run.
func (d *Device) ReplayState() State { return d.programs.ReplayState() }

// PinHost pins memory for transfers without a copy, as c says.
func (d *Device) PinHost(c kmd.PinConfig) (*HostBuffer, error) {
	var err error
	switch {
	case d.up != nil:
		err = ErrRemoteChip
	case d.opts.QueueFirmware != nil:
		err = ErrQueueFirmware
	}
	if err != nil {
		return nil, fmt.Errorf("dispatch: pin host memory: %w: write and read through the queues", err)
	}
	mem, err := d.kd.Pin(c)
	if err != nil {
		return nil, err
	}
	h := &HostBuffer{d: d.machine, of: &d.pinned, all: d.queues, mem: mem, bytes: mem.Bytes()}
	d.pinned.add(h)
	return h, nil
}

// endsLater returns a context that ends later than another, with the same cause.
func endsLater(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(by):
			cancel(context.Cause(ctx))
		case <-later.Done():
		}
	})
	return later, func() {
		stop()
		cancel(nil)
	}
}

// After returns the state of a queue after a trace.
func (d *Device) After(t Detached) State { return d.programs.After(t) }

// HoldPrints keeps the texts that an image's kernels print until as many calls of DropPrints.
func (d *Device) HoldPrints(im *Image) {
	if d.printing.learn(im.Prints()) {
		d.printing.tell() // returns once listeners are ready
	}
}

// DropPrints is the reverse of HoldPrints. After the last one listeners read once more, and then
// the texts are forgotten.
func (d *Device) DropPrints(im *Image) {
	if d.printing.last(im.Prints()) {
		d.printing.tell()
		d.printing.forget()
	}
}

// NewEvent returns an event. A timed one keeps the device's time of each recording, which
// tt-metal's command-queue firmware doesn't report: Record then returns [ErrQueueFirmware].
func (d *Device) NewEvent(name string, timed bool) *Event {
	return &Event{d: d.machine, name: name, timed: timed}
}
