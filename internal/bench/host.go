package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/mesh"
)

func measureEnqueue(s *session) error {
	q, ctx := s.queue(), s.ctx
	return s.shapes(func(p shape, x *reprise.Executable) error {
		run := func() error { return q.Run(ctx, x) }
		params, c := report.Params("shape", p.name), x.Commands()
		job := &measure.Job{
			Name: "run", Params: params, Op: run, PerSample: 8, Burst: 8, Settle: s.finish, Allocs: true, Peers: ofCI(p, 15_200, 16_700),
			Copy: true, Bytes: float64(c.Bytes), Commands: float64(c.Count),
		}
		return s.measure("enqueue", job, &measure.Job{Name: "run_to_end", Params: params, Burst: 4, Submit: run, Finish: s.finish})
	})
}

// measureCapture leaves out the release of traces, which waits for the device.
func measureCapture(s *session) error {
	return s.shapes(func(p shape, x *reprise.Executable) error {
		var traces []*reprise.Trace
		q, ctx, one := s.queue(), s.ctx, func(_ context.Context, r *reprise.Recorder) error { return r.Run(x) }
		bytes := x.Commands().Bytes
		return s.measure("capture", &measure.Job{
			Name: "capture", Params: report.Params("shape", p.name), PerSample: 4, Burst: 4, Peers: capturePeers(p), Allocs: true,
			Copy: true, Bytes: float64(bytes),
			Op: func() error {
				t, err := q.Capture(ctx, "capture", one)
				if err == nil {
					traces = append(traces, t)
				}
				return err
			},
			Settle: func() (err error) {
				for _, t := range traces {
					err = errors.Join(err, t.Release(ctx))
				}
				traces = traces[:0]
				return err
			},
		})
	})
}

func measureOpen(s *session) error {
	return s.measure("open", &measure.Job{Name: "open_close", Op: func() error {
		d, err := reprise.Open(s.ctx, s.config.Target)
		if err != nil {
			return err
		}
		s.report.Arch = d.Arch().String()
		return d.Close(s.ctx)
	}})
}

func measureArguments(s *session) error {
	return s.shapes(func(p shape, x *reprise.Executable) error {
		next := uint32(0)
		set := func(_ chip.Core, args []uint32) {
			for i := range args {
				args[i] = next
			}
		}
		values, names := make([]uint32, p.common), make([]string, p.groups)
		for i := range names {
			names[i] = fmt.Sprintf("blank %d", i)
		}
		bytes := 4 * (p.args*s.queue().Workers().Size() + p.common*p.groups)
		return s.measure("arguments", &measure.Job{
			Name: "set_all", Params: report.Params("shape", p.name), PerSample: 4, Burst: 8, Allocs: true, Peers: ofCI(p, 130_000, 536_000),
			Copy: true, Bytes: float64(bytes),
			Op: func() error {
				next++
				for _, name := range names {
					if err := x.SetArgs(name, set); err != nil {
						return err
					}
					if p.common == 0 {
						continue
					}
					if err := x.SetCommonArgs(name, values); err != nil {
						return err
					}
				}
				return nil
			},
		})
	})
}

