// Package postmortem reports on a device that stopped: which kernel is to blame, what each core
// waits for, where the queues are, in words and in a file. It gets memory to read and plain
// descriptions of queues, programs and traces.
package postmortem

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/dispatch/program"
	"github.com/reprise-tt/reprise/internal/debug/core"
	"github.com/reprise-tt/reprise/internal/debug/live"
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

const stackPatience = 250 * time.Millisecond

// dumpStacks takes the call stacks of the queue's busy workers, or of all busy workers, then those
// of the queue's own cores. All processors are paused for that.
func (m *Machine) dumpStacks(dump *Dump, h *Hang) {
	all := dump.busyWorkers()
	if own := among(all, h.Workers); len(own) > 0 {
		all = own
	}
	if len(all) > mostStacks {
		dump.StacksNote = fmt.Sprintf("those of %d of %d busy workers", mostStacks, len(all))
		all = all[:mostStacks]
	}
	var places []live.Place
	add := func(c chip.Core, l *abi.Layout) {
		xy, err := m.Chip.Virtual(c)
		if err != nil {
			return
		}
		for p := range chip.Processor(chip.NumProcessors) {
			if has, err := live.HasKernel(l, m.reader(c), p); err == nil && (has || p == chip.BRISC) {
				places = append(places, live.Place{Core: c, XY: xy, Processor: p})
			}
		}
	}
	for _, c := range all {
		add(c, m.Workers)
	}
	workers := len(places)
	for _, c := range m.Queues[h.Queue] {
		add(c, m.Others)
	}
	stacks, err := live.Take(context.Background(), m.Device, places, stackPatience)
	switch {
	case errors.Is(err, core.ErrUnsupported):
		dump.StacksNote = "none, and no program counters: the device has no debug interface"
	case err != nil:
		dump.StacksNote = "none: " + err.Error()
	}
	kernels := &live.Catalogue{}
	if !m.Foreign {
		_ = kernels.AddQueueKernels(m.Chip.Arch())
	}
	for i := range stacks {
		s := &stacks[i]
		known, l := kernels, m.Others
		if i < workers {
			known, l = catalogue(h.Loaded, s), m.Workers
		}
		if _, err := known.Unwind(s, l, m.reader(s.Core)); err != nil {
			s.Note = err.Error()
		}
	}
	dump.Stacks = stacks
}

func (m *Machine) reader(c chip.Core) live.Reader {
	return func(addr uint32, p []byte) error { return m.Read(c, addr, p) }
}

func catalogue(loaded []*program.Loaded, s *live.Snapshot) *live.Catalogue {
	c := &live.Catalogue{}
	for _, of := range loaded {
		for i := range of.Kernels {
			if k := &of.Kernels[i]; k.Processor == s.Processor && slices.Contains(k.Cores, s.Core) {
				c.AddText(of.Program+"/"+k.Name, k.Text, k.File)
			}
		}
	}
	return c
}

// Symbolize renews the call stacks of processors whose kernel, as the dump has it, is in the
// catalogue, and returns their number. The error is that of a dump without the memory that this
// takes.
func (d *Dump) Symbolize(c *live.Catalogue) (n int, err error) {
	arch, err := chip.ParseArch(d.Arch)
	if err != nil {
		return 0, fmt.Errorf("dispatch: call stacks of a dump: %w", err)
	}
	for i := range d.Stacks {
		s := d.Stacks[i]
		l := abi.Own(arch)
		if name := d.core(s.Core).Firmware; name != "" {
			l = abi.Of(name, arch)
		}
		if l == nil {
			continue
		}
		pieces := map[uint32][]byte{}
		for _, name := range [...]string{RegionMailbox, RegionKernelConfig, RegionFirmware} {
			if r, ok := d.Region(name, s.Core); ok {
				pieces[uint32(r.Addr)] = r.Data
			}
		}
		known, err := c.Unwind(&s, l, live.MemoryOf(pieces))
		if err != nil {
			return n, fmt.Errorf("dispatch: call stacks of a dump: %w", err)
		}
		if known {
			d.Stacks[i] = s
			n++
		}
	}
	return n, nil
}

func (p *dumpPrinter) stacks() {
	var workers, queue []live.Snapshot
	for _, s := range p.d.Stacks {
		if k := p.d.core(s.Core).Kind; k == Prefetch || k == Dispatch {
			queue = append(queue, s)
		} else {
			workers = append(workers, s)
		}
	}
	if p.d.StacksNote != "" {
		p.printf("\ncall stacks of busy workers: %s\n", p.d.StacksNote)
	} else if len(workers) > 0 {
		p.printf("\ncall stacks of busy workers:\n")
	}
	p.alikeStacks(workers)
	if len(queue) > 0 {
		p.printf("\ncall stacks of the queue's cores:\n")
	}
	p.alikeStacks(queue)
}

func (p *dumpPrinter) alikeStacks(stacks []live.Snapshot) {
	for _, g := range alike(stacks, func(s live.Snapshot) string { return callers(&s.Stack) }) {
		var of []string
		for _, s := range g {
			of = append(of, fmt.Sprintf("%v %v", s.Core, s.Processor))
		}
		const shown = 8
		if more := len(of) - shown; more > 1 {
			of = append(of[:shown], fmt.Sprintf("%d more", more))
		}
		p.printf("  %s%s", strings.Join(of, ", "), stackText(&g[0].Stack))
	}
}

// alike groups values of one key, in the order of the first ones.
func alike[T any, K comparable](all []T, key func(T) K) (groups [][]T) {
	index := map[K]int{}
	for _, v := range all {
		k := key(v)
		i, ok := index[k]
		if !ok {
			i, index[k] = len(groups), len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], v)
	}
	return groups
}

// callers is what equal stacks have in common: a processor that polls is at one of a few
// instructions.
func callers(s *live.Stack) string {
	var b strings.Builder
	b.WriteString(s.Note)
	top := true
	for _, f := range s.Frames {
		switch {
		case !top:
			fmt.Fprintf(&b, "\n%v", f)
		case !f.Inlined:
			fmt.Fprintf(&b, "\n%s in %s", f.Function, f.Module)
			top = false
		}
	}
	return b.String()
}

func stackText(s *live.Stack) string {
	var b strings.Builder
	if s.Note != "" {
		fmt.Fprintf(&b, " (%s)", s.Note)
	}
	b.WriteByte('\n')
	for i, f := range s.Frames {
		fmt.Fprintf(&b, "    #%d %s\n", i, print.Printable(f.String())) // names come from a file
	}
	return b.String()
}
