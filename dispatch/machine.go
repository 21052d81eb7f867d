package dispatch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/dispatch/postmortem"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/internal/nap"
	"github.com/reprise-tt/reprise/kmd"
)

// Options tell Start what to bring up.
type Options struct {
	// Queues is 1 or 2; 0 means 1.
	Queues int
	// QueueMemory is the pinned host memory of each queue in bytes; 0 means 16 MiB. A quarter is
	// for data from the device.
	QueueMemory uint32
	// Workers are the logical cores that each queue starts programs on, by its number; otherwise
	// the whole grid. Those of two queues are equal or disjoint.
	Workers map[int]chip.Range
	// FirstEvent is the number before the first event id.
	FirstEvent uint32
	// HangTimeout ends a wait without progress in a *HangError; 0 means 10 s.
	HangTimeout time.Duration
	Pace        Pace
	// StockWireFormat sends programs in tt-metal's wire format: each dispatcher command has a relay
	// and a page of its own, and go signals pass through the prefetcher.
	StockWireFormat bool
	// QueueFirmware replaces this runtime's firmware on the command-queue cores. It sets
	// StockWireFormat, and the size of the queues' host memory.
	QueueFirmware *QueueFirmware
	// DumpDir is for dumps of hangs; empty for none.
	DumpDir string
	// Firmware is the workers' base firmware; nil for this runtime's own.
	Firmware *Firmware
}

type machine struct {
	queuePlan

	opened   time.Time // orders devices, with tie
	tie      uint64    // random
	kd       *kmd.Device
	up       *uplink
	ch       *chip.Chip
	pr       *chip.Params
	worker   *abi.Layout
	queue    *abi.Layout // of the other cores
	opts     Options
	asked    uint32
	grid     chip.Range // for programs
	l1Banks  []chip.XY  // virtual coordinates
	sysmem   *kmd.HostMemory
	sets     []*workerSet        // of the queues
	subs     *SubDevices         // that are loaded; changed with every Queue.mu held
	goSlots  map[chip.Core]uint8 // go messages that workers read, if not number 0
	eventXYs []uint32
	restarts atomic.Uint64

	programs *program.Target
	report   postmortem.Machine
	printing *printing
	naps     nap.Sleeper
	seen     observed
	seed     maphash.Seed // of fingerprints
}

func newMachine(kd *kmd.Device, ch *chip.Chip, o Options) *machine {
	own := abi.Own(ch.Arch())
	return &machine{opened: time.Now(), tie: rand.Uint64(), kd: kd, ch: ch, pr: ch.Params(), worker: own, queue: own, opts: o,
		printing: newPrinting(), seed: maphash.MakeSeed()}
}

func (d *machine) describe() {
	d.programs = program.NewTarget(d.ch, d.worker, d.grid)
	d.programs.Args, d.programs.PackedCores, d.programs.Stock = d.opts.Firmware.argFormat(), d.ctl.PackedCores, d.opts.StockWireFormat
	d.report = postmortem.Machine{Device: d.kd, Chip: d.ch, Grid: d.grid, Workers: d.worker, Others: d.queue, Control: &d.ctl,
		Queues: d.cores[:d.opts.Queues], Foreign: d.opts.QueueFirmware != nil, Remote: d.up != nil, Mirror: d.mirror()}
}

func (d *machine) layout() cq.Layout { return cq.Layout(d.ch.Arch()) }

// programGrid leaves out the last logical row on Wormhole and the last logical column on Blackhole,
// for the command queues. Source: tt-metal core descriptors wormhole_b0_80_arch.yaml and
// blackhole_140_arch.yaml.
func programGrid(ch *chip.Chip) chip.Range {
	w, h := ch.Grid()
	if ch.Arch() == chip.Wormhole {
		return chip.Range{End: chip.Core{X: w - 1, Y: h - 2}}
	}
	return chip.Range{End: chip.Core{X: w - 2, Y: h - 1}}
}

func (d *machine) queueGrid() chip.Range {
	r := d.tensixRange()
	if d.ch.Arch() == chip.Wormhole {
		r.Start.Y = r.End.Y
	} else {
		r.Start.X = r.End.X
	}
	return r
}

func (d *machine) queueCores(id int) (prefetch, dispatch chip.Core) {
	return d.cores[id][0], d.cores[id][1]
}

func (d *machine) pinQueueMemory() (err error) {
	if d.sysmem, err = d.hostSide().PinHostMemory(d.memory); err != nil {
		return fmt.Errorf("memory of the command queues: %w", err)
	}
	return d.checkHostMemory()
}

func (d *machine) tensixRange() chip.Range {
	w, h := d.ch.Grid()
	return chip.Range{End: chip.Core{X: w - 1, Y: h - 1}}
}

