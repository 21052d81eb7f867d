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
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/probe"
	"github.com/reprise-tt/reprise/internal/bench/report"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/sim"
)

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild bench

// Family is a group of figures.
type Family struct {
	Name, About string
	device      uses
	run         func(*session) error
}

type uses uint8

const (
	opensOwn uses = iota
	target
	probeTarget
)

var families = []Family{
	{"replay", "submitting a replay, waiting for it, for traces of several lengths", opensOwn, measureReplay},
	{"enqueue", "submitting a program that is loaded", probeTarget, measureEnqueue},
	{"capture", "recording a trace and writing it to DRAM", probeTarget, measureCapture},
	{"control", "an iteration of a loop in a trace, beside a replay of its body, by the device's clock", target, measureControl},
	{"arguments", "giving a loaded program other runtime arguments", target, measureArguments},
	{"patching", "giving a recorded program another argument and replaying it", target, measurePatching},
	{"events", "recording events, waiting for them on the host, handing over between queues", opensOwn, measureEvents},
	{"transfer", "writing and reading buffers, by size and page", target, measureTransfer},
	{"streams", "messages between the host and a kernel that runs, beside reads of a queue", opensOwn, measureStreams},
	{"wake", "how late a wait on the host notices that something is done, by pace", opensOwn, measureWake},
	{"allocator", "allocating and freeing among many live extents", opensOwn, measureAllocator},
	{"open", "opening and closing the device", opensOwn, measureOpen},
	{"mesh", "opening many chips as one, and what a replay costs the host for each of them", opensOwn, measureMesh},
	{"tensix", "operations on tiles by a worker's Tensix engines, of two devices if asked", opensOwn, measureTensix},
	{"ops", "operations on tensors: products in blocks, and what limits them, of two devices if asked", opensOwn, measureOps},
	{"emulator", "instructions and bytes that an emulated device gets done, idle, busy, and several at once", opensOwn, measureEmulator},
	{Summarized, "by itself: a table of what users feel, beside what it takes others and what it should take", opensOwn, measureSummary},
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
	if c.Markers {
		if s.marker, err = newMarker(c.machine()); err != nil {
			return nil, fmt.Errorf("bench: markers: %w", err)
		}
		s.report.Markers = s.marker.report
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
	switch run := func() error { return f.run(s) }; f.device {
	case target:
		return s.with(run)
	case probeTarget:
		return s.withProbe(run)
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
	EBPF bool
	// Markers asks for [report.Markers] of awaited operations.
	Markers  bool
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
	marker *marker
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
			return s.marker.mark(id, j, s.runner.Rounds*j.Burst)
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
	if err := p.queue.Record(p.ctx, p.before); err != nil {
		return 0, 0, err
	}
	if op != nil {
		if err := op(); err != nil {
			return 0, 0, err
		}
	}
	if err := p.queue.Record(p.ctx, p.after); err != nil {
		return 0, 0, err
	}
	if err := p.after.Wait(p.ctx); err != nil {
		return 0, 0, err
	}
	from, _ = p.before.DeviceTime()
	to, _ = p.after.DeviceTime()
	return from, to, nil
}
