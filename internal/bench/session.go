// Package bench measures the costs of replays, enqueues, captures, transfers and more on any
// device, for `reprise bench`.
//
// A family of measurements ([Families]) makes [report.Figure]s. A figure consists of rounds, each
// with the figure's baselines, such as a copy of the same bytes, measured right beside it. Times
// are of the processor's constant-rate counter, less the cost of reading it; percentiles are over
// all samples. What a device can't measure is left out of the report.
package bench

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/probe"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/internal/images"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild bench

// Family is a group of figures.
type Family struct {
	Name, About string
	open        func(*session, func() error, ...reprise.Option) error // nil if run opens its own devices
	run         func(*session) error
}

var families = []Family{
	{"replay", "submitting a replay, waiting for it, for traces of several lengths", nil, measureReplay},
	{"enqueue", "submitting a program that is loaded", (*session).withProbe, measureEnqueue},
	{"capture", "recording a trace and writing it to DRAM", (*session).withProbe, measureCapture},
	{"control", "an iteration of a loop in a trace, beside a replay of its body, by the device's clock", (*session).with, measureControl},
	{"arguments", "giving a loaded program other runtime arguments", (*session).with, measureArguments},
	{"events", "recording events, waiting for them on the host, handing over between queues", nil, measureEvents},
	{"transfer", "writing and reading buffers, by size and page", (*session).with, measureTransfer},
	{"streams", "messages between the host and a kernel that runs, beside reads of a queue", nil, measureStreams},
	{"wake", "how late a wait on the host notices that something is done, by pace", nil, measureWake},
	{"open", "opening and closing the device", nil, measureOpen},
	{"mesh", "opening many chips as one, and what a replay costs the host for each of them", nil, measureMesh},
	{"tensix", "operations on tiles by a worker's Tensix engines, of two devices if asked", nil, measureTensix},
	{"ops", "operations on tensors: products in blocks, and what limits them, of two devices if asked", nil, measureOps},
	{"emulator", "instructions and bytes that an emulated device gets done, idle, busy, and several at once", nil, measureEmulator},
	{Summarized, "by itself: a table of what users feel, beside what it takes others and what it should take", nil, measureSummary},
}

// Families returns the families in running order.
func Families() []Family { return slices.Clone(families) }

// Run runs the selected measurements and returns their report.
func Run(ctx context.Context, c Config) (*report.Report, error) {
	if c.Rounds < 0 || c.Warmup < 0 {
		return nil, fmt.Errorf("bench: run: %d rounds after %d to warm up: neither can be negative", c.Rounds, c.Warmup)
	}
	if c.Rounds == 0 {
		c.Rounds, c.Warmup = 20, max(c.Warmup, 3)
	}
	if c.Programs == nil {
		c.Programs = []int{1, 10, 1000}
	}
	picked, err := pick(c.Families)
	if err != nil {
		return nil, err
	}
	s := &session{ctx: ctx, config: c, runner: measure.Runner{Clock: measure.Calibrate(20 * time.Millisecond), Rounds: c.Rounds,
		Warmup: c.Warmup}}
	s.runner.AIClock = s.aiClock
	s.report = &report.Report{
		Schema: report.Schema, When: time.Now().UTC().Truncate(time.Second), Device: c.Device,
		Host: report.NewHost(), Rounds: c.Rounds, Warmup: c.Warmup,
		TimerOverheadNs: float64(s.runner.Clock.Overhead) * s.runner.Clock.NsPerTick,
	}
	if s.report.Baselines, err = s.runner.Baselines(ctx); err != nil {
		return nil, err
	}
	for _, f := range picked {
		if err := f.measure(s); err != nil {
			return nil, fmt.Errorf("bench: %s: %w", f.Name, err)
		}
		if f.Name == "replay" {
			if err := s.breakdown(); err != nil {
				return nil, fmt.Errorf("bench: replays under eBPF: %w", err)
			}
		}
	}
	return s.report, nil
}

func pick(names []string) ([]Family, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(Families(), func(f Family) bool { return f.Name == Summarized }), nil
	}
	if len(names) > 1 && slices.Contains(names, Summarized) {
		return nil, fmt.Errorf("bench: %q: %w of several: it is measured by itself", Summarized, ErrFamily)
	}
	var out []Family
	for _, n := range names {
		i := slices.IndexFunc(families, func(f Family) bool { return f.Name == n })
		if i < 0 {
			return nil, fmt.Errorf("bench: %q: %w", n, ErrFamily)
		}
		out = append(out, families[i])
	}
	return out, nil
}

func (f Family) measure(s *session) error {
	if f.open != nil {
		return f.open(s, func() error { return f.run(s) })
	}
	runtime.GC()
	return f.run(s)
}

