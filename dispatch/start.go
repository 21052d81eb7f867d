package dispatch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/firmware/relay"
	"github.com/reprise-tt/reprise/dispatch/memmap"
	"github.com/reprise-tt/reprise/kmd"
)

func newQueue(d *machine, id int) *Queue {
	q := &Queue{d: d, id: id, dialect: dialect{d.ctl.WaitStream == movedWaitStream, d.sets[id].slot}, shared: d.sets[id].shared}
	q.translates = q.dialect != dialect{}
	return q
}

// On a restart mu and life.mu are held.
func (q *Queue) start() error {
	d, id := q.d, q.id
	q.stream.runs, q.stream.replays, q.stream.event = 0, 0, cq.Seq(d.opts.FirstEvent)
	q.status.latest.Store(d.opts.FirstEvent)
	q.status.starts.Add(1)
	q.tiles.prefetch, q.tiles.dispatch = d.queueCores(id)
	preXY, err := d.ch.Virtual(q.tiles.prefetch)
	if err != nil {
		return err
	}
	coreXY, err := d.ch.Virtual(q.tiles.dispatch)
	if err != nil {
		return err
	}
	q.dispatcher = Dispatcher{At: coreXY, Workers: uint32(q.set.cores.Size())}
	q.stream.lanes = nil
	q.newLanesLocked()
	q.comp.queue = uint16(id)
	q.comp.pages.Store(0)
	q.comp.taken.Store(0)

	host := d.host[id]
	mem := d.sysmem.Bytes()[host.Base : host.Base+host.Size]
	noc := d.sysmem.NOCAddr() + uint64(host.Base)
	if noc>>32 != (noc+uint64(host.Size)-1)>>32 {
		return fmt.Errorf("host memory at NoC address %#x crosses a 4 GiB boundary, which the queue's 32-bit pointers can't: free host memory that other processes have pinned", noc)
	}
	bells := d.doorbells(id, preXY, coreXY)
	if q.tiles.prefetchL1, err = d.openL1(bells.pre); err != nil {
		return err
	}
	if q.tiles.dispatchL1, err = d.openL1(bells.disp); err != nil {
		return errors.Join(err, q.tiles.prefetchL1.Close())
	}
	low := uint32(noc)
	q.rings.issue = issueRing{mem: mem[host.Issue : host.Issue+host.IssueSize]}
	q.rings.fetch = fetchRing{win: q.tiles.prefetchL1, entries: d.ctl.FetchQueueSize / d.ctl.FetchEntry, log: d.ctl.FetchEntry / 2,
		base: bells.fetch, rdAddr: bells.fetchRd}
	q.rings.fetch.lastR = q.rings.fetch.initialRead()
	q.comp.ring = completionRing{
		mem: mem[host.Completion : host.Completion+host.CompletionSize], base: (low + host.Completion) / 16,
		host: d.sysmem, wrWord: uint64(host.Base + host.CompletionWr), rdWord: uint64(host.Base + host.CompletionRd),
		win: q.tiles.dispatchL1, rdOff: uint64(bells.completRd),
	}
	d.sysmem.Store32(q.comp.ring.wrWord, q.comp.ring.base)
	d.sysmem.Store32(q.comp.ring.rdWord, q.comp.ring.base)

	out, err := d.outside(id, host, noc)
	if err == nil {
		err = q.startCores(out, preXY, coreXY)
	}
	if err != nil {
		return errors.Join(err, q.tiles.dispatchL1.Close(), q.tiles.prefetchL1.Close())
	}
	return nil
}

