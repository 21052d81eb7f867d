// Package dispatch runs programs on the workers of one chip through its command queues: it brings up the base
// firmware, feeds the prefetcher through rings in pinned host memory, and reads what the dispatcher reports back.
//
// The commands themselves are package cq's; the device code is under firmware. The package knows nothing of traces:
// it offers what recording needs, the commands of a program as bytes for a given [State].
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/nap"
	"github.com/reprise-tt/reprise/kmd"
)

// Options tell Start what to bring up.
type Options struct {
	// Queues is the number of command queues, 1 or 2. 0 means 1.
	Queues int
	// QueueMemory is the pinned host memory of each queue in bytes; 0 means 16 MiB. A quarter of it is for data from the
	// device, the rest for commands and data to it.
	QueueMemory uint32
	// Workers are the logical cores that a queue starts programs on, by its number; a queue that is left out uses the
	// whole grid. The workers of two queues are equal or disjoint.
	Workers map[int]chip.Range
	// FirstEvent is the number before the first event id. Ids count up by one and may wrap at 32 bits.
	FirstEvent uint32
	// HangTimeout is how long a wait may last without any progress before it ends in a *HangError; 0 means 10 s.
	HangTimeout time.Duration
	// Pace is how waits on the host poll.
	Pace Pace
	// StockWireFormat sends programs in tt-metal's own wire format, in which each command of the dispatcher has a relay and a
	// page of its own and go signals pass through the prefetcher. The firmware takes both formats; this is to compare them.
	StockWireFormat bool
	// QueueFirmware replaces this runtime's own firmware on the command-queue cores; nil for its own. It sets StockWireFormat,
	// and the size of the queues' host memory is that of the files.
	QueueFirmware *QueueFirmware
	// DumpDir is the directory in which a *HangError leaves a file with the state of the device; empty for none.
	DumpDir string
	// Firmware is the base firmware of the cores that programs may use; nil for this runtime's own.
	Firmware *Firmware
}

const (
	defaultQueueMemory = 16 << 20
	defaultHangTimeout = 10 * time.Second
)

// Device is a chip whose Tensix cores run the base firmware and some of them the command queues.
type Device struct {
	queuePlan

	opened   time.Time // orders devices, with tie
	tie      uint64    // random
	kd       *kmd.Device
	up       *uplink // nil if the chip has a PCI interface
	ch       *chip.Chip
	pr       *chip.Params
	worker   *abi.Layout // of the cores that programs may use
	queue    *abi.Layout // of the others, some of which are the command queues'
	opts     Options
	asked    uint32     // Options.QueueMemory as it was given
	grid     chip.Range // cores that programs may use
	l1Banks  []chip.XY  // virtual coordinates of the workers, by L1 bank
	sysmem   *kmd.HostMemory
	queues   []*Queue
	sets     []*workers // of the queues
	eventXYs []uint32   // dispatch cores of all queues, as commands name them
	seen     observed
	power    func() error // releases the clock that guard raised
	seed     maphash.Seed // of fingerprints

	hostMu sync.Mutex
	hosts  map[*HostBuffer]struct{} // pinned, beside sysmem

	restarts atomic.Uint64
	naps     nap.Sleeper

	printing *printing

	texts   atomic.Uint64 // programs compiled, which names their texts
	kernels *sync.Map     // by textID, weak.Pointer[kernelTexts]; apart, for clean-ups must not keep the Device
}

