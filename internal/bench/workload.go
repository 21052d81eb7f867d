package bench

import (
	"embed"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/internal/images"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/sim"
)

// pace sets how a wait polls; see [reprise.WithPace].
type pace struct {
	name          string
	spin, longest time.Duration
}

var (
	defaultPace  = pace{"default", 0, 0}
	spinningPace = pace{"spin=5ms", 5 * time.Millisecond, 0}
)

var paces = []pace{
	defaultPace,
	spinningPace,
	{"longest=100us", 0, 100 * time.Microsecond},
	{"longest=5ms", 0, 5 * time.Millisecond},
}

//go:embed kernels/prebuilt
var archives embed.FS

var prebuilt = images.New(archives, "kernels/prebuilt")

// ownKernel returns a kernel of this package.
func ownKernel(a chip.Arch, name string) (*kernels.Image, error) {
	file, err := prebuilt.ELF(a, name)
	if err != nil {
		return nil, err
	}
	return kernels.Load(file)
}

// shape describes a measured program. "common" and "worst" are of tt-metal's benchmark of its
// dispatch code (fd_command_construction), "smallest" of its benchmark of traced programs.
type shape struct {
	name       string
	args       int
	common     int
	semaphores int
	cbs        int
	groups     int // kernel groups: sets of cores with kernels of their own
	cores      int // workers of the first row; 0 means all workers
}

var (
	minimal = shape{name: "smallest", groups: 1, cores: 1}

	common = shape{name: "common", args: 8, semaphores: 1, groups: 1}
	worst  = shape{name: "worst", args: 64, common: 16, semaphores: 4, cbs: 8, groups: 8}
)

// program computes nothing.
func (p shape) program(d *reprise.Device) (*reprise.Program, error) {
	image, err := kernels.Prebuilt(d.Arch(), kernels.Blank)
	if err != nil {
		return nil, err
	}
	out := &reprise.Program{Name: p.name}
	grid := d.Queue(0).Workers()
	if p.cores > 0 {
		grid.End = chip.Core{X: grid.Start.X + p.cores - 1, Y: grid.Start.Y}
	}
	for i, r := range split(grid, p.groups) {
		k := reprise.Kernel{
			Name: fmt.Sprintf("blank %d", i), Image: image, Processor: chip.BRISC, Cores: []chip.Range{r},
			Common: make([]uint32, p.common),
		}
		if p.args > 0 {
			k.Args = func(c chip.Core) []uint32 {
				a := make([]uint32, p.args)
				for i := range a {
					a[i] = uint32(c.X)<<16 | uint32(c.Y)<<8 | uint32(i)
				}
				return a
			}
		}
		out.Kernels = append(out.Kernels, k)
	}
	for i := range p.cbs {
		out.CircularBuffers = append(out.CircularBuffers,
			reprise.CircularBuffer{Index: i, Cores: []chip.Range{grid}, PageSize: 1024, Pages: 2})
	}
	for i := range p.semaphores {
		out.Semaphores = append(out.Semaphores, reprise.Semaphore{ID: i, Cores: []chip.Range{grid}})
	}
	return out, nil
}

// padded extends the text of an image.
func padded(im *kernels.Image, bytes int) *kernels.Image {
	if bytes <= len(im.Text) {
		return im
	}
	longer := *im
	longer.Text = append(make([]byte, 0, bytes), im.Text...)[:bytes]
	return &longer
}

func split(r chip.Range, n int) []chip.Range {
	rows := r.End.Y - r.Start.Y + 1
	n = max(1, min(n, rows))
	out := make([]chip.Range, 0, n)
	y := r.Start.Y
	for i := range n {
		end := r.Start.Y + rows*(i+1)/n - 1
		out = append(out, chip.Range{Start: chip.Core{X: r.Start.X, Y: y}, End: chip.Core{X: r.End.X, Y: end}})
		y = end + 1
	}
	return out
}

// Costs of other runtimes. A peer's absolute times are of its own machine; its ratios to baselines
// carry over. tt-metal's command assembler (device_command) and allocator (free_list_opt) were
// measured on a 2-core x86-64 virtual machine; its whole operations are the expectations of its CI
// for a Blackhole machine (fd_command_construction_golden.json).
const (
	assembler = "tt-metal's command assembler"
	itsCI     = "tt-metal's CI, its machine"
	freeList  = "tt-metal's free list"
)

