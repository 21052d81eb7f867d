package bench

import (
	"context"
	"errors"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/internal/bench/probe"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/mesh"
)

// Config selects what to measure, and how often.
type Config struct {
	Target  kmd.Target       // the device
	Device  string           // the target's name in the report
	Options []reprise.Option // of every Open
	// Families names the families to measure. Empty means all but [Summarized], which runs alone.
	Families []string
	// Rounds is the number of counted rounds of each figure, Warmup the number of rounds before
	// them. 0 means 20 and 3.
	Rounds, Warmup int
	iterations     int // of a loop; 0 means controlIterations
	// Programs are the trace lengths of the replay family, in programs; nil means 1, 10 and 1000.
	Programs []int
	// EBPF asks for a [report.Breakdown] of replays. Without EBPF only system calls are counted,
	// where the kernel permits.
	EBPF bool
	// Markers asks for [report.Markers] of every awaited operation, in runs of their own.
	Markers bool
	// Timeline asks for a timeline of a few replays of each trace of the replay family, in runs of
	// their own.
	Timeline bool
	// ProbeTarget is the device on which the host's cost of a submission is measured; nil means
	// Target. Waking a sleeping emulated device takes a system call that silicon doesn't need, so
	// give sim.Awake.
	ProbeTarget kmd.Target
	// CountTarget is a device whose instructions are counted, such as a synchronous emulator.
	// Retired returns those of the first queue's cores since it was opened. Without both, none are
	// reported.
	CountTarget kmd.Target
	Retired     func() uint64
	// Executed returns the instructions that the prefetcher, the dispatcher and its subordinate of
	// CountTarget's first queue executed since the first call, without polling rounds. nil leaves
	// instructions out of the summary.
	Executed func() [3]uint64
	// Demo runs a whole network on a device, for the summary; nil leaves it out.
	Demo func(context.Context, kmd.Target) error
	// Emulated makes a device like Target that this process emulates, for the family "emulator".
	Emulated func() Emulated
	// Parallel is Emulated with tiles that execute in parallel, for the summary.
	Parallel func() Emulated
	Mesh     mesh.Machine // cards for the mesh family
	// Against is a second device that the summary and the families tensix and ops measure too; nil
	// means none.
	Against *Against
	// Machine says which kernel features may be used; nil means [probe.Detect].
	Machine probe.Machine
	// Progress, if not nil, is called with the name of each figure before its measurement.
	Progress func(figure string)
}

func (c *Config) machine() probe.Machine {
	if c.Machine != nil {
		return c.Machine
	}
	return probe.Detect()
}

// Summarized is the family that measures the figures users feel most and fills in
// [report.Report.Summary].
const Summarized = "summary"

// ErrFamily is the error of [Run] for a name in [Config].Families that is not among [Families].
var ErrFamily = errors.New("there is no such family of measurements")

// Emulated is a device that this process emulates.
type Emulated struct {
	Target kmd.Target  // for one opening
	Work   func() Work // since it was opened
}

// Work counts the instructions of all processors of an emulated device, and the bytes that its NoCs
// moved.
type Work struct{ Instructions, NoCBytes uint64 }

// Against is a device to compare with the target.
type Against struct {
	Target   kmd.Target
	Name     string // in ratios
	Emulated bool   // by this project, so that clocks aren't reported
}
