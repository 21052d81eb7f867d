package dispatch

import (
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/memmap"
)

// QueueFirmware is tt-metal's firmware for the command-queue cores.
type QueueFirmware struct {
	Name   string
	Base   *Firmware
	Queues []QueueKernels // by number; a device may have fewer
	// Stripped are kernels without constants, in place of Queues: Start takes the constants from
	// the revision's table and checks them against the kernels' code.
	Stripped StrippedKernels
}

// QueueKernels are the kernels of a command queue: text and initial data, for any multiple of 16 in
// L1.
type QueueKernels struct {
	Prefetch, Dispatch, Subordinate []byte
	Constants                       abi.Queue
	DRAMBanks                       int // 0 if unknown
}

// kernels returns kernels whose arguments name the chips of a split queue.
func (k *QueueKernels) kernels() (prefetch, dispatch []hostKernel) {
	args := make([]uint32, 3)
	return []hostKernel{{proc: chip.BRISC, image: k.Prefetch, args: args}},
		[]hostKernel{{proc: chip.BRISC, image: k.Dispatch, args: args},
			{proc: chip.NCRISC, image: k.Subordinate, args: args}}
}

// ErrQueueFirmware: a feature of this runtime's own command-queue firmware is missing.
var ErrQueueFirmware = errors.New("it needs this runtime's own command-queue firmware, and the device was opened with another one")

// Mismatch is a property that queue firmware was compiled for and the device lacks.
type Mismatch struct {
	Queue  int
	Name   string
	File   string // of the firmware
	Device string
	Do     string
}

// QueueFirmwareError: queue firmware doesn't fit the device, and nothing was started, or it doesn't
// answer.
type QueueFirmwareError struct {
	Name       string // of QueueFirmware
	Mismatches []Mismatch

	Silent error // the answer to the first commands is wrong
	Queue  int   // that was asked
	Cores  []CoreState
}

func (e *QueueFirmwareError) Unwrap() error { return e.Silent }

func (e *QueueFirmwareError) Error() string {
	var b strings.Builder
	if e.Silent != nil {
		fmt.Fprintf(&b, "dispatch: start: command-queue firmware %s doesn't answer the first commands of queue %d as it should: %v", e.Name,
			e.Queue, e.Silent)
		for _, c := range e.Cores {
			fmt.Fprintf(&b, "; %v", c)
		}
		return b.String()
	}
	fmt.Fprintf(&b, "dispatch: start: command-queue firmware %s isn't for this device", e.Name)
	for _, m := range e.Mismatches {
		fmt.Fprintf(&b, "; queue %d: %s: it has %s, the device %s: %s", m.Queue, m.Name, m.File, m.Device, m.Do)
	}
	return b.String()
}

type matcher struct {
	d     *machine
	queue int
	found []Mismatch
}

func (m *matcher) add(name, file, device, do string) {
	m.found = append(m.found, Mismatch{Queue: m.queue, Name: name, File: file, Device: device, Do: do})
}

func (m *matcher) equal(name string, file, device uint32, do string) {
	if file != device {
		m.add(name, fmt.Sprintf("%#x", file), fmt.Sprintf("%#x", device), do)
	}
}

func (m *matcher) oneOf(name string, file, device, other uint32) {
	if file != other {
		m.equal(name, file, device, otherRevision)
	}
}

func (m *matcher) atLeast(name string, file, device uint32) {
	if file < device {
		m.add(name, fmt.Sprintf("%#x", file), fmt.Sprintf("at least %#x", device), otherRevision)
	}
}

const (
	buildForChip   = "build them on a machine with such a chip: tt-metal compiles the chip's harvesting in"
	otherRevision  = "use files of a revision that this host knows"
	otherWorkers   = "let the workers run base firmware of the same revision"
	freeHostMemory = "end other processes that have pinned host memory"
)

// planFrom checks everything that the files assume and the host can't adopt.
func (d *machine) planFrom(fw *QueueFirmware) error {
	if d.up != nil {
		return fmt.Errorf("dispatch: start: command-queue firmware %s: %w: leave the queues of remote chips to this runtime's own", fw.Name,
			ErrRemoteChip)
	}
	if len(fw.Queues) == 0 {
		var err error
		if fw, err = d.byTable(fw); err != nil {
			return err
		}
		d.opts.QueueFirmware = fw
	}
	if len(fw.Queues) < d.opts.Queues {
		return tooFewQueues(fw.Name, len(fw.Queues), d.opts.Queues)
	}
	m := &matcher{d: d}
	p := &d.queuePlan
	first := &fw.Queues[0].Constants
	p.ctl.Queue = *first
	for id := range d.opts.Queues {
		k := &fw.Queues[id]
		m.queue = id
		m.queueConstants(k, first)
		p.cores[id] = [2]chip.Core{m.core("prefetcher's core", k.Constants.PrefetchCore),
			m.core("dispatcher's core", k.Constants.DispatchCore)}
		p.host[id] = fileHostBlock(d.pr, &k.Constants, first)
		p.memory = max(p.memory, int(p.host[id].Base)+int(p.host[id].Size))
	}
	m.distinctCores(p.cores[:d.opts.Queues])
	free := first.SubordinateRing + first.SubordinatePages*first.SubordinatePageSize
	p.ctl.PlaceOwnWords(free)
	if p.ctl.End() > d.queue.L1.Size {
		m.add("end of the subordinate's ring", fmt.Sprintf("%#x", free), fmt.Sprintf("L1 up to %#x", d.queue.L1.Size), otherRevision)
	}
	return m.err(fw)
}