func (q *Queue) startCores(out outside, preXY, coreXY chip.XY) error {
	d := q.d
	l1, ctl := &d.queue.L1, &d.ctl
	sems := l1.KernelConfig + memmap.SlotArgs*chip.NumProcessors
	first := uint32(d.pr.Stream.FirstDispatch)
	rect := d.ch.Rects(q.set.cores)[0]

	prefetch := []hostKernel{{proc: chip.BRISC, name: "prefetch", args: []uint32{
		out.xy, out.hi, out.issue, out.issueSize,
		ctl.FetchQueue, ctl.FetchQueueSize, ctl.FetchRead, ctl.IssueRead,
		ctl.Commands, ctl.CommandsSize, ctl.Scratch, ctl.ScratchSize, ctl.Scratch, ctl.BinaryRingSize,
		coreXY.Packed(), ctl.DispatchRing, ctl.DispatchPages, ctl.SubordinateRing, ctl.SubordinatePages, sems, sems, ctl.Loops,
	}}}
	if d.up != nil {
		prefetch = append(prefetch, hostKernel{proc: chip.NCRISC, image: relay.Forward(),
			args: d.up.far.ForwardFetch(q.id)})
	}
	dispatch := []hostKernel{
		{proc: chip.BRISC, name: "dispatch", args: []uint32{
			out.xy, out.hi, out.completion, out.completionSize, ctl.CompletionWrite, ctl.CompletionRead, out.completionWr,
			ctl.DispatchRing, ctl.DispatchPages, ctl.DispatchBlocks, preXY.Packed(), sems, first, cq.MaxSubDevices, d.worker.L1.Go,
			rect.Start.Packed(), rect.End.Packed(), uint32(rect.Cores), ctl.SyncWords, memmap.PageSize, ctl.Forwarded, ctl.ArgWords,
		}},
		{proc: chip.NCRISC, name: "dispatch_s", args: []uint32{
			ctl.SubordinateRing, ctl.SubordinatePages, preXY.Packed(), sems, first, cq.MaxSubDevices, d.worker.L1.Go,
			rect.Start.Packed(), rect.End.Packed(), uint32(rect.Cores), ctl.SyncWords, ctl.Forwarded, ctl.Times,
		}},
	}

	if fw := d.opts.QueueFirmware; fw != nil {
		prefetch, dispatch = fw.Queues[q.id].kernels()
	}
	le := binary.LittleEndian
	preWords := make([]byte, ctl.Commands-l1.Unreserved)
	le.PutUint32(preWords[ctl.FetchRead-l1.Unreserved:], ctl.FetchQueue+ctl.FetchQueueSize)
	le.PutUint32(preWords[ctl.IssueRead-l1.Unreserved:], out.issue)
	coreWords := make([]byte, ctl.FetchQueue-l1.Unreserved)
	le.PutUint32(coreWords[ctl.CompletionWrite-l1.Unreserved:], out.completion/16)
	le.PutUint32(coreWords[ctl.CompletionRead-l1.Unreserved:], out.completion/16)
	for _, at := range ctl.LastEvent {
		le.PutUint32(coreWords[at-l1.Unreserved:], d.opts.FirstEvent)
	}
	coreSems := semaphores{ctl.DispatchPublished: 0, ctl.SubordinatePublished: 0}
	preSems := semaphores{ctl.DispatchCredits: ctl.DispatchPages, ctl.SubordinateCredits: ctl.SubordinatePages, ctl.Sync: 0}

	for _, zeros := range []struct {
		core     chip.Core
		at, size uint32
	}{
		{q.tiles.dispatch, ctl.EdgeWord[0], ctl.End() - ctl.EdgeWord[0]},
		{q.tiles.prefetch, ctl.Loops, memmap.LoopsSize},
		{q.tiles.dispatch, ctl.Times, memmap.TimesSize},
	} {
		if zeros.at == 0 {
			continue
		}
		if err := d.write(zeros.core, zeros.at, make([]byte, zeros.size)); err != nil {
			return fmt.Errorf("start core %v: %w", zeros.core, err)
		}
	}
	for _, c := range []struct {
		core    chip.Core
		words   []byte
		kernels []hostKernel
		sems    semaphores
	}{{q.tiles.dispatch, coreWords, dispatch, coreSems}, {q.tiles.prefetch, preWords, prefetch, preSems}} {
		if err := d.write(c.core, l1.Unreserved, c.words); err != nil {
			return fmt.Errorf("start core %v: %w", c.core, err)
		}
		if err := d.startHostKernels(c.core, c.kernels, c.sems); err != nil {
			return fmt.Errorf("start core %v: %w", c.core, err)
		}
	}
	return nil
}