// hold holds every core in reset and waits for that: until then cores use the host's memory.
func (d *machine) hold() error {
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

// A poll is a load over PCIe of about a microsecond.
const heldTries = 10_000

func (d *machine) held(c chip.Core) error {
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

func (d *machine) write(c chip.Core, addr uint32, p []byte) error {
	xy, err := d.ch.Virtual(c)
	if err != nil {
		return err
	}
	return d.kd.Write(xy, uint64(addr), p)
}

func (d *machine) multicast(r chip.Range, addr uint64, p []byte) error {
	for _, rect := range d.ch.Rects(r) {
		if err := d.kd.Multicast(rect.Start, rect.End, addr, p); err != nil {
			return err
		}
	}
	return nil
}

func (d *machine) multicastWord(r chip.Range, addr, v uint32) error {
	return d.multicast(r, uint64(addr), []byte{byte(v), byte(v >> 8), byte(v >> 16), byte(v >> 24)})
}

type queuePlan struct {
	ctl    memmap.Control
	cores  [memmap.MaxQueues][2]chip.Core
	host   [memmap.MaxQueues]memmap.Host
	memory int // bytes of sysmem
}

func ownCores(ch *chip.Chip, id int) [2]chip.Core {
	w, h := ch.Grid()
	if ch.Arch() == chip.Wormhole {
		return [2]chip.Core{{X: 2 * id, Y: h - 1}, {X: 2*id + 1, Y: h - 1}}
	}
	return [2]chip.Core{{X: w - 1, Y: 2 * id}, {X: w - 1, Y: 2*id + 1}}
}

// DefaultQueue returns the workers and the dispatch core's virtual coordinates of queue 0 without
// options.
func DefaultQueue(ch *chip.Chip) (workers chip.Range, dispatcher chip.XY, err error) {
	dispatcher, err = ch.Virtual(ownCores(ch, 0)[1])
	return programGrid(ch), dispatcher, err
}

func (d *machine) planQueues() error {
	if fw := d.opts.QueueFirmware; fw != nil {
		return d.planFrom(fw)
	}
	p := &d.queuePlan
	p.ctl = memmap.Own(d.queue)
	p.memory = d.opts.Queues * int(d.opts.QueueMemory)
	for id := range d.opts.Queues {
		p.cores[id] = ownCores(d.ch, id)
		p.host[id] = memmap.OwnHost(d.pr, id, d.opts.QueueMemory)
	}
	return nil
}

// MaxSubDevices is how many sub-devices a device can be divided into.
const MaxSubDevices = cq.MaxSubDevices

// SubDevices is a division of a device's workers into disjoint sets, each of which queues start and
// wait for on its own. Workers in none run nothing.
type SubDevices struct {
	sets [][]chip.Range
	of   map[chip.Core]uint8
	n    [MaxSubDevices]uint32 // workers by sub-device
}

// NewSubDevices checks that at most MaxSubDevices sets are disjoint and inside of the worker grid.
func (d *machine) NewSubDevices(sets ...[]chip.Range) (*SubDevices, error) {
	of, n, err := chip.Divide(d.grid, MaxSubDevices, sets)
	if err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	s := &SubDevices{of: of}
	for i, set := range sets {
		s.sets, s.n[i] = append(s.sets, slices.Clone(set)), uint32(n[i])
	}
	return s, nil
}

// Sets returns the sub-devices' cores.
func (s *SubDevices) Sets() [][]chip.Range { return s.sets }

// Workers returns how many workers a sub-device has.
func (s *SubDevices) Workers(sub uint8) uint32 { return s.n[sub] }

// selectGoMessages has the workers read the go messages of their sub-devices, or of their queues'
// sets with tt-metal's dispatchers. Workers of none read a message that no queue sends.
func (d *machine) selectGoMessages(ctx context.Context) error {
	slot := func(c chip.Core) uint32 {
		if d.opts.QueueFirmware == nil {
			return 0
		}
		for _, s := range d.sets {
			if s.cores.Contains(c) {
				return uint32(s.slot)
			}
		}
		return uint32(len(d.sets))
	}
	if d.subs != nil {
		slot = func(c chip.Core) uint32 {
			if i, ok := d.subs.of[c]; ok {
				return uint32(i)
			}
			return MaxSubDevices
		}
	}
	for c := range d.grid.Cores() {
		n := slot(c)
		if n == uint32(d.goSlots[c]) {
			continue
		}
		l1 := &d.worker.L1
		if l1.GoIndex == abi.Absent {
			return fmt.Errorf("dispatch: base firmware of %v has one go message, so no sub-devices: use one from ttnn 0.63.0 or newer",
				d.worker.Revision)
		}
		if err := d.selectGoMessage(ctx, c, n); err != nil {
			return fmt.Errorf("dispatch: go message %d of %v: %w", n, c, err)
		}
		d.goSlots[c] = uint8(n)
	}
	return nil
}

// selectGoMessage returns after the worker has read go message n. Dispatchers multicast all go
// messages to the whole grid: a worker between its loads of the old number and of that signal would
// take the signal, and reply to the address in message n. So the host sends a reset in message n
// and waits until the worker clears its read pointer. It waits twice, because a worker that ends
// a program may write a zero too.
func (d *machine) selectGoMessage(ctx context.Context, c chip.Core, n uint32) error {
	l1 := &d.worker.L1
	word := func(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
	if err := errors.Join(d.write(c, l1.Go+4*n, word(uint32(cq.SignalResetReadPtrHost)<<24)), d.write(c, l1.GoIndex, word(n)),
		d.report.Read(c, l1.GoIndex, make([]byte, 4))); err != nil {
		return err
	}
	for range 2 {
		if err := d.write(c, l1.LaunchReadPtr, word(1)); err != nil {
			return err
		}
		w := newWaiter(firmwareTimeout, Pace{}, &d.naps)
		for p := make([]byte, 4); ; {
			if err := errors.Join(d.report.Read(c, l1.LaunchReadPtr, p), d.kd.Fault()); err != nil {
				return err
			}
			if binary.LittleEndian.Uint32(p) == 0 {
				break
			}
			if err := w.pause(ctx); err != nil {
				return fmt.Errorf("no reset of the read pointer; %v: %w", d.report.Core(c), err)
			}
		}
	}
	// The message has to land before a go signal by the dispatcher: nothing else orders the two.
	return errors.Join(d.write(c, l1.Go+4*n, word(uint32(cq.SignalDone)<<24)), d.report.Read(c, l1.Go+4*n, make([]byte, 4)))
}