func tooFewQueues(name string, has, asked int) error {
	return fmt.Errorf("dispatch: start: command-queue firmware %s has kernels of %d queues, and %d queues are asked for: build it with as many", name, has, asked)
}

func (m *matcher) err(fw *QueueFirmware) error {
	if len(m.found) > 0 {
		return &QueueFirmwareError{Name: fw.Name, Mismatches: m.found}
	}
	return nil
}

func (m *matcher) core(name string, xy uint32) chip.Core {
	d := m.d
	for c := range d.tensixRange().Cores() {
		if v, err := d.ch.Virtual(c); err == nil && d.ch.Arch().NOCXY(v) == xy && !d.grid.Contains(c) {
			return c
		}
	}
	m.add(name, d.ch.Arch().ParseNOCXY(xy).String(), "cores outside of the grid of workers "+d.grid.String(), buildForChip)
	return chip.Core{}
}

func (m *matcher) distinctCores(cores [][2]chip.Core) {
	seen := map[chip.Core]bool{}
	for id, pair := range cores {
		for _, c := range pair {
			if seen[c] && len(m.found) == 0 {
				m.queue = id
				m.add("cores", c.String()+" twice", "one kernel on each processor", otherRevision)
			}
			seen[c] = true
		}
	}
}

func (m *matcher) rect(w uint32) string {
	start, end := m.d.ch.Arch().ParseNOCMulticast(w)
	return fmt.Sprintf("%v-%v", start, end)
}

func (m *matcher) queueConstants(k *QueueKernels, first *abi.Queue) {
	d, c := m.d, &k.Constants
	same := *c
	same.PrefetchCore, same.DispatchCore = first.PrefetchCore, first.DispatchCore
	same.Base, same.Issue, same.IssueSize = first.Base, first.Issue, first.IssueSize
	same.Completion, same.CompletionSize = first.Completion, first.CompletionSize
	if same != *first {
		m.add("layout", "other addresses or ids than queue 0", "one layout for all queues", "use kernels of one revision")
	}
	rects := d.ch.Rects(d.grid)
	if want := d.ch.Arch().NOCMulticast(rects[0].Start, rects[0].End); c.Workers != want || len(rects) != 1 {
		m.add("grid of workers", m.rect(c.Workers), m.rect(want), buildForChip)
	}
	m.equal("number of workers", c.NumWorkers, uint32(d.grid.Size()), buildForChip)
	if pcie := d.ch.PCIe(chip.NOC0); c.HostTile != pcie.Packed() {
		m.add("PCIe tile", fmt.Sprintf("(%d,%d)", c.HostTile&63, c.HostTile>>6), fmt.Sprint(pcie), buildForChip)
	}
	if k.DRAMBanks != 0 {
		m.equal("number of DRAM banks", uint32(k.DRAMBanks), uint32(len(d.ch.DRAMBanks())), buildForChip)
	}
	m.equal("address of the go messages", c.Go, d.worker.L1.Go, otherWorkers)
	m.equal("first completion stream", c.FirstStream, uint32(d.pr.Stream.FirstDispatch), otherRevision)
	m.oneOf("bytes of a prefetch queue entry", c.FetchEntry, memmap.FetchEntryBytes, memmap.WideFetchEntry)
	m.oneOf("WAIT's flag for a stream", c.WaitStream, uint32(cq.WaitStream), movedWaitStream)
	m.equal("WAIT's flag to clear a stream", c.ClearStream, 2*c.WaitStream, otherRevision)
	m.equal("bytes of a page of the dispatch ring", c.DispatchPageSize, memmap.PageSize, otherRevision)
	m.equal("pages of the dispatch ring", c.DispatchPages, memmap.DispatchPages, otherRevision)
	m.equal("bytes of a page of the subordinate's ring", c.SubordinatePageSize, memmap.SubordinatePageSize, otherRevision)
	m.equal("pages of the subordinate's ring", c.SubordinatePages, memmap.SubordinatePages, otherRevision)
	m.atLeast("bytes of the buffer of fetched commands", c.CommandsSize, 2*memmap.MaxCommandSize)
	m.atLeast("bytes of the scratch buffer", c.ScratchSize, memmap.ScratchSize)
	m.atLeast("bytes of the binary cache", c.BinaryRingSize, memmap.BinaryRingSize)
	m.atLeast("bytes of the completion queue", c.CompletionSize, memmap.MinQueueSize/4)
	m.atLeast("bytes of the issue queue", c.IssueSize, 4*memmap.MaxCommandSize)
	if n := c.FetchQueueSize / max(c.FetchEntry, 1); n < 2 || n >= batchEnds {
		m.add("entries of the prefetch queue", fmt.Sprint(n), fmt.Sprintf("fewer than %d", batchEnds), otherRevision)
	}
	m.addresses(c)
	if o := d.asked; o != 0 && o != c.End()-c.Base {
		m.equal("host memory of a queue", c.End()-c.Base, o, "leave its size to the files")
	}
}