func (q *Queue) close(ctx context.Context) error {
	q.status.stop.CompareAndSwap(nil, &errClosed)
	q.mu.Lock()
	defer q.mu.Unlock()
	var err error
	if q.status.failed.Load() == nil {
		q.life.ending = true
		if err = q.d.kd.Guard(func() error { return q.terminate(ctx) }); errors.Is(err, kmd.ErrDeviceLost) {
			err = nil
		}
		q.fail(errClosed)
	}
	return errors.Join(err, q.releaseLocked(errClosed))
}

func (q *Queue) releaseLocked(cause error) error {
	q.life.mu.Lock() // waits end before the memory that they read is unmapped
	defer q.life.mu.Unlock()
	q.comp.lose(cause)
	if q.life.closed {
		return nil
	}
	q.life.closed = true
	return errors.Join(q.tiles.dispatchL1.Close(), q.tiles.prefetchL1.Close())
}

// terminate makes the kernels leave their loops, so that no transfer to host memory is in flight
// when that memory goes. Source of the order: tt-metal host_runtime_commands.cpp.
func (q *Queue) terminate(ctx context.Context) error {
	end := cq.TerminateDispatch{}
	order := []cq.RelayInline{{To: cq.Master, Command: end}, {To: cq.Subordinate, Command: end}}
	if !q.d.opts.StockWireFormat {
		order = []cq.RelayInline{{To: cq.Master, Command: cq.ForwardSubordinate{Command: end}}, order[0]}
	}
	for _, c := range []cq.PrefetchCommand{order[0], order[1], cq.TerminatePrefetch{}} {
		b := q.builderLocked()
		b.Append(c)
		if err := q.sendBuiltLocked(ctx, "close", &b); err != nil {
			return err
		}
	}
	// Queued work may take long but must make progress. Completions must be drained, here and in
	// queues that this one waits for; otherwise their dispatchers wait for space.
	takeOut := func() {
		_ = q.comp.drain()
		q.drainOthers()
	}
	for _, c := range []chip.Core{q.tiles.prefetch, q.tiles.dispatch} {
		// The device is polled only after a while: over a tunnel that is slow.
		var before uint64
		for polled := false; ; polled = true {
			err := q.d.awaitDone(ctx, c, q.d.opts.HangTimeout, takeOut)
			if err == nil {
				break
			}
			stuck := !errors.Is(err, ErrTimeout)
			if !stuck {
				now := q.deviceFingerprint()
				stuck, before = polled && now == before, now
			}
			if stuck {
				return q.errorf("end the kernels of core %v: %w", c, err)
			}
		}
	}
	return nil
}

// StoreTile stores words in a tile at raw coordinates, outside of the queues, each with one access.
func (d *machine) StoreTile(raw chip.XY, addr uint64, p []byte) (err error) {
	xy, _ := d.ch.VirtualOf(raw)
	for i := 0; i < len(p) && err == nil; i += 4 {
		err = d.kd.Write32(xy, addr+uint64(i), binary.LittleEndian.Uint32(p[i:]))
	}
	return err
}

// answerLoads is how many loads, some 50 µs on silicon, come before the host answers a tile.
const answerLoads = 64

// AwaitTile waits for a word of a tile, at most for Options.HangTimeout, and returns it as it was
// last.
func (d *machine) AwaitTile(ctx context.Context, raw chip.XY, addr uint64, want uint32) (got uint32, err error) {
	xy, _ := d.ch.VirtualOf(raw)
	w := newWaiter(d.opts.HangTimeout, Pace{}, &d.naps)
	for err == nil {
		if got, err = d.kd.Read32(xy, addr); err != nil || got == want {
			break
		}
		if err = d.kd.Fault(); err == nil {
			err = w.pause(ctx)
		}
	}
	// Other tiles may have yet to publish the state that the host overwrites next (tt-metal
	// fabric_erisc_router.cpp, LOCAL_HANDSHAKE_COMPLETE): give them time.
	for n := 0; n < answerLoads && err == nil && got == want; n++ {
		_, err = d.kd.Read32(xy, addr)
	}
	if errors.Is(err, ErrTimeout) {
		err = nil
	}
	return got, err
}