func measurePatching(s *session) error {
	return s.loaded(common, func(x *reprise.Executable) error {
		all := s.queue().Workers()
		for _, cores := range []chip.Range{{Start: all.Start, End: all.Start}, all} {
			arg := reprise.Arg{Kernel: "blank 0", Index: 7, Cores: []chip.Range{cores}}
			t, err := s.queue().Capture(s.ctx, "patched", func(_ context.Context, r *reprise.Recorder) error {
				if err := x.SetArg(arg, 0); err != nil { // the same on all cores
					return err
				}
				return errors.Join(r.Run(x), r.Param("n", arg))
			})
			if err != nil {
				return err
			}
			v := uint32(0)
			err = s.measure("patching", &measure.Job{
				Name: "set_replay", Params: report.Params("cores", cores.Size()), PerSample: 4, Burst: 4, Settle: s.finish, Allocs: true,
				Op: func() error {
					v++
					return errors.Join(t.Set("n", v), t.Replay(s.ctx))
				},
			})
			if err != nil {
				return fmt.Errorf("%d cores: %w", cores.Size(), err)
			}
			if err := t.Release(s.ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

func measureEvents(s *session) error {
	return s.with(func() error {
		a, b, ctx := s.queue(), s.dev.Queue(1), s.ctx
		there, back := s.dev.NewEvent("there"), s.dev.NewEvent("back")
		record := func() error { return a.Record(ctx, there) }
		handOver := func() error {
			return errors.Join(a.Record(ctx, there), b.WaitEvent(ctx, there), b.Record(ctx, back), a.WaitEvent(ctx, back))
		}
		return s.measure("events", &measure.Job{Name: "record", PerSample: 8, Burst: 8, Op: record, Settle: s.finish, Allocs: true},
			&measure.Job{Name: "record_to_host", Burst: 8, Submit: record, Finish: func() error { return there.Wait(ctx) }},
			&measure.Job{Name: "there_and_back", Burst: 8, Submit: handOver, Finish: s.finish})
	}, reprise.WithQueues(2))
}

func measureTransfer(s *session) error {
	var unreachable error // why pinned memory isn't measured
	for _, t := range []struct {
		kind              allocator.Kind
		size, page, burst int
	}{
		{allocator.DRAM, 4 << 10, 1 << 10, 4}, {allocator.DRAM, 64 << 10, 2 << 10, 4}, {allocator.DRAM, 1 << 20, 4 << 10, 4}, {allocator.DRAM, 1 << 20, 64, 4},
		{allocator.DRAM, 64 << 20, 4 << 10, 1}, {allocator.L1, 64 << 10, 2 << 10, 4},
	} {
		b, err := s.dev.NewBuffer(reprise.BufferConfig{Kind: t.kind, Size: t.size, PageSize: t.page, Name: "transfer"})
		if err != nil {
			return err
		}
		q, ctx, data := s.queue(), s.ctx, make([]byte, t.size)
		jobs := []*measure.Job{
			{Name: "write", Op: func() error { return errors.Join(q.Write(ctx, b, 0, data), q.Wait(ctx)) }},
			{Name: "read", Op: func() error { return q.Read(ctx, b, 0, data) }},
		}
		h, err := s.dev.NewHostBuffer(reprise.HostBufferConfig{Size: t.size, Strict: true, Name: "transfer"})
		switch {
		case err == nil:
			jobs = append(jobs,
				&measure.Job{Name: "write_pinned", Op: func() error { return q.WriteFrom(ctx, b, 0, h, 0, t.size) }},
				&measure.Job{Name: "read_pinned", Op: func() error { return q.ReadTo(ctx, b, 0, h, 0, t.size) }})
		case errors.Is(err, dispatch.ErrRemoteChip):
			h, unreachable = nil, err
		default:
			return err
		}
		for _, j := range jobs {
			j.Params = report.Params("memory", t.kind.String(), "bytes", t.size, "page", t.page)
			j.Burst, j.Copy, j.Bytes = t.burst, true, float64(t.size)
		}
		if err := s.measure("transfer", jobs...); err != nil {
			return err
		}
		err = b.Release()
		if h != nil {
			err = errors.Join(h.Release(ctx), err)
		}
		if err != nil {
			return err
		}
	}
	if unreachable != nil {
		s.leaveOut("transfer", " from and to pinned host memory", unreachable.Error())
	}
	return nil
}

// measureAllocator measures pairs of a free and an allocation among many live extents. Many are
// freed in the order of their table, so that the time is the allocator's.
func measureAllocator(s *session) error {
	for _, live := range []int{10, 1_000, 100_000} {
		const align, largest = 64, 255 << 30
		a, err := allocator.New(allocator.Config{
			DRAMBanks: 1, DRAMBase: align, DRAMAlign: align,
			DRAMEnd: align + min(uint64(live)*(smallestExtent+largestExtent)+8*largestExtent, largest),
		})
		if err != nil {
			return err
		}
		const per, burst = 64, 32
		p := &pairs{a: a, rnd: rand.New(rand.NewPCG(1, uint64(live))), extents: make([]allocator.Extent, live)}
		p.sizes, p.victims = make([]uint32, per*burst), make([]uint32, per*burst)
		p.drawSizes()
		for i := range p.extents {
			if err := p.allocate(i, i%len(p.sizes)); err != nil {
				return err
			}
		}
		for n := 0; n < 4*live; n += len(p.sizes) { // until fragmentation is steady
			if err := errors.Join(p.draw(), p.run(len(p.sizes))); err != nil {
				return err
			}
		}
		_ = p.draw()
		if err := s.measure("allocator", &measure.Job{
			Name: "allocate_free", Params: report.Params("live", live), PerSample: per, Burst: burst, Settle: p.draw, Allocs: true,
			Against: []*measure.Baseline{measure.Memcpy(report.MemcpyHot, 4096, make([]byte, 4096))}, Peers: allocatorPeers(live),
			Do: p.run,
		}); err != nil {
			return err
		}
	}
	return nil
}

const smallestExtent, largestExtent = 1 << 10, 4 << 20

type pairs struct {
	a       *allocator.Allocator
	rnd     *rand.Rand
	extents []allocator.Extent
	next    int
	victims []uint32
	sizes   []uint32
	done    int
}

func (p *pairs) drawSizes() {
	for i := range p.sizes {
		p.sizes[i] = uint32(smallestExtent + p.rnd.IntN(largestExtent-smallestExtent))
	}
}

func (p *pairs) draw() error {
	p.drawSizes()
	p.done = 0
	live := len(p.extents)
	if live > len(p.victims) && p.next+len(p.victims) > live {
		p.rnd.Shuffle(live, func(i, j int) { p.extents[i], p.extents[j] = p.extents[j], p.extents[i] })
		p.next = 0
	}
	for i := range p.victims {
		if live > len(p.victims) {
			p.victims[i] = uint32(p.next)
			p.next++
		} else {
			p.victims[i] = uint32(p.rnd.IntN(live))
		}
	}
	return nil
}

func (p *pairs) run(n int) error {
	for range n {
		k := p.done % len(p.victims)
		i := int(p.victims[k])
		p.done++
		if err := p.a.Free(p.extents[i]); err != nil {
			return err
		}
		if err := p.allocate(i, k); err != nil {
			return err
		}
	}
	return nil
}

func (p *pairs) allocate(i, k int) (err error) {
	p.extents[i], err = p.a.Allocate(allocator.Request{Kind: allocator.DRAM, Size: uint64(p.sizes[k])})
	return err
}

type arrival struct {
	name   string
	after  time.Duration
	repeat bool // the same delay each time; else up to twice as long
	busy   bool // another goroutine spins until then, as with an emulated chip
}

func (a arrival) mean() time.Duration {
	if a.repeat {
		return a.after
	}
	return a.after * 3 / 2
}

var (
	comesOnce  = arrival{name: "4ms", after: 4 * time.Millisecond}
	comesAgain = arrival{name: "4ms-again", after: 4 * time.Millisecond, repeat: true}
	comesBusy  = arrival{name: "4ms-again-busy", after: 4 * time.Millisecond, repeat: true, busy: true}
)

// arrivals fall into a wait's spinning, short and longest sleeps, and at predictable times.
var arrivals = []arrival{
	{name: "soon", after: 5 * time.Microsecond}, {name: "200us", after: 200 * time.Microsecond}, comesOnce,
	comesAgain, {name: "40ms-again", after: 40 * time.Millisecond, repeat: true}, comesBusy,
}

// measureWake measures from a point in time to the waiter's return. "processor" is the processor
// time of a wait.
func measureWake(s *session) error {
	arrivals := arrivals
	if runtime.GOMAXPROCS(0) < 2 {
		s.leaveOut("wake", "/comes="+comesBusy.name,
			"the waiter and the goroutine that is busy need a processor each, and the machine has one")
		arrivals = slices.DeleteFunc(slices.Clone(arrivals), func(a arrival) bool { return a.busy })
	}
	for _, p := range paces {
		if err := s.measurePace(p, arrivals...); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) measurePace(p pace, arrivals ...arrival) error {
	return s.with(func() error {
		for _, a := range arrivals {
			late, busy := wakeJobs(s.ctx, s.runner.Clock, s.queue(), report.Params("pace", p.name, "comes", a.name), a)
			jobs := []*measure.Job{late}
			if _, ok := measure.ProcessTime(); ok && !a.busy && a.after >= time.Millisecond { // else mostly the measurement's own time
				jobs = append(jobs, busy)
			}
			if err := s.measure("wake", jobs...); err != nil {
				return err
			}
		}
		return nil
	}, reprise.WithPace(p.spin, p.longest))
}

func wakeJobs(ctx context.Context, c measure.Clock, q *reprise.Queue, params []report.Param, a arrival) (late, busy *measure.Job) {
	var start int64
	var least float64
	came := func() bool { return c.Ns(start, measure.Ticks()) >= least }
	wait := func() (late float64, err error) {
		after := a.after
		if !a.repeat {
			after += rand.N(a.after) // out of step with the sleeps
		}
		start, least = measure.Ticks(), float64(after)
		var others sync.WaitGroup
		if a.busy {
			others.Go(func() {
				for !came() {
				}
			})
		}
		err = q.WaitFunc(ctx, came)
		late = c.Ns(start, measure.Ticks()) - least
		others.Wait()
		return late, err
	}
	late = &measure.Job{Name: "wait", Params: params, Burst: 8, Sample: wait}
	busy = &measure.Job{Name: "processor", Params: params, Burst: 8, Sample: func() (float64, error) {
		before, _ := measure.ProcessTime()
		_, err := wait()
		after, _ := measure.ProcessTime()
		return float64(after - before), err
	}}
	return late, busy
}

// measureMesh measures opening chips, and a replay's cost for each chip, without links.
func measureMesh(s *session) error {
	all := s.config.Mesh
	if len(all) == 0 {
		s.leaveOut("mesh", "", "no machine with several chips was named")
		return nil
	}
	for n := 1; n <= len(all); n *= 2 {
		if err := s.openMesh(all[:n]); err != nil {
			return err
		}
	}
	for n := 1; n <= len(all); n *= 2 {
		m, err := s.chips(all[:n], mesh.Shape{n}, mesh.Unlinked())
		if err != nil {
			return err
		}
		if err := s.replayMesh(m, "chips", n); err != nil {
			return err
		}
	}
	// The cards with as many remote chips, which have no PCI interface.
	m, err := s.chips(all, mesh.Shape{2, len(all)}, mesh.OrShape(mesh.Shape{1, 2 * len(all)}))
	if none := (*mesh.ShapeError)(nil); errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.replayMesh(m, "chips", m.Size(), "behind", m.Size()-len(all))
}

// chips has queues with one worker, so that emulated chips are done soon.
func (s *session) chips(m mesh.Machine, shape mesh.Shape, o mesh.Option) (*mesh.Mesh, error) {
	return mesh.Open(s.ctx, m, shape, o, mesh.WithDevice(reprise.WithQueueWorkers(0, chip.Range{})))
}

func (s *session) openMesh(m mesh.Machine) error {
	var last *mesh.Mesh
	closeLast := func() (err error) {
		if last != nil {
			err, last = last.Close(s.ctx), nil
		}
		return err
	}
	err := s.measure("mesh", &measure.Job{
		Name: "open", Params: report.Params("chips", len(m)), Settle: closeLast,
		Sample: func() (_ float64, err error) {
			start := time.Now()
			last, err = s.chips(m, mesh.Shape{len(m)}, mesh.Unlinked())
			return float64(time.Since(start)), err
		},
	})
	return errors.Join(err, closeLast())
}

func (s *session) replayMesh(m *mesh.Mesh, params ...any) (err error) {
	defer func() { err = errors.Join(err, m.Close(s.ctx)) }()
	d := m.Chips()[0].Device
	s.report.Arch = d.Arch().String()
	p, err := minimal.program(d)
	if err != nil {
		return err
	}
	x, err := m.Load(s.ctx, "blank", mesh.Same(mesh.Range{}, p))
	if err != nil {
		return err
	}
	t, err := m.Queue(0).Capture(s.ctx, "blank", func(_ context.Context, r *mesh.Recorder) error { return r.Run(x) })
	if err != nil {
		return err
	}
	const replays = 8
	if n, _ := t.Streams(); n != 1 {
		return fmt.Errorf("equal chips have %d streams of commands", n)
	}
	return s.measure("mesh", &measure.Job{
		Name: "replay for each chip", Params: report.Params(params...), Burst: 4, Peers: replayPeers()[1:],
		Settle: func() error { return m.Queue(0).Wait(s.ctx) },
		Sample: func() (float64, error) {
			start := time.Now()
			for range replays {
				if err := t.Replay(s.ctx); err != nil {
					return 0, err
				}
			}
			return float64(time.Since(start)) / float64(replays*m.Size()), nil
		},
	})
}
