package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/bench/probe"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh"
)

// Config selects what to measure, and how often.
type Config struct {
	// Target is the device. Families that measure opening it open it several times, one after the other.
	Target kmd.Target
	// Device is what the target is called in the report.
	Device string
	// Options are given to every Open.
	Options []reprise.Option
	// Families are the names of what to measure; empty means all but the summary, which is measured by itself.
	Families []string
	// Rounds is the number of rounds of each figure, Warmup the number of rounds before them that don't count. 0 means 20
	// and 3.
	Rounds, Warmup int
	iterations     int // of a loop; 0 means controlIterations
	// Programs are the lengths of the traces that the replay family measures; nil means 1, 10 and 1000.
	Programs []int
	// EBPF asks for a [Breakdown] of replays. Without it eBPF only counts their system calls, where it is permitted.
	EBPF bool
	// Markers asks for [Markers] of every operation that is waited for, in the families that have any: replay, enqueue and
	// events. They run separately from what is measured.
	Markers bool
	// Timeline asks for a timeline of a few replays of each trace of the replay family, separately from what is measured.
	Timeline bool
	// ProbeTarget is the device on which the host's cost of a submission is measured, and whose replays eBPF watches; Target
	// if nil. Ringing the doorbell of an emulated device that sleeps takes a system call to wake it, which silicon doesn't
	// need: give it sim.Awake.
	ProbeTarget kmd.Target
	// CountTarget is a device whose instructions Retired counts: those of the cores of its first queue since it was opened. A
	// synchronous emulator returns the same count every time. If either is nil, no instructions are reported.
	CountTarget kmd.Target
	Retired     func() uint64
	// Executed returns how many instructions the prefetcher, the dispatcher and its subordinate of CountTarget's first queue have
	// executed since its first call, without rounds of waiting. If it is nil, the summary has no instructions.
	Executed func() [3]uint64
	// Demo runs a whole network on a device: the one that the summary measures. Nil means that there is none.
	Demo func(context.Context, kmd.Target) error
	// Emulated makes a device like Target that this process emulates, and reports its work. The family "emulator" measures
	// nothing without it.
	Emulated func() Emulated
	// Parallel is Emulated with tiles that execute instructions at the same time, for the summary's row of one chip on all processors.
	Parallel func() Emulated
	// Mesh is the cards of a machine for the mesh family, which measures nothing without it.
	Mesh mesh.Machine
	// Against is a device that the summary and the families tensix and ops measure beside the target; nil means none.
	Against *Against
	// Machine says which features of the kernel may be used; nil means those that it offers.
	Machine probe.Machine
	// Progress, if set, is called with the name of each figure before it is measured.
	Progress func(figure string)
}

// family is a group of figures.
type family struct {
	name, about string
	device      uses
	run         func(context.Context, *session) error
}

// uses is what device a family needs.
type uses uint8

const (
	opensOwn uses = iota // if any
	target
	probeTarget
)

