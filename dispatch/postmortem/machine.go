// Package postmortem reports on a device that stopped: which kernel is to blame, what each core
// waits for, where the queues are, in words and in a file. It gets memory to read and plain
// descriptions of queues, programs and traces.
package postmortem

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/kernels/watch"
)

// Device is memory and registers of a device, by virtual coordinates, as a kmd.Device.
type Device interface {
	core.Device
	String() string
	// EngineWait says what a thread of a tile's Tensix engines waits for; known is false if the
	// device can't tell.
	EngineWait(xy chip.XY, thread int) (wait string, known bool)
}

// Machine describes a device.
type Machine struct {
	Device  Device
	Chip    *chip.Chip
	Grid    chip.Range  // for programs
	Workers *abi.Layout // layout of these
	Others  *abi.Layout // layout of the other cores
	Control *memmap.Control
	Queues  [][2]chip.Core
	Foreign bool
	Remote  bool      // reached over Ethernet
	Mirror  chip.Core // of such a chip: the core whose L1 mirrors host memory
}

// Hang is what the host knows of a queue that makes no progress.
type Hang struct {
	Queue         int
	Waiting, Last string // as in HangError
	Cause         error
	Workers       chip.Range // of the queue
	Unreachable   string     // as in Dump
	Queues        []Queue
	// Replayed calls a function with the newest replay, if there is one: its commands and, with
	// control flow, its description, which stay as they are meanwhile.
	Replayed func(func(image []byte, flow *Trace))
	Loaded   []*program.Loaded // in use
	Debug    interface {
		print.Device
		Failures() ([]watch.Failure, error)
	}
}

// Queue is what the host knows of a queue.
type Queue struct {
	QueueDump
	Commands []Region // of QueueDump.Entries
}

// LayoutOf returns the layout of a core.
func (m *Machine) LayoutOf(c chip.Core) *abi.Layout {
	if m.Grid.Contains(c) {
		return m.Workers
	}
	return m.Others
}

// Read reads a core's memory.
func (m *Machine) Read(c chip.Core, addr uint32, p []byte) error {
	xy, err := m.Chip.Virtual(c)
	if err != nil {
		return err
	}
	return m.Device.Read(xy, uint64(addr), p)
}

// Register reads all ones if it can't be read.
func (m *Machine) Register(c chip.Core, addr uint32) uint32 {
	v := ^uint32(0)
	if xy, err := m.Chip.Virtual(c); err == nil {
		if word, err := m.Device.Read32(xy, uint64(addr)); err == nil {
			v = word
		}
	}
	return v
}

const (
	// ShownTaken is how many taken entries of the prefetch queue are kept.
	ShownTaken = 3
	// ShownWaiting is how many waiting entries are kept.
	ShownWaiting = 16
	// mostStacks is the number of busy workers whose call stacks and kernel-config memory are kept.
	mostStacks    = 32
	maxTraceImage = maxDump / 2
)

// Collect reads the state of the device.
func (m *Machine) Collect(h *Hang) *Dump {
	dump := &Dump{
		Time: time.Now().UTC(), Target: m.Device.String(), Arch: m.Chip.Arch().String(), Harvesting: m.Chip.Harvesting(),
		Queue: h.Queue, Waiting: h.Waiting, Last: h.Last, Cause: h.Cause.Error(), Unreachable: h.Unreachable,
	}
	for i := range h.Queues {
		q := &h.Queues[i]
		dump.Regions = append(dump.Regions, q.Commands...)
		if dump.Unreachable == "" {
			m.dumpDevice(dump, &q.QueueDump)
		}
		dump.Queues = append(dump.Queues, q.QueueDump)
	}
	configs := 0
	for c := range m.Chip.Workers() {
		if dump.Unreachable != "" {
			dump.Cores = append(dump.Cores, CoreState{Core: c, Kind: m.kind(c), Unreadable: dump.Unreachable})
			continue
		}
		s, mailbox := m.readCore(c)
		dump.Cores = append(dump.Cores, s)
		if s.Err == nil {
			dump.add(RegionMailbox, c, uint64(m.LayoutOf(c).L1.Mailbox), mailbox)
		}
		if s.Kind == Worker && s.Err == nil && s.Busy() && configs < mostStacks {
			configs++
			l1 := &m.Workers.L1
			m.dumpRegion(dump, RegionKernelConfig, c, l1.KernelConfig, l1.KernelConfigSize)
			if m.Workers.Revision.Own() {
				first, last := l1.Firmware[0], chip.NumProcessors-1
				m.dumpRegion(dump, RegionFirmware, c, first, l1.Firmware[last]+l1.FirmwareSize[last]-first)
			}
		}
	}
	h.Replayed(func(_ []byte, flow *Trace) {
		if flow != nil {
			dump.nameProgram(cq.Layout(m.Chip.Arch()), flow, h.Workers)
		}
	})
	if _, ok := h.Debug.PrintArea(); ok {
		busy := dump.busyWorkers()
		dump.Prints = print.Left(h.Debug, busy[:min(len(busy), mostPrinters)])
	}
	if dump.Unreachable == "" {
		dump.Watch, _ = h.Debug.Failures()
		m.dumpStacks(dump, h)
	}
	h.Replayed(func(image []byte, _ *Trace) {
		if n := len(image); n > 0 && n <= maxTraceImage {
			dump.Regions = append(dump.Regions, Region{Name: RegionTrace, Core: m.Queues[h.Queue][0], Host: true, Size: n,
				Data: bytes.Clone(image)})
		}
	})
	return dump
}