var summaryParts = [...]struct {
	name string
	run  func(*session) error
}{
	{"submit", summarizeSubmit},
	{"instructions", summarizeInstructions},
	{"capture", summarizeCapture},
	{"waits", summarizeWaits},
	{"emulator", summarizeEmulator},
	{"programs", summarizePrograms},
	{"demo", summarizeDemo},
	{"processors", summarizeProcessors},
	{"chips", summarizeChips},
}

func measureSummary(s *session) error {
	s.config.Programs = []int{1}
	for _, p := range summaryParts {
		runtime.GC()
		if err := p.run(s); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// Config selects what to measure, and how often.
type Config struct {
	Target kmd.Target
	Device string // the target's name in the report
	// Families names the families to measure. Empty means all but [Summarized], which runs alone.
	Families []string
	// Rounds counts, after Warmup more; 0 means 20 and 3.
	Rounds, Warmup int
	iterations     int // of a loop; 0 means controlIterations
	// Programs are the trace lengths of the replay family; nil means 1, 10 and 1000.
	Programs []int
	// EBPF asks for a [report.Breakdown] of replays, not only for system calls.
	EBPF     bool
	Timeline bool
	// ProbeTarget, or else Target, is for the host's cost of a submission. Give sim.Awake: waking
	// an emulated device takes a system call.
	ProbeTarget kmd.Target
	// CountTarget is for counting the instructions of its first queue's cores.
	CountTarget *sim.Card
	// Demo runs a whole network, for the summary.
	Demo func(context.Context, kmd.Target) error
	// Emulated makes a device like Target that this process emulates, for one opening.
	Emulated func() *sim.Card
	// Parallel is such a device with tiles that execute in parallel.
	Parallel kmd.Target
	Mesh     mesh.Machine
	Against  *Against
	// Machine says which kernel features may be used; nil means [probe.Detect].
	Machine probe.Machine
	// Progress is told each figure before its measurement.
	Progress func(figure string)
}

func (c *Config) machine() probe.Machine {
	if c.Machine != nil {
		return c.Machine
	}
	return probe.Detect()
}

// Summarized is the family that fills in [report.Report.Summary].
const Summarized = "summary"

// ErrFamily is the error of unknown families.
var ErrFamily = errors.New("there is no such family of measurements")

// Against is a device to compare with the target.
type Against struct {
	Target kmd.Target
	Name   string
}

const clockAttempts = 3

// session is a run, which ends with ctx.
type session struct {
	ctx    context.Context
	config Config
	runner measure.Runner
	dev    *reprise.Device // nil for families that need none
	card   *sim.Card       // dev, if this process emulates it
	report *report.Report
}

func (s *session) aiClock() (mhz float64, ok bool, err error) {
	if s.dev == nil {
		return 0, false, nil
	}
	mhz, err = s.dev.AIClock(s.ctx)
	if errors.Is(err, dispatch.ErrNoClock) {
		return 0, false, nil
	}
	return mhz, err == nil, err
}

// leaveOut says why a family, or a part of it, measures nothing, if it was asked for by name.
func (s *session) leaveOut(family, part, why string) {
	if slices.Contains(s.config.Families, family) {
		s.report.LeftOut = append(s.report.LeftOut, report.LeftOut{Family: family + part, Why: why})
	}
}

func (s *session) with(do func() error, opts ...reprise.Option) error {
	return s.open(s.config.Target, do, opts...)
}

// withProbe is with for measurements of the host's share.
func (s *session) withProbe(do func() error, opts ...reprise.Option) error {
	return s.open(cmp.Or(s.config.ProbeTarget, s.config.Target), do, opts...)
}

func (s *session) open(t kmd.Target, do func() error, opts ...reprise.Option) (err error) {
	if s.dev, err = reprise.Open(s.ctx, t, opts...); err != nil {
		return err
	}
	s.report.Arch = s.dev.Arch().String()
	s.card, _ = t.(*sim.Card)
	defer func() { err = errors.Join(err, s.dev.Close(s.ctx)); s.dev, s.card = nil, nil }()
	runtime.GC() // so that earlier garbage isn't collected during the measurement
	return do()
}

// measure adds figures, or a refusal if the chip's clock changed in every attempt.
func (s *session) measure(family string, jobs ...*measure.Job) error {
	for _, j := range jobs {
		if err := s.measureOne(family, j); err != nil {
			return fmt.Errorf("%s: %w", j.Name, err)
		}
	}
	return nil
}

func (s *session) measureOne(family string, j *measure.Job) error {
	id := report.ID(family, j.Name, j.Params...)
	if s.config.Progress != nil {
		s.config.Progress(id)
	}
	refusal := report.Refusal{Figure: id}
	for range clockAttempts {
		f, err := s.runner.Measure(s.ctx, family, j)
		if err != nil {
			return err
		}
		if f.AIClock == nil || !f.AIClock.Moved() {
			s.report.Figures = append(s.report.Figures, f)
			return nil
		}
		refusal.AIClocks = append(refusal.AIClocks, f.AIClock)
	}
	s.report.Refused = append(s.report.Refused, refusal)
	return nil
}

// against opens Config.Against if there is one.
func (s *session) against(do func(*Against) error, opts ...reprise.Option) error {
	a := s.config.Against
	if a == nil {
		return nil
	}
	if err := s.open(a.Target, func() error { return do(a) }, opts...); err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	return nil
}

func (s *session) record(x *reprise.Executable, programs int) (*reprise.Trace, error) {
	return s.queue().Capture(s.ctx, fmt.Sprintf("%d programs", programs), func(_ context.Context, r *reprise.Recorder) error {
		for range programs {
			if err := r.Run(x); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *session) recorded(x *reprise.Executable, programs int, do func(*reprise.Trace) error) error {
	t, err := s.record(x, programs)
	if err == nil {
		err = do(t)
	}
	if err != nil {
		return err
	}
	return t.Release(s.ctx)
}

func (s *session) replay(t *reprise.Trace) func(n int) error {
	ctx := s.ctx
	return func(n int) error {
		for range n {
			if err := t.Replay(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// measureTimes also measures processor time. sample gets the clock and its least sensible duration.
func (s *session) measureTimes(family string, job measure.Job, processor func() (time.Duration, bool),
	sample func(now func() time.Duration, least time.Duration) (float64, error)) error {
	origin := time.Now()
	wall := job
	wall.Sample = func() (float64, error) {
		return sample(func() time.Duration { return time.Since(origin) }, 0)
	}
	err := s.measure(family, &wall)
	if _, ok := processor(); !ok {
		return err
	}
	job.Name += processorSuffix
	job.Sample = func() (float64, error) {
		return sample(func() time.Duration { t, _ := processor(); return t }, sampleLasts)
	}
	return errors.Join(err, s.measure(family, &job))
}

func (s *session) load(p shape) (*reprise.Executable, error) {
	prog, err := p.program(s.dev)
	if err != nil {
		return nil, err
	}
	return s.dev.Load(s.ctx, prog)
}

func (s *session) loaded(p shape, do func(*reprise.Executable) error) error {
	x, err := s.load(p)
	if err == nil {
		err = do(x)
	}
	if err != nil {
		return err
	}
	return x.Release(s.ctx)
}

func (s *session) shapes(do func(shape, *reprise.Executable) error) error {
	for _, p := range []shape{common, worst} {
		if err := s.loaded(p, func(x *reprise.Executable) error { return do(p, x) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) queue() *reprise.Queue { return s.dev.Queue(0) }

func (s *session) finish() error { return s.queue().Wait(s.ctx) }

func runToEnd(ctx context.Context, d *reprise.Device, x *reprise.Executable) func() error {
	q := d.Queue(0)
	return func() error { return errors.Join(q.Run(ctx, x), q.Wait(ctx)) }
}

// stamps record the device's clock before and after an operation.
type stamps struct {
	ctx           context.Context
	queue         *reprise.Queue
	before, after *reprise.Event
	mhz           float64
}

func newStamps(ctx context.Context, d *reprise.Device) *stamps {
	return &stamps{ctx: ctx, queue: d.Queue(0), before: d.NewEvent("before", reprise.Timed()), after: d.NewEvent("after", reprise.Timed())}
}

// newStamps returns nil if the clock's rate is unknown.
func (s *session) newStamps() (*stamps, error) {
	mhz, ok, err := s.aiClock()
	if err != nil || !ok || mhz == 0 {
		return nil, err
	}
	p := newStamps(s.ctx, s.dev)
	p.mhz = mhz
	return p, nil
}

func (p *stamps) job(name string, params []report.Param, burst int, op func() error) *measure.Job {
	return &measure.Job{
		Name: name, Params: params, PerSample: 1, Burst: burst,
		Settle: func() error { return p.queue.Wait(p.ctx) },
		Sample: func() (float64, error) {
			from, to, err := p.around(op)
			return float64(to-from) * 1e3 / p.mhz, err
		},
	}
}

// around returns the device's clock before and after op.
func (p *stamps) around(op func() error) (from, to uint64, err error) {
	if err = p.queue.Record(p.ctx, p.before); err == nil && op != nil {
		err = op()
	}
	if err == nil {
		err = p.queue.Record(p.ctx, p.after)
	}
	if err == nil {
		err = p.after.Wait(p.ctx)
	}
	if err != nil {
		return 0, 0, err
	}
	from, _ = p.before.DeviceTime()
	to, _ = p.after.DeviceTime()
	return from, to, nil
}

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
// carry over. tt-metal's command assembler (device_command) was measured on a 2-core x86-64 virtual
// machine; its whole operations are the expectations of its CI for a Blackhole machine
// (fd_command_construction_golden.json).
const (
	assembler = "tt-metal's command assembler"
	itsCI     = "tt-metal's CI, its machine"
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
