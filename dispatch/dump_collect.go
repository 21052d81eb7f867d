package dispatch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise/chip"
)

const (
	// shownTaken is how many entries of the prefetch queue are kept that the prefetcher has taken: it reads ahead by one
	// entry, so a replayed trace may be the one before the last.
	shownTaken = 3
	// shownWaiting is how many entries are kept that it hasn't taken.
	shownWaiting = 16
	// mostStacks is the number of busy workers whose call stacks and kernel-config memory are kept.
	mostStacks = 32
	// maxTraceImage is the size in bytes of the largest trace image that is kept: a file with a larger one could not be
	// read.
	maxTraceImage = maxDump / 2
)

// collectLocked reads the state of the device and of all queues. q.life.mu is held; locked says whether q.mu is as well.
func (q *Queue) collectLocked(what string, cause error, locked bool) *Dump {
	d := q.d
	dump := &Dump{
		Time: time.Now().UTC(), Target: d.kd.String(), Arch: d.ch.Arch().String(), Harvesting: d.ch.Harvesting(),
		Queue: q.id, Waiting: what, Last: q.lastName(), Cause: cause.Error(),
	}
	if err := d.kd.Alive(); err != nil {
		dump.Unreachable = err.Error()
	}
	for _, o := range d.queues {
		switch {
		case o == q:
			dump.Queues = append(dump.Queues, o.dumpLocked(dump, locked))
		case o.life.mu.TryRLock():
			func() {
				defer o.life.mu.RUnlock() // also when memory faults
				dump.Queues = append(dump.Queues, o.dumpLocked(dump, false))
			}()
		}
	}
	configs := 0
	for c := range d.ch.Workers() {
		if dump.Unreachable != "" {
			dump.Cores = append(dump.Cores, CoreState{Core: c, Kind: d.coreKind(c), Unreadable: dump.Unreachable})
			continue
		}
		s, mailbox := d.readCore(c)
		dump.Cores = append(dump.Cores, s)
		if s.Err == nil {
			dump.add(RegionMailbox, c, uint64(d.layoutOf(c).L1.Mailbox), mailbox)
		}
		if s.Kind == kindWorker && s.Err == nil && s.Busy() && configs < mostStacks {
			configs++
			d.dumpRegion(dump, RegionKernelConfig, c, d.worker.L1.KernelConfig, d.worker.L1.KernelConfigSize)
			if l1 := &d.worker.L1; d.worker.Revision.Own() {
				first, last := l1.Firmware[0], chip.NumProcessors-1
				d.dumpRegion(dump, RegionFirmware, c, first, l1.Firmware[last]+l1.FirmwareSize[last]-first)
			}
		}
	}
	q.nameProgram(dump)
	d.dumpPrints(dump)
	d.dumpWatch(dump)
	q.dumpStacks(dump)
	q.history.show(func(last *Prepared) {
		if len(last.Image) > 0 && len(last.Image) <= maxTraceImage {
			dump.Regions = append(dump.Regions, Region{Name: RegionTrace, Core: q.tiles.prefetch, Host: true, Size: len(last.Image),
				Data: bytes.Clone(last.Image)})
		}
	})
	return dump
}

func (q *Queue) lastName() string {
	if last := q.history.last.Load(); last != nil {
		return *last
	}
	return "nothing"
}

func (d *Dump) add(name string, c chip.Core, addr uint64, data []byte) {
	d.Regions = append(d.Regions, Region{Name: name, Core: c, Addr: addr, Size: len(data), Data: data})
}

// dumpRegion reads a piece of a core's L1. What can't be read is left out: the core's state says why.
func (d *Device) dumpRegion(dump *Dump, name string, c chip.Core, addr, size uint32) []byte {
	p := make([]byte, size)
	if d.read(c, addr, p) != nil {
		return nil
	}
	dump.add(name, c, uint64(addr), p)
	return p
}

// dumpLocked describes the queue. life.mu is held.
func (q *Queue) dumpLocked(dump *Dump, locked bool) QueueDump {
	out := QueueDump{ID: q.id, Prefetch: q.tiles.prefetch, Dispatch: q.tiles.dispatch, Last: q.lastName()}
	if locked || q.mu.TryLock() { // without waiting: its holder may wait for life.mu
		q.dumpHostLocked(dump, &out)
		if !locked {
			q.mu.Unlock()
		}
	} else {
		out.Busy = true
	}
	if q.comp.ringMu.TryLock() {
		r := &q.comp.ring
		out.Host.CompletionLow, out.Host.CompletionRd, out.Host.CompletionWr = r.base, r.pointer(), r.host.Load32(r.wrWord)
		q.comp.ringMu.Unlock()
	}
	out.Host.Pages = q.comp.seen()
	out.Pending = q.comp.pending()
	if dump.Unreachable == "" {
		q.dumpDevice(dump, &out)
	}
	return out
}