// Start brings the chip up: firmware on every core, then the command queues. The caller closes kd after the Device.
func Start(ctx context.Context, kd *kmd.Device, o Options) (*Device, error) {
	if o.Queues == 0 {
		o.Queues = 1
	}
	if o.Queues < 1 || o.Queues > maxQueues {
		return nil, fmt.Errorf("dispatch: start: %d command queues asked for, a device has 1 or %d", o.Queues, maxQueues)
	}
	asked := o.QueueMemory
	if o.QueueMemory == 0 {
		o.QueueMemory = defaultQueueMemory
	}
	if o.QueueMemory < minQueueSize || o.QueueMemory%pageSize != 0 {
		return nil, fmt.Errorf("dispatch: start: %d B of host memory for each queue asked for: give a multiple of %d B, at least %d B",
			o.QueueMemory, pageSize, minQueueSize)
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
	d := &Device{opened: time.Now(), tie: rand.Uint64(), kd: kd, ch: ch, pr: ch.Params(), opts: o, asked: asked, worker: abi.Own(ch.Arch()),
		queue: abi.Own(ch.Arch()), seed: maphash.MakeSeed(), kernels: new(sync.Map), printing: newPrinting()}
	if o.Firmware != nil {
		d.worker = o.Firmware.Layout
	}
	if o.QueueFirmware != nil {
		d.queue = o.QueueFirmware.Base.Layout
	}
	if u := kd.Uplink(); u != nil {
		d.up = &uplink{Uplink: u, d: d}
	}
	if err := d.start(ctx); err != nil {
		return nil, errors.Join(err, d.Close(ctx))
	}
	return d, nil
}

// checkDumpDir checks that dumps can have a place, before the day on which one is needed.
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
		q, err := d.startQueue(id)
		if err != nil {
			return fmt.Errorf("dispatch: start: queue %d: %w", id, err)
		}
		d.queues = append(d.queues, q)
		if err := d.probe(ctx, q); err != nil {
			return err
		}
	}
	return d.guard()
}

// guard asks the driver for the full clock while the device is in use, and for stores that stop the dispatchers and
// prefetchers of all queues if this process is killed: they would go on using its memory. A device that is open exclusively
// has one store, for the dispatcher of queue 0, which writes.
func (d *Device) guard() error {
	if d.power != nil { // of the file before a recovery
		_ = d.power()
		d.power = nil
	}
	release, err := d.kd.HoldPower(kmd.PowerAIClock)
	if err != nil {
		return fmt.Errorf("dispatch: start: raise the clock: %w", err)
	}
	d.power = release
	if d.up != nil {
		return d.up.guard()
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
	err = d.kd.SetNOCCleanups(stores...)
	if err != nil && !errors.Is(err, kmd.ErrDriverTooOld) && !errors.Is(err, kmd.ErrBusy) {
		return fmt.Errorf("dispatch: start: have the driver stop the queues' cores when this process ends: %w", err)
	}
	return nil
}

// programGrid is the part of the Tensix grid that programs may use: all but the last logical row on Wormhole and the
// last logical column on Blackhole, which hold the command queues. Source: tt-metal core descriptors
// wormhole_b0_80_arch.yaml and blackhole_140_arch.yaml.
func programGrid(ch *chip.Chip) chip.Range {
	w, h := ch.Grid()
	if ch.Arch() == chip.Wormhole {
		return chip.Range{End: chip.Core{X: w - 1, Y: h - 2}}
	}
	return chip.Range{End: chip.Core{X: w - 2, Y: h - 1}}
}

// queueGrid is the rest of the Tensix grid: its last row on Wormhole and its last column on Blackhole.
func (d *Device) queueGrid() chip.Range {
	r := d.tensixRange()
	if d.ch.Arch() == chip.Wormhole {
		r.Start.Y = r.End.Y
	} else {
		r.Start.X = r.End.X
	}
	return r
}

// queueCores returns the prefetch core and the dispatch core of a queue.
func (d *Device) queueCores(id int) (prefetch, dispatch chip.Core) {
	return d.cores[id][0], d.cores[id][1]
}

// pinQueueMemory pins the host memory of all queues.
func (d *Device) pinQueueMemory() (err error) {
	if d.sysmem, err = d.hostSide().PinHostMemory(d.memory); err != nil {
		return fmt.Errorf("memory of the command queues: %w", err)
	}
	return d.checkHostMemory()
}

// tensixRange is the whole logical Tensix grid.
func (d *Device) tensixRange() chip.Range {
	w, h := d.ch.Grid()
	return chip.Range{End: chip.Core{X: w - 1, Y: h - 1}}
}

// WorkerLayout returns the layout of the workers' L1 and messages.
func (d *Device) WorkerLayout() *abi.Layout { return d.worker }

// layoutOf returns the layout of a core: a worker's or that of the cores that no program may use.
func (d *Device) layoutOf(c chip.Core) *abi.Layout {
	if d.grid.Contains(c) {
		return d.worker
	}
	return d.queue
}

// Chip describes the chip.
func (d *Device) Chip() *chip.Chip { return d.ch }

// ErrNoClock is returned by AIClock if the firmware's telemetry has no clock.
var ErrNoClock = errors.New("the card's firmware doesn't tell it")

// AIClock reads the clock of the chip's tiles, in MHz, from its firmware's telemetry. The error wraps [ErrNoClock] if the
// telemetry doesn't have it.
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

// L1Banks returns the number of L1 banks of interleaved L1 buffers: one for each core of Grid, row by row.
func (d *Device) L1Banks() int { return len(d.l1Banks) }

// closeGrace is what Close still waits when its context has ended: a context that had ended before, such as that of a test in
// its clean-up, must not cut off queues that have nothing to do. Their kernels end within microseconds on a chip.
const closeGrace = time.Second

// Close ends the command queues and holds every core in reset. It waits for work that is still queued as long as that makes
// progress and for a second after ctx has ended; the completions of that work are lost, unless Queue.Wait came first. Work
// that is cut off is an error that wraps the context's cause; everything is released all the same. Of a device that is lost
// only the host's side is released.
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
	errs = append(errs, d.unpinHosts())
	if d.sysmem != nil {
		errs = append(errs, d.sysmem.Close())
		d.sysmem = nil
	}
	d.naps.Close()
	return errors.Join(errs...)
}

