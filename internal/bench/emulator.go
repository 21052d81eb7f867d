package bench

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/kernels"
)

const notEmulated = "this process doesn't emulate the device"

func measureEmulator(s *session) error {
	if s.config.Emulated == nil {
		s.leaveOut("emulator", "", notEmulated)
		return nil
	}
	err := s.emulate(s.config.Emulated, 1, func(chips []emulated) error {
		s.report.Arch = chips[0].Arch().String()
		if err := s.measureIdle(); err != nil {
			return err
		}
		for _, workers := range []int{1, 2, chips[0].workers()} {
			if err := s.measureWork(chips, busyWorkers(workers), executed, report.Params("workers", workers)); err != nil {
				return err
			}
		}
		return errors.Join(s.measurePages(chips, 64), s.measurePages(chips, 8<<10))
	})
	for n := 1; err == nil && n <= max(2, min(2*runtime.NumCPU(), 32)); n *= 2 {
		err = s.emulate(s.config.Emulated, n, func(chips []emulated) error {
			return s.measureWork(chips, busyWorkers(chips[0].workers()), executed, report.Params("chips", n))
		})
	}
	return err
}

type counter struct {
	name, unit string
	of         func(Work) uint64
}

var (
	executed   = counter{"instruction", "instructions", func(w Work) uint64 { return w.Instructions }}
	bytesMoved = counter{"noc_byte", "bytes", func(w Work) uint64 { return w.NoCBytes }}
)

func (s *session) measurePages(chips []emulated, page int) error {
	w := workload{workers: chips[0].workers(), page: page}
	w.pages = (4 << 20) / (w.workers * max(page, 1024))
	return s.measureWork(chips, w, bytesMoved, report.Params("page", page), measure.MemcpyPages(page))
}

func (s *session) measureWork(chips []emulated, w workload, of counter, params []report.Param, against ...*measure.Baseline) error {
	all, runs := make([]*reprise.Executable, len(chips)), make([]func() error, len(chips))
	for i, c := range chips {
		var err error
		if all[i], err = w.load(s, c.Device); err != nil {
			return err
		}
		runs[i] = runToEnd(s.ctx, c.Device, all[i])
	}
	count := func() (n uint64) {
		for _, c := range chips {
			n += of.of(c.Work())
		}
		return n
	}
	work := func() error {
		var g errgroup.Group
		for _, run := range runs {
			g.Go(run)
		}
		return g.Wait()
	}
	job := measure.Job{Name: of.name, Params: params, Unit: of.unit, Against: against}
	err := s.measureTimes("emulator", job, measure.ProcessTime, func(now func() time.Duration, least time.Duration) (float64, error) {
		before, begun, start := count(), time.Now(), now()
		err := work()
		for err == nil && time.Since(begun) < least {
			err = work()
		}
		return float64(now()-start) / float64(max(1, count()-before)), err
	})
	for _, x := range all {
		err = errors.Join(err, x.Release(s.ctx))
	}
	return err
}

func (s *session) measureIdle() error {
	if _, ok := measure.ProcessTime(); !ok {
		return nil
	}
	const milliseconds = 20
	return s.measure("emulator", &measure.Job{Name: "idle_millisecond", Sample: func() (float64, error) {
		before, _ := measure.ProcessTime()
		time.Sleep(milliseconds * time.Millisecond)
		after, _ := measure.ProcessTime()
		return float64(after-before) / milliseconds, nil
	}})
}

type emulated struct {
	Emulated
	*reprise.Device
}

func (c emulated) workers() int { return c.Queue(0).Workers().Size() }

func (s *session) emulate(open func() Emulated, n int, do func([]emulated) error) (err error) {
	var chips []emulated
	defer func() {
		for _, c := range chips {
			err = errors.Join(err, c.Close(s.ctx))
		}
	}()
	for range n {
		c := emulated{Emulated: open()}
		if c.Device, err = reprise.Open(s.ctx, c.Target, s.config.Options...); err != nil {
			return err
		}
		chips = append(chips, c)
	}
	runtime.GC()
	return do(chips)
}

// workload has workers copy pages in DRAM, and with add also add a number to each word.
type workload struct {
	workers, pages, page int // pages of each worker, and bytes of a page
	add                  bool
}

// busyWorkers share 780 pages of 4 KiB, of some 5,000 instructions each.
func busyWorkers(n int) workload {
	return workload{workers: n, pages: 780 / n, page: 4 << 10, add: true}
}

func (w workload) load(s *session, d *reprise.Device) (*reprise.Executable, error) {
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
	const in, out = 0, 1
	p := &reprise.Program{Name: "emulator"}
	var err error
	pages, page := uint32(w.pages), uint32(w.page)
	kernel := func(name string, on chip.Processor, args func(first uint32) []uint32) {
		im, e := kernels.Prebuilt(d.Arch(), name)
		err = errors.Join(err, e)
		p.Kernels = append(p.Kernels, reprise.Kernel{Name: name, Image: im, Processor: on, Cores: cores, Args: func(c chip.Core) []uint32 {
			return args(uint32((c.Y-grid.Start.Y)*columns+c.X-grid.Start.X) * pages)
		}})
	}
	buffer := func(index, pages int) {
		p.CircularBuffers = append(p.CircularBuffers, reprise.CircularBuffer{Index: index, Cores: cores, PageSize: w.page, Pages: pages})
	}
	if w.add {
		buffer(in, 2)
		buffer(out, 2)
		kernel(kernels.CopyReader, chip.BRISC, func(first uint32) []uint32 { return []uint32{addresses[0], first, pages, page, in} })
		kernel(kernels.Add, chip.TRISC1, func(uint32) []uint32 { return []uint32{in, out, pages, 1} })
		kernel(kernels.CopyWriter, chip.NCRISC, func(first uint32) []uint32 { return []uint32{addresses[1], first, pages, page, out} })
	} else {
		buffer(in, 1)
		kernel(kernels.Move, chip.BRISC, func(first uint32) []uint32 {
			return []uint32{addresses[0], addresses[1], first, pages, page, in, 0}
		})
	}
	if err != nil {
		return nil, err
	}
	return d.Load(s.ctx, p)
}
