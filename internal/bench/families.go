// Package bench measures the costs of replays, enqueues, captures, transfers and more on any
// device, for `reprise bench`.
//
// A family of measurements ([Families]) makes [report.Figure]s. A figure consists of rounds, each
// with the figure's baselines, such as a copy of the same bytes, measured right beside it. Times are
// of the processor's constant-rate counter, less the cost of reading it; percentiles are over all
// samples. What a device can't measure is left out of the report.
package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/reprise-tt/reprise/internal/bench/measure"
	"github.com/reprise-tt/reprise/internal/bench/report"
)

//go:generate go run github.com/reprise-tt/reprise/internal/fwbuild bench

// family is a group of figures.
type family struct {
	name, about string
	device      uses
	run         func(*session) error
}

// uses is the device that is open for a family.
type uses uint8

const (
	opensOwn uses = iota // none: the family opens its devices itself
	target
	probeTarget
)

// families lists the families in running order.
var families = [...]family{
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

// Family describes a group of figures.
type Family struct{ Name, About string }

// Families returns the families in running order.
func Families() []Family {
	var out []Family
	for _, f := range families {
		out = append(out, Family{f.name, f.about})
	}
	return out
}

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
	s := &session{ctx: ctx, config: c, runner: measure.Runner{Clock: measure.Calibrate(20 * time.Millisecond), Rounds: c.Rounds, Warmup: c.Warmup}}
	s.runner.AIClock = s.aiClock
	s.report = &report.Report{
		Schema: report.Schema, When: time.Now().UTC().Truncate(time.Second), Device: c.Device,
		Host: report.NewHost(), Rounds: c.Rounds, Warmup: c.Warmup,
		TimerOverheadNs: float64(s.runner.Clock.Overhead) * s.runner.Clock.NsPerTick,
	}
	if s.report.Baselines, err = s.runner.Baselines(); err != nil {
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
			return nil, fmt.Errorf("bench: %s: %w", f.name, err)
		}
		if f.name == "replay" {
			if err := s.breakdown(); err != nil {
				return nil, fmt.Errorf("bench: replays under eBPF: %w", err)
			}
		}
	}
	s.report.Summarize()
	return s.report, nil
}

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

// measure measures a family on a device of its own, so that families don't influence each other.
func (f family) measure(s *session) error {
	switch run := func() error { return f.run(s) }; f.device {
	case target:
		return s.with(run)
	case probeTarget:
		return s.withProbe(run)
	}
	runtime.GC()
	return f.run(s)
}

// summaryParts measure the rows of the summary, in the table's order.
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