// families in the order in which they run.
var families = [...]family{
	{"replay", "submitting a replay, waiting for it, for traces of several lengths", opensOwn, measureReplay},
	{"enqueue", "submitting a program that is loaded", probeTarget, measureEnqueue},
	{"capture", "recording a trace and writing it to DRAM", probeTarget, measureCapture},
	{"control", "an iteration of a loop in a trace, beside a replay of its body, by the device's clock", opensOwn, measureControl},
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

// Summarized is the family whose figures are those of others that users feel, a few of each, and which makes [Report.Summary].
const Summarized = "summary"

// Family describes a group of figures.
type Family struct{ Name, About string }

// Families returns what can be measured.
func Families() []Family {
	var out []Family
	for _, f := range families {
		out = append(out, Family{f.name, f.about})
	}
	return out
}

// ErrFamily is the error of [Run] for a name in [Config].Families that is not among [Families].
var ErrFamily = errors.New("there is no such family of measurements")

// session is a run of the benchmarks.
type session struct {
	config Config
	runner runner
	dev    *reprise.Device // nil for families that need none
	report *Report
	marked uint64 // operations done with markers, which are their numbers
}

// Run runs the measurements that the Config selects, and returns their report.
func Run(ctx context.Context, c Config) (*Report, error) {
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
	s := &session{config: c, runner: runner{clock: calibrate(20 * time.Millisecond), rounds: c.Rounds, warmup: c.Warmup}}
	s.runner.aiClock = s.aiClock
	s.report = &Report{
		Schema: schema, When: time.Now().UTC().Truncate(time.Second), Device: c.Device,
		Host: host(), Rounds: c.Rounds, Warmup: c.Warmup,
		TimerOverheadNs: float64(s.runner.clock.overhead) * s.runner.clock.nsPerTick,
	}
	if s.report.Baselines, err = s.runner.baselines(); err != nil {
		return nil, err
	}
	if err := s.calibrateMarkers(); err != nil {
		return nil, fmt.Errorf("bench: markers: %w", err)
	}
	for _, f := range picked {
		if err := s.run(ctx, f); err != nil {
			return nil, fmt.Errorf("bench: %s: %w", f.name, err)
		}
		if f.name == "replay" {
			if err := s.breakdown(ctx); err != nil {
				return nil, fmt.Errorf("bench: replays under eBPF: %w", err)
			}
		}
	}
	s.report.summarize()
	return s.report, nil
}

// pick returns the families of those names.
func pick(names []string) ([]family, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(slices.Clone(families[:]), func(f family) bool { return f.name == Summarized }), nil
	}
	if len(names) > 1 && slices.Contains(names, Summarized) {
		return nil, fmt.Errorf("bench: %q: %w of several: it is measured by itself", Summarized, ErrFamily)
	}
	var out []family
	for _, n := range names {
		i := slices.IndexFunc(families[:], func(f family) bool { return f.name == n })
		if i < 0 {
			var have []string
			for _, f := range families {
				have = append(have, f.name)
			}
			return nil, fmt.Errorf("bench: %q: %w: have %s", n, ErrFamily, strings.Join(have, ", "))
		}
		out = append(out, families[i])
	}
	return out, nil
}

// run measures one family, with a device of its own, so that no family sees what another has left.
func (s *session) run(ctx context.Context, f family) (err error) {
	switch run := func() error { return f.run(ctx, s) }; f.device {
	case target:
		return s.with(ctx, run)
	case probeTarget:
		return s.withProbe(ctx, run)
	}
	runtime.GC()
	return f.run(ctx, s)
}

// leaveOut notes that a family measures nothing here, or nothing of a part if that isn't empty. It is reported if the family
// was asked for by name.
func (s *session) leaveOut(family, part, why string) {
	if slices.Contains(s.config.Families, family) {
		s.report.LeftOut = append(s.report.LeftOut, LeftOut{Family: family + part, Why: why})
	}
}

// with opens the device for what do measures.
func (s *session) with(ctx context.Context, do func() error, opts ...reprise.Option) error {
	return s.open(ctx, s.config.Target, do, opts)
}

// withProbe is with for measurements of the host's part alone.
func (s *session) withProbe(ctx context.Context, do func() error, opts ...reprise.Option) error {
	return s.open(ctx, cmp.Or(s.config.ProbeTarget, s.config.Target), do, opts)
}

func (s *session) open(ctx context.Context, t kmd.Target, do func() error, opts []reprise.Option) (err error) {
	if s.dev, err = reprise.Open(ctx, t, append(slices.Clip(s.config.Options), opts...)...); err != nil {
		return err
	}
	s.report.Arch = s.dev.Arch().String()
	defer func() { err = errors.Join(err, s.dev.Close(ctx)); s.dev = nil }()
	runtime.GC() // earlier garbage isn't collected while this is timed
	return do()
}

// measure adds a figure to the report, or a refusal if the chip's clock didn't stand still meanwhile: the device holds the
// driver's power state for as long as it is open, but a chip may still lower its clock.
func (s *session) measure(ctx context.Context, family string, j *job) error {
	id := (&Figure{Family: family, Name: j.name, Params: j.params}).ID()
	if s.config.Progress != nil {
		s.config.Progress(id)
	}
	refusal := Refusal{Figure: id}
	for range clockAttempts {
		f, err := s.runner.measure(ctx, family, j)
		if err != nil {
			return fmt.Errorf("%s: %w", j.name, err)
		}
		if f.AIClock == nil || !f.AIClock.Moved() {
			s.report.Figures = append(s.report.Figures, f)
			return s.mark(ctx, id, j)
		}
		refusal.AIClocks = append(refusal.AIClocks, f.AIClock)
	}
	s.report.Refused = append(s.report.Refused, refusal)
	return nil
}
