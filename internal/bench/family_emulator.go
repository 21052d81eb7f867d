package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
)

// Emulated is a device that this process emulates, for the family "emulator".
type Emulated struct {
	// Target is a device of its own, for one opening.
	Target kmd.Target
	// Work returns what the device has done since it was opened.
	Work func() Work
}

// Work is what an emulated device has done.
type Work struct {
	// Instructions is how many all its processors have executed, NoCBytes how much its networks have moved.
	Instructions, NoCBytes uint64
}

// emulated is an open Emulated.
type emulated struct {
	Emulated
	*reprise.Device
}

// measureEmulator measures how fast devices are emulated: what an instruction takes of this machine when one worker is
// busy, two, or all of them; what moving a byte takes; what a chip takes that has nothing to do; and what an instruction takes
// when several chips are busy, which a machine with as many processors runs at the same time.
func measureEmulator(ctx context.Context, s *session) error {
	if s.config.Emulated == nil {
		s.leaveOut("emulator", "", "this process doesn't emulate the device")
		return nil
	}
	err := s.emulate(ctx, 1, func(chips []emulated) error {
		d := chips[0].Device
		s.report.Arch = d.Arch().String()
		if err := s.measureIdle(ctx); err != nil {
			return err
		}
		for _, workers := range []int{1, 2, d.Queue(0).Workers().Size()} {
			w := workload{workers: workers, pages: instructionPages / workers, page: 4 << 10, add: true}
			if err := s.measureWork(ctx, chips, w, executed, []Param{param("workers", workers)}); err != nil {
				return err
			}
		}
		for _, page := range []int{64, 8 << 10} {
			if err := s.measurePages(ctx, chips, page); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for n := 1; n <= max(2, min(2*runtime.NumCPU(), 32)); n *= 2 {
		if err := s.emulate(ctx, n, func(chips []emulated) error {
			workers := chips[0].Queue(0).Workers().Size()
			w := workload{workers: workers, pages: instructionPages / workers, page: 4 << 10, add: true}
			return s.measureWork(ctx, chips, w, executed, []Param{param("chips", n)})
		}); err != nil {
			return err
		}
	}
	return nil
}

// instructionPages of 4 KiB, each of which takes a worker some 5,000 instructions, are shared by the workers.
const instructionPages = 780

// emulate opens devices for what do measures.
func (s *session) emulate(ctx context.Context, n int, do func([]emulated) error) error {
	return s.emulateOn(ctx, s.config.Emulated, n, do)
}

// emulateOn opens devices that open makes, for what do measures.
func (s *session) emulateOn(ctx context.Context, open func() Emulated, n int, do func([]emulated) error) (err error) {
	var chips []emulated
	defer func() {
		for _, c := range chips {
			err = errors.Join(err, c.Close(ctx))
		}
	}()
	for range n {
		c := emulated{Emulated: open()}
		if c.Device, err = reprise.Open(ctx, c.Target, s.config.Options...); err != nil {
			return err
		}
		chips = append(chips, c)
	}
	runtime.GC()
	return do(chips)
}

// counter selects the quantity that a figure is of.
type counter struct {
	name, unit string
	of         func(Work) uint64
}

var (
	executed   = counter{"instruction", "instructions", func(w Work) uint64 { return w.Instructions }}
	bytesMoved = counter{"noc_byte", "bytes", func(w Work) uint64 { return w.NoCBytes }}
)

// measurePages measures what a byte takes that all workers of a chip copy in pages of so many bytes.
func (s *session) measurePages(ctx context.Context, chips []emulated, page int) error {
	workers := chips[0].Queue(0).Workers().Size()
	w := workload{workers: workers, pages: (4 << 20) / (workers * max(page, 1024)), page: page}
	return s.measureWork(ctx, chips, w, bytesMoved, []Param{param("page", page)}, memcpyPages(page))
}

// measureWork measures what one of what is counted takes while all chips do the same work.
func (s *session) measureWork(ctx context.Context, chips []emulated, w workload, of counter, params []Param, against ...*baseline) error {
	all := make([]*reprise.Executable, len(chips))
	for i, c := range chips {
		var err error
		if all[i], err = w.load(ctx, c.Device); err != nil {
			return err
		}
	}
	count := func() (n uint64) {
		for _, c := range chips {
			n += of.of(c.Work())
		}
		return n
	}
	work := func(ctx context.Context) error {
		errs := make([]error, len(chips))
		var running sync.WaitGroup
		for i, c := range chips {
			running.Go(func() {
				q := c.Queue(0)
				if errs[i] = q.Run(ctx, all[i]); errs[i] == nil {
					errs[i] = q.Wait(ctx)
				}
			})
		}
		running.Wait()
		return errors.Join(errs...)
	}
	// By wall-clock time, and by the processor time of this process, in which other processes have no part.
	origin := time.Now()
	var err error
	for _, t := range []struct {
		suffix string
		lasts  time.Duration // a sample, at least
		now    func() (time.Duration, bool)
	}{
		{"", 0, func() (time.Duration, bool) { return time.Since(origin), true }},
		{processorSuffix, sampleLasts, processorTime},
	} {
		if _, ok := t.now(); !ok {
			continue
		}
		err = errors.Join(err, s.measure(ctx, "emulator", &job{
			name: of.name + t.suffix, params: params, per: 1, burst: 1, unit: of.unit, against: against,
			sample: func(ctx context.Context) (float64, error) {
				before, begun := count(), time.Now()
				start, _ := t.now()
				err := work(ctx)
				for err == nil && time.Since(begun) < t.lasts {
					err = work(ctx)
				}
				end, _ := t.now()
				return float64(end-start) / float64(max(1, count()-before)), err
			},
		}))
	}
	for _, x := range all {
		err = errors.Join(err, x.Release(ctx))
	}
	return err
}

// measureIdle measures how much processor time this process takes for each millisecond in which the device has nothing to
// do. Not every system counts it.
func (s *session) measureIdle(ctx context.Context) error {
	if _, ok := processorTime(); !ok {
		return nil
	}
	const milliseconds = 20
	return s.measure(ctx, "emulator", &job{name: "idle_millisecond", per: 1, burst: 1, sample: func(context.Context) (float64, error) {
		before, _ := processorTime()
		time.Sleep(milliseconds * time.Millisecond)
		after, _ := processorTime()
		return float64(after-before) / milliseconds, nil
	}})
}

// workload is a program that keeps workers busy: each reads pages from DRAM and writes them to another place, and if so
// asked a third processor adds a number to each word in between.
type workload struct {
	workers, pages, page int // pages of each worker, and bytes of a page
	add                  bool
}

// load makes the program and loads it on a device.
func (w workload) load(ctx context.Context, d *reprise.Device) (*reprise.Executable, error) {
	grid := d.Queue(0).Workers()
	columns := grid.End.X - grid.Start.X + 1
	cores := []chip.Range{grid}
	if w.workers < grid.Size() {
		if w.workers > columns {
			return nil, fmt.Errorf("%d workers of a grid of %v", w.workers, grid)
		}
		cores = []chip.Range{{Start: grid.Start, End: chip.Core{X: grid.Start.X + w.workers - 1, Y: grid.Start.Y}}}
	}
	var addresses [2]uint32
	for i := range addresses {
		b, err := d.NewBuffer(reprise.BufferConfig{Size: w.workers * w.pages * w.page, PageSize: w.page, Name: "emulator"})
		if err != nil {
			return nil, err
		}
		addresses[i] = b.Addr()
	}
	first := func(c chip.Core) uint32 {
		return uint32(((c.Y-grid.Start.Y)*columns + c.X - grid.Start.X) * w.pages)
	}
	args := func(list func(first, pages, page uint32) []uint32) func(chip.Core) []uint32 {
		return func(c chip.Core) []uint32 { return list(first(c), uint32(w.pages), uint32(w.page)) }
	}
	const in, out = 0, 1
	p := &reprise.Program{Name: "emulator"}
	var err error
	kernel := func(name string, on chip.Processor, list func(first, pages, page uint32) []uint32) {
		im, e := kernels.Prebuilt(d.Arch(), name)
		err = errors.Join(err, e)
		p.Kernels = append(p.Kernels, reprise.Kernel{Name: name, Image: im, Processor: on, Cores: cores, Args: args(list)})
	}
	buffer := func(index, pages int) {
		p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: index, Cores: cores, PageSize: w.page, Pages: pages})
	}
	if w.add {
		buffer(in, 2)
		buffer(out, 2)
		kernel(kernels.CopyReader, chip.BRISC, func(first, pages, page uint32) []uint32 { return []uint32{addresses[0], first, pages, page, in} })
		kernel(kernels.Add, chip.TRISC1, func(_, pages, _ uint32) []uint32 { return []uint32{in, out, pages, 1} })
		kernel(kernels.CopyWriter, chip.NCRISC, func(first, pages, page uint32) []uint32 {
			return []uint32{addresses[1], first, pages,
				page, out}
		})
	} else {
		buffer(in, 1)
		kernel(kernels.Move, chip.BRISC, func(first, pages, page uint32) []uint32 {
			return []uint32{addresses[0], addresses[1], first, pages, page, in, 0}
		})
	}
	if err != nil {
		return nil, err
	}
	return d.Load(ctx, p)
}