// dumpHostLocked describes the host's side of the rings, and keeps the commands of the entries of the prefetch queue that
// matter.
func (q *Queue) dumpHostLocked(dump *Dump, out *QueueDump) {
	if dump.Unreachable == "" {
		_ = q.d.kd.Guard(q.rings.fetch.poll) // an impossible pointer shows in the dump
	}
	out.Host = HostRings{
		FetchNext: q.rings.fetch.addr(q.rings.fetch.next), FetchPut: q.rings.fetch.put, FetchTaken: q.rings.fetch.taken,
		IssueWrite: q.rings.issue.wr, IssueSize: uint32(len(q.rings.issue.mem)), Expected: uint32(q.stream.state.Expected),
	}
	first, last := uint64(0), q.rings.fetch.put
	if q.rings.fetch.taken > shownTaken {
		first = q.rings.fetch.taken - shownTaken
	}
	for n := first; n < min(last, q.rings.fetch.taken+shownWaiting); n++ {
		start := uint32(0)
		if n > 0 {
			start = *q.rings.issue.end(n - 1)
		}
		end := *q.rings.issue.end(n)
		if start >= end {
			start = 0 // it didn't fit before the end of the ring
		}
		e := FetchState{Number: n, Taken: n < q.rings.fetch.taken, Offset: start, Size: end - start}
		if start > 0 && n > 0 && e.Size > maxCommandSize {
			continue // of an entry that the ring has forgotten
		}
		out.Entries = append(out.Entries, e)
		dump.Regions = append(dump.Regions, Region{
			Name: RegionIssue, Core: q.tiles.prefetch, Host: true, Addr: uint64(start), Size: int(e.Size),
			Data: append([]byte(nil), q.rings.issue.mem[start:end]...),
		})
	}
}

// dumpDevice reads the words and rings of the command-queue cores.
func (q *Queue) dumpDevice(dump *Dump, out *QueueDump) {
	d, l1, ctl := q.d, &q.d.queue.L1, &q.d.ctl
	sems := l1.KernelConfig + slotArgs*chip.NumProcessors
	configSize := min(l1.KernelConfigSize, ctl.FetchQueue-l1.KernelConfig)
	pre := d.dumpRegion(dump, RegionControl, q.tiles.prefetch, l1.Unreserved, ctl.Commands-l1.Unreserved)
	core := d.dumpRegion(dump, RegionControl, q.tiles.dispatch, l1.Unreserved, ctl.FetchQueue-l1.Unreserved)
	preConfig := d.dumpRegion(dump, RegionKernelConfig, q.tiles.prefetch, l1.KernelConfig, configSize)
	coreConfig := d.dumpRegion(dump, RegionKernelConfig, q.tiles.dispatch, l1.KernelConfig, configSize)
	d.dumpRegion(dump, RegionCommandData, q.tiles.prefetch, ctl.Commands, ctl.CommandsSize)
	d.dumpRegion(dump, RegionDispatchRing, q.tiles.dispatch, ctl.DispatchRing, ctl.DispatchPages*ctl.DispatchPageSize)
	d.dumpRegion(dump, RegionSubordinateRing, q.tiles.dispatch, ctl.SubordinateRing, ctl.SubordinatePages*ctl.SubordinatePageSize)
	if pre == nil || core == nil || preConfig == nil || coreConfig == nil {
		return
	}
	le := binary.LittleEndian
	control := func(b []byte, addr uint32) uint32 { return le.Uint32(b[addr-l1.Unreserved:]) }
	sem := func(b []byte, id uint32) uint32 { return le.Uint32(b[sems-l1.KernelConfig+16*id:]) }
	r := &out.Device
	*r = DeviceRings{
		Read:               true,
		PrefetchReset:      d.register(q.tiles.prefetch, d.pr.SoftReset),
		DispatchReset:      d.register(q.tiles.dispatch, d.pr.SoftReset),
		FetchRead:          control(pre, ctl.FetchRead),
		IssueRead:          control(pre, ctl.IssueRead),
		DispatchCredits:    sem(preConfig, ctl.DispatchCredits),
		SubordinateCredits: sem(preConfig, ctl.SubordinateCredits),
		Syncs:              sem(preConfig, ctl.Sync),
		DispatchPages:      sem(coreConfig, ctl.DispatchPublished),
		SubordinatePages:   sem(coreConfig, ctl.SubordinatePublished),
		CompletionWr:       control(core, ctl.CompletionWrite),
		CompletionRd:       control(core, ctl.CompletionRead),
		FirstStream:        d.pr.Stream.FirstDispatch,
	}
	if b := make([]byte, controlSize); ctl.control != 0 && d.read(q.tiles.prefetch, ctl.control, b) == nil {
		r.Replays, r.Loops = le.Uint32(b[controlReplays:]), parseLoops(b)
	}
	for _, a := range ctl.LastEvent {
		r.LastEvents = append(r.LastEvents, control(core, a))
	}
	for i := range uint32(maxSubDevices) {
		r.GoSyncs = append(r.GoSyncs, control(core, ctl.SyncWords+16*i))
	}
	for i := range maxSubDevices {
		r.Streams = append(r.Streams, d.register(q.tiles.dispatch, d.pr.Stream.Reg(r.FirstStream+i, chip.SpaceAvailable)))
	}
}

// register reads a register of a core, all ones if it can't be read.
func (d *Device) register(c chip.Core, addr uint32) uint32 {
	xy, err := d.ch.Virtual(c)
	if err != nil {
		return ^uint32(0)
	}
	v, err := d.kd.Read32(xy, uint64(addr))
	if err != nil {
		return ^uint32(0)
	}
	return v
}

// pending describes what the host expects to be reported.
func (c *completions) pending() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, x := range c.expected {
		if x.isEvent {
			out = append(out, fmt.Sprintf("event %d", x.event))
		} else {
			out = append(out, fmt.Sprintf("%d B of data", x.size()))
		}
	}
	return out
}