// ErrOtherChip is returned by Restart when the chip isn't the one that the device was started with.
var ErrOtherChip = errors.New("it is another chip than before")

// Content is data that Restart writes to device memory.
type Content struct {
	Name string
	At   Interleaved
	Data []byte
}

// Interrupt ends every wait of the queues with cause; until Restart the queues refuse commands with
// it. Queued commands are lost.
func (d *Device) Interrupt(cause error) {
	for _, q := range d.queues {
		q.status.stop.Store(&cause)
		q.status.failed.CompareAndSwap(nil, &cause)
	}
	for _, q := range d.queues {
		q.mu.Lock()
		_ = q.releaseLocked(cause)
		q.mu.Unlock()
	}
}

// StopRelay stops the near end of an interrupted device's Ethernet link: it would go on using host
// memory after the device's file is closed.
func (d *Device) StopRelay() {
	_ = d.up.close()
}

// Restart restarts a device whose queues were interrupted and whose driver side the caller has
// recovered (kmd.Device.Recover): it holds all cores in reset, brings up the base firmware, writes
// contents, reads them back, and starts the queues with empty rings. The *Queue values stay valid.
// If it fails, it can be called again.
func (d *Device) Restart(ctx context.Context, contents []Content) error {
	h, err := d.kd.Harvesting(ctx) // before any core is accessed: another chip may have other cores
	if err != nil {
		return fmt.Errorf("dispatch: restart: read harvesting: %w", err)
	}
	if was := d.ch.Harvesting(); h != was || d.kd.Arch() != d.ch.Arch() {
		return fmt.Errorf("dispatch: restart: %w: it is a %v with harvesting %+v, it was a %v with %+v: open it anew", ErrOtherChip, d.kd.Arch(),
			h, d.ch.Arch(), was)
	}
	// Cores stop before the memory that they write to is unpinned.
	if err := d.hold(); err != nil {
		return fmt.Errorf("dispatch: restart: %w", err)
	}
	d.printing.stopped()
	d.restarts.Add(1)
	if err := d.up.close(); err != nil {
		return fmt.Errorf("dispatch: restart: %w", err)
	}
	if u := d.kd.Uplink(); u != nil {
		d.up = &uplink{Uplink: u, d: d.machine}
	}
	if d.sysmem != nil {
		if err := d.sysmem.Close(); err != nil {
			return fmt.Errorf("dispatch: restart: %w", err)
		}
		d.sysmem = nil
	}
	if err := d.bringUp(ctx); err != nil {
		return err
	}
	for i := range contents {
		if err := d.restore(ctx, &contents[i]); err != nil {
			return fmt.Errorf("dispatch: restart: write %s: %w", contents[i].Name, err)
		}
	}
	if err := d.pinQueueMemory(); err != nil {
		return fmt.Errorf("dispatch: restart: %w", err)
	}
	if err := d.startLink(); err != nil {
		return err
	}
	if err := d.pinned.repin(); err != nil {
		return fmt.Errorf("dispatch: restart: pinned host memory: %w", err)
	}
	for _, q := range d.queues {
		if err := q.restart(); err != nil {
			return fmt.Errorf("dispatch: restart: queue %d: %w", q.id, err)
		}
	}
	if err := d.guard(); err != nil {
		return err
	}
	for _, q := range d.queues {
		q.status.stop.Store(nil)
		q.status.failed.Store(nil)
	}
	return nil
}

func (q *Queue) restart() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.life.mu.Lock()
	defer q.life.mu.Unlock()
	if !q.life.closed {
		if err := errors.Join(q.tiles.dispatchL1.Close(), q.tiles.prefetchL1.Close()); err != nil {
			return err
		}
		q.life.closed = true
	}
	if err := q.start(); err != nil {
		return err
	}
	q.resetOwnerLocked()
	q.life.closed = false
	return nil
}

