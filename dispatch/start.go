package dispatch

import (
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
	q := &Queue{d: d, id: id, dialect: d.dialect(d.sets[id]), shared: d.sets[id].shared}
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
	q.stream.lanes, q.stream.counted = nil, [MaxSubDevices]cq.Count{}
	q.newLanesLocked()
	q.comp.restart(uint16(id))

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