func replayPeers() []report.Peer {
	return []report.Peer{
		{Who: assembler + ", commands alone", To: report.NonTemporal, Value: 162 / 3.83, Ns: 162},
		{Who: itsCI, Ns: 1870},
		{Who: "CUDA graph launch, as quoted by NVIDIA", Ns: 2500},
	}
}

// ofCI are times of tt-metal's CI.
func ofCI(s shape, common, worst float64) []report.Peer {
	return []report.Peer{{Who: itsCI, Ns: map[string]float64{"common": common, "worst": worst}[s.name]}}
}

func capturePeers(s shape) []report.Peer { return ofCI(s, 57_600, 54_300) }

func allocatorPeers(live int) []report.Peer {
	ns := map[int]float64{10: 150, 1_000: 300, 100_000: 13_550}[live]
	if ns == 0 {
		return nil
	}
	return []report.Peer{{Who: freeList, To: report.MemcpyHot, Value: ns / 24.5, Ns: ns}}
}

// Sources of the summary's quotations.
var (
	itsCISource = &report.Source{
		From: "tt-metal's fd_command_construction_golden.json at 352665ff, host time, least of 7",
		Date: "20 November 2026",
	}
	assemblerSource = &report.Source{From: "exec_trace by tt-metal's device_command at 001254c6", Date: "20 November 2026"}
	itsQueuesSource = &report.Source{
		From: "instructions of tt-metal's command-queue firmware (a4347c0dda, gcc 12.2) on this emulator, docs/tt-metal.md",
		Date: "23 November 2026",
	}
	ttsimAlone = &report.Source{
		From: "ttsim 1.10.0 on 2 processors of an x86-64 virtual machine: each instruction takes this, and each clock 86 to 132 ns besides",
		Date: "20 November 2026",
	}
	ttsimBeside = &report.Source{From: "ttsim 1.10 beside this emulator, on 2 processors of an AMD EPYC", Date: "22 November 2026"}
	ttsimDemo   = &report.Source{From: "ttsim beside this emulator, on 2 processors of an Intel Xeon", Date: "29 November 2026"}
)

// quotedSimulator is quoted unless Config.Against is measured.
const quotedSimulator = "ttsim"

// itsQueuesExecute returns the instructions of tt-metal's prefetcher and dispatcher.
func itsQueuesExecute(a chip.Arch, s shape, replay bool) float64 {
	type of struct {
		arch   chip.Arch
		shape  string
		replay bool
	}
	return map[of]float64{
		{chip.Blackhole, "smallest", false}: 616 + 328, {chip.Blackhole, "common", false}: 868 + 5260,
		{chip.Blackhole, "smallest", true}: 2050 + 877, {chip.Blackhole, "common", true}: 2414 + 5770,
		{chip.Wormhole, "smallest", false}: 597 + 342, {chip.Wormhole, "common", false}: 838 + 2767,
		{chip.Wormhole, "smallest", true}: 1984 + 879, {chip.Wormhole, "common", true}: 2298 + 3302,
	}[of{a, s.name, replay}]
}

const notEmulated = "this process doesn't emulate the device"

func measureEmulator(s *session) error {
	if s.config.Emulated == nil {
		s.leaveOut("emulator", "", notEmulated)
		return nil
	}
	err := s.emulate(1, func(chips []emulated) error {
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
		err = s.emulate(n, func(chips []emulated) error {
			return s.measureWork(chips, busyWorkers(chips[0].workers()), executed, report.Params("chips", n))
		})
	}
	return err
}

type counter struct {
	name, unit string
	of         func(*sim.Card) uint64
}

var (
	executed   = counter{"instruction", "instructions", func(c *sim.Card) uint64 { return c.Chip().Work().Instructions }}
	bytesMoved = counter{"noc_byte", "bytes", func(c *sim.Card) uint64 { return c.Chip().Work().NoCBytes }}
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
			n += of.of(c.card)
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
	card *sim.Card
	*reprise.Device
}

func (c emulated) workers() int { return c.Queue(0).Workers().Size() }

func (s *session) emulate(n int, do func([]emulated) error) (err error) {
	var chips []emulated
	defer func() {
		for _, c := range chips {
			err = errors.Join(err, c.Close(s.ctx))
		}
	}()
	for range n {
		c := emulated{card: s.config.Emulated()}
		if c.Device, err = reprise.Open(s.ctx, c.card); err != nil {
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
