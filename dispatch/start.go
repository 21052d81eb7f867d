package dispatch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/dispatch/firmware"
	"github.com/reprise-tt/reprise/dispatch/firmware/relay"
	"github.com/reprise-tt/reprise/kmd"
)

// hostKernel is one kernel of a command queue and what it is started with.
type hostKernel struct {
	proc chip.Processor
	name string // of the firmware image
	args []uint32
	noc  chip.NOC

	image []byte // instead of the one of that name
}

// startQueue starts a queue on its cores.
func (d *Device) startQueue(id int) (*Queue, error) {
	set := d.sets[id]
	q := &Queue{d: d, id: id, set: set, shared: set.shared, dialect: d.dialect(set), mu: spinLock{naps: &d.naps}}
	q.translates = q.dialect != dialect{}
	return q, q.start()
}

// start starts the prefetcher and the dispatchers on their cores, with empty rings. On a restart mu and life.mu are held.
func (q *Queue) start() error {
	d, id := q.d, q.id
	q.stream.state, q.stream.lastPrepared, q.stream.runs, q.stream.replays,
		q.stream.event = State{config: configRing{size: d.worker.L1.KernelConfigSize}}, nil, 0, 0, cq.Seq(d.opts.FirstEvent)
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
	q.dispatcher = Dispatcher{at: coreXY, workers: uint32(q.set.cores.Size())}
	q.comp.restart(uint16(id))

	// Host side.
	host := d.host[id]
	mem := d.sysmem.Bytes()[host.base : host.base+host.size]
	noc := d.sysmem.NOCAddr() + uint64(host.base)
	if noc>>32 != (noc+uint64(host.size)-1)>>32 {
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
	q.rings.issue = issueRing{mem: mem[host.issue : host.issue+host.issueSize]}
	q.rings.fetch = fetchRing{win: q.tiles.prefetchL1, entries: d.ctl.FetchQueueSize / d.ctl.FetchEntry, log: d.ctl.FetchEntry / 2,
		base: bells.fetch, rdAddr: bells.fetchRd}
	q.rings.fetch.lastR = q.rings.fetch.initialRead()
	q.comp.ring = completionRing{
		mem: mem[host.completion : host.completion+host.completionSz], base: (low + host.completion) / 16,
		host: d.sysmem, wrWord: uint64(host.base + host.completionWr), rdWord: uint64(host.base + host.completionRd),
		win: q.tiles.dispatchL1, rdOff: uint64(bells.completRd),
	}
	d.sysmem.Store32(q.comp.ring.wrWord, q.comp.ring.base)
	d.sysmem.Store32(q.comp.ring.rdWord, q.comp.ring.base)

	out, err := d.outside(id, host, noc)
	if err == nil {
		err = d.startCores(q, out, preXY, coreXY)
	}
	if err != nil {
		return errors.Join(err, q.tiles.dispatchL1.Close(), q.tiles.prefetchL1.Close())
	}
	return nil
}

// openL1 maps the L1 of a tile, from address 0 on.
func (d *Device) openL1(xy chip.XY) (*kmd.Window, error) {
	size := uint64(0)
	for _, c := range d.pr.Windows {
		if c.Size >= uint64(d.pr.L1Size) && (size == 0 || c.Size < size) {
			size = c.Size
		}
	}
	w, err := d.hostSide().OpenWindow(size, kmd.Uncached)
	if err != nil {
		return nil, err
	}
	if err := w.Configure(kmd.WindowConfig{Target: xy, Ordering: kmd.Strict}); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (d *Device) startCores(q *Queue, out outside, preXY, coreXY chip.XY) error {
	l1, ctl := &d.queue.L1, &d.ctl
	sems := l1.KernelConfig + slotArgs*chip.NumProcessors
	first := uint32(d.pr.Stream.FirstDispatch)
	rect := d.ch.Rects(q.set.cores)[0]

	prefetch := []hostKernel{{proc: chip.BRISC, name: "prefetch", args: []uint32{
		out.xy, out.hi, out.issue, out.issueSize,
		ctl.FetchQueue, ctl.FetchQueueSize, ctl.FetchRead, ctl.IssueRead,
		ctl.Commands, ctl.CommandsSize, ctl.Scratch, ctl.ScratchSize, ctl.Scratch, ctl.BinaryRingSize,
		coreXY.Packed(), ctl.DispatchRing, ctl.DispatchPages, ctl.SubordinateRing, ctl.SubordinatePages, sems, sems, ctl.control,
	}}}
	if d.up != nil {
		prefetch = append(prefetch, hostKernel{proc: chip.NCRISC, noc: chip.NOC1, image: relay.Forward(), args: d.up.far.ForwardFetch(q.id)})
	}
	dispatch := []hostKernel{
		{proc: chip.BRISC, name: "dispatch", args: []uint32{
			out.xy, out.hi, out.completion, out.completionSize, ctl.CompletionWrite, ctl.CompletionRead, out.completionWr,
			ctl.DispatchRing, ctl.DispatchPages, ctl.DispatchBlocks, preXY.Packed(), sems, first, maxSubDevices, d.worker.L1.Go,
			rect.Start.Packed(), rect.End.Packed(), uint32(rect.Cores), ctl.SyncWords, pageSize, ctl.forwarded, ctl.argWords,
		}},
		{proc: chip.NCRISC, name: "dispatch_s", noc: chip.NOC1, args: []uint32{
			ctl.SubordinateRing, ctl.SubordinatePages, preXY.Packed(), sems, first, maxSubDevices, d.worker.L1.Go,
			rect.Start.Packed(), rect.End.Packed(), uint32(rect.Cores), ctl.SyncWords, ctl.forwarded, ctl.times,
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

	if err := d.write(q.tiles.dispatch, ctl.edgeWord[0], make([]byte, ctl.end()-ctl.edgeWord[0])); err != nil {
		return fmt.Errorf("start core %v: %w", q.tiles.dispatch, err)
	}
	if ctl.control != 0 {
		if err := d.write(q.tiles.prefetch, ctl.control, make([]byte, controlSize)); err != nil {
			return fmt.Errorf("start core %v: %w", q.tiles.prefetch, err)
		}
	}
	if ctl.times != 0 {
		if err := d.write(q.tiles.dispatch, ctl.times, make([]byte, timesSize)); err != nil {
			return fmt.Errorf("start core %v: %w", q.tiles.dispatch, err)
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

// slotArgs is the room for one processor's arguments in the kernel-config memory of a command-queue core, in bytes.
const slotArgs = 128

// semaphores are the initial values of a core's semaphores, by id.
type semaphores map[uint32]uint32

// bytes lays the semaphores out as they lie in L1, 16 bytes apart.
func (s semaphores) bytes() []byte {
	var b []byte
	for id, v := range s {
		if need := 16 * int(id+1); len(b) < need {
			b = append(b, make([]byte, need-len(b))...)
		}
		binary.LittleEndian.PutUint32(b[16*id:], v)
	}
	return b
}

// startHostKernels lays kernels out in a core's kernel-config memory and starts them in host mode: the core reports its end
// to no dispatcher, and its launch pointer stays.
func (d *Device) startHostKernels(c chip.Core, ks []hostKernel, sems semaphores) error {
	l1, launch := &d.queue.L1, &d.queue.Launch
	le := binary.LittleEndian
	slot := make([]byte, slotArgs*chip.NumProcessors)
	semOff := len(slot)
	slot = append(slot, sems.bytes()...)
	msg := make([]byte, l1.LaunchSize)
	le.PutUint32(msg[launch.ConfigBase:], l1.KernelConfig)
	le.PutUint16(msg[launch.Semaphores:], uint16(semOff))
	msg[launch.Mode] = 1 // host mode
	var lay slotLayout
	if fw := d.opts.QueueFirmware; fw != nil {
		lay.count = fw.Base.countBytes()
	}
	for proc := range uint32(chip.NumProcessors) { // common arguments
		le.PutUint16(msg[launch.Args+4*proc+2:], lay.argsAt(0, 0))
	}
	var enables uint32
	for _, k := range ks {
		image := k.image
		if image == nil {
			var err error
			if image, err = firmware.CQ(d.ch.Arch(), k.name); err != nil {
				return err
			}
		}
		lay.putArgs(slot[slotArgs*int(k.proc):], k.args)
		for len(slot)%slotAlign != 0 {
			slot = append(slot, 0)
		}
		le.PutUint16(msg[launch.Args+4*uint32(k.proc):], uint16(slotArgs*int(k.proc)))
		le.PutUint32(msg[launch.Text+4*uint32(k.proc):], uint32(len(slot)))
		if k.proc == chip.NCRISC && d.queue.Boot.IRAMSize > 0 {
			le.PutUint16(msg[launch.NCRISCSize:], uint16(len(image)/16))
		}
		enables |= 1 << k.proc
		slot = append(slot, image...)
	}
	le.PutUint32(msg[launch.Enables:], enables)
	msg[launch.FirstRemote] = uint8(launch.CircularBuffers)
	if uint32(len(slot)) > l1.KernelConfigSize {
		return fmt.Errorf("its kernels need %d B, the kernel-config memory has %d B", len(slot), l1.KernelConfigSize)
	}
	if err := d.write(c, l1.KernelConfig, slot); err != nil {
		return err
	}
	if err := d.write(c, l1.Launch, msg); err != nil {
		return err
	}
	return d.write(c, l1.Go, []byte{0, 0, 0, signalGo})
}

// dispatchXYs returns the dispatch cores of all queues as commands name them.
func (d *Device) dispatchXYs() []uint32 {
	var out []uint32
	for id := range d.opts.Queues {
		_, c := d.queueCores(id)
		if xy, err := d.ch.Virtual(c); err == nil {
			out = append(out, d.ch.Arch().NOCXY(xy))
		}
	}
	return out
}

// close ends the queue's kernels, after the work that is queued unless ctx ends first, and closes its windows.
func (q *Queue) close(ctx context.Context) error {
	q.status.stop.CompareAndSwap(nil, &errClosed) // ends waits, also one that holds mu
	q.mu.Lock()
	defer q.mu.Unlock()
	var err error
	if q.status.failed.Load() == nil {
		q.life.ending = true
		if err = q.d.kd.Guard(func() error { return q.terminate(ctx) }); errors.Is(err, kmd.ErrDeviceLost) {
			err = nil // its kernels have ended with it
		}
		q.fail(errClosed)
	}
	return errors.Join(err, q.releaseLocked(errClosed))
}

// releaseLocked closes the queue's windows and ends what still waits.
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

// terminate makes the kernels leave their loops, so that no transfer to host memory is on its way when that memory
// goes. Source: tt-metal host_runtime_commands.cpp sends the three commands in this order, each in its own batch.
func (q *Queue) terminate(ctx context.Context) error {
	subordinate := func(b *cq.Builder) { b.TerminateDispatch(cq.Subordinate) }
	order := []func(*cq.Builder){func(b *cq.Builder) { b.TerminateDispatch(cq.Master) }, subordinate}
	if !q.d.opts.StockWireFormat {
		// After the go signals that come the same way.
		subordinate = func(b *cq.Builder) { b.ForwardSubordinate(cq.ForwardSubordinate{Command: cq.TerminateDispatch{}}) }
		order = []func(*cq.Builder){subordinate, order[0]}
	}
	for _, add := range append(order, func(b *cq.Builder) { b.TerminatePrefetch() }) {
		b := cq.NewBuilder(q.d.layout(), q.stream.buf[:0])
		add(&b)
		cmds, err := b.Finish()
		if err != nil {
			return err
		}
		q.stream.buf = cmds
		if err := q.sendLocked(ctx, cmds, false); err != nil {
			return err
		}
	}
	// The kernels end after the work that is still queued, which may take long but must make progress. Completions must be
	// taken out, here and of queues that this one waits for; otherwise their dispatchers would wait for space.
	takeOut := func() {
		_ = q.comp.drain() // what it would say is lost with the queue
		q.drainOthersLocked()
	}
	for _, c := range []chip.Core{q.tiles.prefetch, q.tiles.dispatch} {
		// The device is polled only when it takes long: over a tunnel reading each core's state is slow.
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
				return fmt.Errorf("dispatch: queue %d: end the kernels of core %v: %w", q.id, c, err)
			}
		}
	}
	return nil
}