// endsLater returns a context that ends, with the same cause, some time after another one.
func endsLater(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var mu sync.Mutex
	var timer *time.Timer
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if later.Err() == nil {
			timer = time.AfterFunc(by, func() { cancel(context.Cause(ctx)) })
		}
	})
	return later, func() {
		stop()
		cancel(nil)
		mu.Lock()
		defer mu.Unlock()
		if timer != nil {
			timer.Stop()
		}
	}
}

// hold holds every core in reset. The error matches kmd.ErrDeviceLost if the device doesn't answer. It waits until the cores
// are in reset: until the store arrives they use the host's memory.
func (d *Device) hold() error {
	if err := d.kd.Alive(); err != nil {
		return err
	}
	if err := d.multicastWord(d.tensixRange(), d.pr.SoftReset, d.pr.ResetAll); err != nil {
		return err
	}
	for c := range d.ch.Workers() {
		if err := d.held(c); err != nil {
			return fmt.Errorf("dispatch: hold core %v in reset: %w", c, err)
		}
	}
	return nil
}

// heldTries is how often a core that isn't in reset yet is polled: each poll is a load over PCIe, about a microsecond.
const heldTries = 10_000

// held waits until a core is in reset.
func (d *Device) held(c chip.Core) error {
	xy, err := d.ch.Virtual(c)
	if err != nil {
		return err
	}
	var v uint32
	for range heldTries {
		if v, err = d.kd.Read32(xy, uint64(d.pr.SoftReset)); err != nil {
			return err
		}
		if v&d.pr.ResetAll == d.pr.ResetAll {
			return nil
		}
	}
	return fmt.Errorf("its reset register stays %#x, want the bits %#x: the chip needs a reset", v, d.pr.ResetAll)
}

// write writes to the L1 of one core, bypassing the command queues.
func (d *Device) write(c chip.Core, addr uint32, p []byte) error {
	xy, err := d.ch.Virtual(c)
	if err != nil {
		return err
	}
	return d.kd.Write(xy, uint64(addr), p)
}

// read reads from the L1 of one core, bypassing the command queues.
func (d *Device) read(c chip.Core, addr uint32, p []byte) error {
	xy, err := d.ch.Virtual(c)
	if err != nil {
		return err
	}
	return d.kd.Read(xy, uint64(addr), p)
}

// multicast writes the same bytes to every core of a range, bypassing the command queues.
func (d *Device) multicast(r chip.Range, addr uint64, p []byte) error {
	for _, rect := range d.ch.Rects(r) {
		if err := d.kd.Multicast(rect.Start, rect.End, addr, p); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) multicastWord(r chip.Range, addr, v uint32) error {
	return d.multicast(r, uint64(addr), []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
}