func (d *Device) restore(ctx context.Context, c *Content) error {
	if want := c.At.Bytes(); len(c.Data) != want {
		return fmt.Errorf("%d B for a buffer of %d B", len(c.Data), want)
	}
	host := int(c.At.HostPage)
	for _, move := range []func(xy chip.XY, addr uint64, p []byte) error{d.kd.Write, d.compare} {
		for page := range c.At.Pages {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			xy, addr := d.place(&c.At, page)
			if err := move(xy, addr, c.Data[page*host:(page+1)*host]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Device) place(b *Interleaved, page int) (chip.XY, uint64) {
	bank, addr := b.at(page)
	if !b.DRAM {
		return d.l1Banks[bank], uint64(addr)
	}
	at := d.ch.DRAMBanks()[bank]
	return at.HostEndpoint, at.Offset + uint64(addr)
}

func (d *Device) compare(xy chip.XY, addr uint64, want []byte) error {
	got := make([]byte, len(want))
	if err := d.kd.Read(xy, addr, got); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%w: %d B at %v %#x are not what was written", kmd.ErrDeviceLost, len(want), xy, addr)
	}
	return nil
}

// probe runs through what other firmware must do: a go signal from the subordinate that resets all
// launch pointers, a wait for all workers that clears the count, and a write of the dispatcher.
func (q *Queue) probe(ctx context.Context) error {
	d, word := q.d, q.d.ctl.EdgeWord[0]
	stream := d.pr.Stream.FirstDispatch
	q.mu.Lock()
	defer q.mu.Unlock()
	b := cq.NewBuilder(d.layout(), q.stream.buf[:0])
	b.NotifySubordinate(cq.NotifySubordinate{Mask: 1})
	b.SendGoSignal(cq.Subordinate, cq.SendGoSignal{Go: q.dispatcher.GoWord(cq.SignalReplayTrace), WaitStream: uint32(stream)})
	// With another meaning of the flags this doesn't wait, or waits forever.
	b.Wait(cq.Master, cq.Wait{Flags: cq.WaitStream, Stream: uint16(stream), Count: q.dispatcher.Workers})
	b.Wait(cq.Master, cq.Wait{Flags: cq.ClearStream, Stream: uint16(stream), Count: q.dispatcher.Workers + 1})
	b.WriteLinear(cq.WriteLinear{NOC: d.eventXYs[q.id], Addr: uint64(word), Data: []byte{probeAnswer, 0, 0, 0}})
	if err := q.sendBuiltLocked(ctx, "probe", &b); err != nil {
		return err
	}
	w := newWaiter(d.opts.HangTimeout, Pace{}, &d.naps)
	for q.tiles.dispatchL1.Load32(uint64(word)) != probeAnswer {
		if err := d.kd.Fault(); err != nil {
			return err
		}
		if err := w.pause(ctx); err != nil {
			return q.silentLocked(err)
		}
	}
	if err := d.write(q.tiles.dispatch, word, make([]byte, 4)); err != nil {
		return err
	}
	if n, err := d.kd.Read32(q.dispatcher.At, uint64(d.pr.Stream.Reg(stream, chip.SpaceAvailable))); err != nil {
		return err
	} else if n != 0 {
		return q.silentLocked(fmt.Errorf("%w: workers' reports are still counted after they were cleared: %d", errWrongAnswer, n))
	}
	return q.rings.fetch.poll()
}

var errWrongAnswer = errors.New("wrong answer")

func (q *Queue) silentLocked(why error) error {
	d := q.d
	return q.fail(&QueueFirmwareError{Name: d.opts.QueueFirmware.Name, Silent: why, Queue: q.id,
		Cores: []CoreState{d.report.Core(q.tiles.prefetch), d.report.Core(q.tiles.dispatch)}})
}

const probeAnswer = 0xA5