// mostPrinters is the number of busy workers whose prints a dump keeps.
const mostPrinters = 16

func (d *Dump) busyWorkers() (busy []chip.Core) {
	for i := range d.Cores {
		if c := &d.Cores[i]; c.Kind == Worker && c.Unreadable == "" && c.Busy() {
			busy = append(busy, c.Core)
		}
	}
	return busy
}

func among(cores []chip.Core, in chip.Range) []chip.Core {
	return slices.DeleteFunc(slices.Clone(cores), func(c chip.Core) bool { return !in.Contains(c) })
}

func (d *Dump) add(name string, c chip.Core, addr uint64, data []byte) {
	d.Regions = append(d.Regions, Region{Name: name, Core: c, Addr: addr, Size: len(data), Data: data})
}

// dumpRegion leaves out what is unreadable: the core's state says why.
func (m *Machine) dumpRegion(dump *Dump, name string, c chip.Core, addr, size uint32) []byte {
	p := make([]byte, size)
	if m.Read(c, addr, p) != nil {
		return nil
	}
	dump.add(name, c, uint64(addr), p)
	return p
}

func (m *Machine) dumpDevice(dump *Dump, out *QueueDump) {
	l1, ctl, params := &m.Others.L1, m.Control, m.Chip.Params()
	sems := l1.KernelConfig + memmap.SlotArgs*chip.NumProcessors
	configSize := min(l1.KernelConfigSize, ctl.FetchQueue-l1.KernelConfig)
	pre := m.dumpRegion(dump, RegionControl, out.Prefetch, l1.Unreserved, ctl.Commands-l1.Unreserved)
	core := m.dumpRegion(dump, RegionControl, out.Dispatch, l1.Unreserved, ctl.FetchQueue-l1.Unreserved)
	preConfig := m.dumpRegion(dump, RegionKernelConfig, out.Prefetch, l1.KernelConfig, configSize)
	coreConfig := m.dumpRegion(dump, RegionKernelConfig, out.Dispatch, l1.KernelConfig, configSize)
	m.dumpRegion(dump, RegionCommandData, out.Prefetch, ctl.Commands, ctl.CommandsSize)
	m.dumpRegion(dump, RegionDispatchRing, out.Dispatch, ctl.DispatchRing, ctl.DispatchPages*ctl.DispatchPageSize)
	m.dumpRegion(dump, RegionSubordinateRing, out.Dispatch, ctl.SubordinateRing, ctl.SubordinatePages*ctl.SubordinatePageSize)
	if pre == nil || core == nil || preConfig == nil || coreConfig == nil {
		return
	}
	le := binary.LittleEndian
	control := func(b []byte, addr uint32) uint32 { return le.Uint32(b[addr-l1.Unreserved:]) }
	sem := func(b []byte, id uint32) uint32 { return le.Uint32(b[sems-l1.KernelConfig+16*id:]) }
	r := &out.Device
	*r = DeviceRings{
		Read:               true,
		PrefetchReset:      m.Register(out.Prefetch, params.SoftReset),
		DispatchReset:      m.Register(out.Dispatch, params.SoftReset),
		FetchRead:          control(pre, ctl.FetchRead),
		IssueRead:          control(pre, ctl.IssueRead),
		DispatchCredits:    sem(preConfig, ctl.DispatchCredits),
		SubordinateCredits: sem(preConfig, ctl.SubordinateCredits),
		Syncs:              sem(preConfig, ctl.Sync),
		DispatchPages:      sem(coreConfig, ctl.DispatchPublished),
		SubordinatePages:   sem(coreConfig, ctl.SubordinatePublished),
		CompletionWr:       control(core, ctl.CompletionWrite),
		CompletionRd:       control(core, ctl.CompletionRead),
		FirstStream:        params.Stream.FirstDispatch,
	}
	if b := make([]byte, memmap.LoopsSize); ctl.Loops != 0 && m.Read(out.Prefetch, ctl.Loops, b) == nil {
		r.Loops, r.Replays = memmap.ParseLoops(b)
	}
	for _, a := range ctl.LastEvent {
		r.LastEvents = append(r.LastEvents, control(core, a))
	}
	for i := range uint32(cq.MaxSubDevices) {
		r.GoSyncs = append(r.GoSyncs, control(core, ctl.SyncWords+16*i))
	}
	for i := range cq.MaxSubDevices {
		r.Streams = append(r.Streams, m.Register(out.Dispatch, params.Stream.Reg(r.FirstStream+i, chip.SpaceAvailable)))
	}
}