func (m *matcher) addresses(c *abi.Queue) {
	low, high := m.d.queue.L1.Unreserved, m.d.queue.L1.Size
	const do = "use kernels and base firmware of one revision"
	inside := func(name string, at, size, low, high uint32) {
		if at < low || uint64(at)+uint64(size) > uint64(high) {
			m.add(name, fmt.Sprintf("%#x, %d B", at, size), fmt.Sprintf("free L1 at %#x..%#x", low, high), do)
		}
	}
	inside("prefetch queue", c.FetchQueue, c.FetchQueueSize, low, min(c.Commands, high))
	inside("buffer of fetched commands", c.Commands, c.CommandsSize, low, min(c.Scratch, high))
	inside("scratch buffer", c.Scratch, max(c.ScratchSize, c.BinaryRingSize), low, high)
	for _, w := range []struct {
		name string
		at   uint32
	}{
		{"word of the prefetch queue's pointer", c.FetchRead}, {"word of the issue queue's pointer", c.IssueRead},
		{"word of the dispatcher's pointer", c.CompletionWrite}, {"word of the host's pointer", c.CompletionRead},
		{"word of queue 0's events", c.LastEvent[0]}, {"word of queue 1's events", c.LastEvent[1]},
	} {
		inside(w.name, w.at, 4, low, min(c.FetchQueue, high))
	}
	inside("words of the subordinate", c.SyncWords, 16*c.SubDevices, low, min(c.FetchQueue, high))
	inside("dispatch ring", c.DispatchRing, c.DispatchPages*c.DispatchPageSize, low, min(c.SubordinateRing, high))
	inside("subordinate's ring", c.SubordinateRing, c.SubordinatePages*c.SubordinatePageSize, low, high)
	if c.Issue < c.Base || c.Completion != c.Issue+c.IssueSize || c.End() <= c.Completion || c.CompletionSize%memmap.PageSize != 0 {
		m.add("host memory", fmt.Sprintf("issue queue at %#x..%#x, completion queue at %#x..%#x", c.Issue, c.Issue+c.IssueSize, c.Completion,
			c.End()), "one after the other", otherRevision)
	}
}

func (d *machine) checkHostMemory() error {
	fw := d.opts.QueueFirmware
	if fw == nil {
		return nil
	}
	c, m := &fw.Queues[0].Constants, &matcher{d: d}
	tile := uint64(c.HostTile) << 36
	if want := c.HostMemory&^tile | uint64(c.Base); d.sysmem.NOCAddr() != want {
		m.add("address of host memory", fmt.Sprintf("%#x", want), fmt.Sprintf("%#x", d.sysmem.NOCAddr()), freeHostMemory)
	}
	return m.err(fw)
}

func fileHostBlock(p *chip.Params, c, first *abi.Queue) memmap.Host {
	return memmap.Host{
		Base: c.Base - first.Base, Size: c.End() - c.Base,
		CompletionWr: c.CompletionWriteWords, CompletionRd: 3 * p.Align.PCIe(),
		Issue: c.Issue - c.Base, IssueSize: c.IssueSize,
		Completion: c.Completion - c.Base, CompletionSize: c.CompletionSize,
	}
}

// dialect is how tt-metal's command-queue firmware reads commands differently.
type dialect struct {
	movedWaits bool
	slot       uint8
}

// movedWaitStream is a WAIT's flag for a stream in revisions where CLEAR_MEMORY took its bit; the
// flag to clear a stream follows it.
const movedWaitStream = 2 * uint32(cq.WaitStream)

func (t dialect) translate(l cq.Layout, stream []byte) {
	for e, err := range cq.All(l, stream) {
		if err != nil {
			return
		}
		c, _, ok := e.Dispatch()
		if !ok {
			continue
		}
		at := e.Offset + cq.HeaderSize
		switch c := c.(type) {
		case cq.Wait:
			if t.movedWaits {
				const moved = cq.WaitStream | cq.ClearStream
				stream[at+cq.AtWaitFlags] = uint8(c.Flags&^moved | c.Flags&moved<<1)
			}
		case cq.SendGoSignal:
			if c.Multicast != cq.NoMulticast {
				stream[at+cq.AtGoMulticast] += t.slot
			}
		}
	}
}
