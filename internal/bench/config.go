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
	// Target is the device. Families that measure opening it open it several times, one after the
	// other.
	Target kmd.Target
	// Device is what the target is called in the report.
	Device string
	// Options are given to every Open.
	Options []reprise.Option
	// Families are the names of what to measure; empty means all but the summary, which is measured
	// by itself.
	Families []string
	// Rounds is the number of rounds of each figure, Warmup the number of rounds before them that
	// don't count. 0 means 20 and 3.
	Rounds, Warmup int
	iterations     int // of a loop; 0 means controlIterations
	// Programs are the lengths of the traces that the replay family measures; nil means 1, 10 and
	// 1000.
	Programs []int
	// EBPF asks for a [report.Breakdown] of replays. Without it eBPF only counts their system
	// calls, where it is permitted.
	EBPF bool
	// Markers asks for [report.Markers] of every operation that is waited for, in the families that
	// have any: replay, enqueue and events. They run separately from what is measured.
	Markers bool
	// Timeline asks for a timeline of a few replays of each trace of the replay family, separately
	// from what is measured.
	Timeline bool
	// ProbeTarget is the device on which the host's cost of a submission is measured, and whose
	// replays eBPF watches; Target if nil. Ringing the doorbell of an emulated device that sleeps
	// takes a system call to wake it, which silicon doesn't need: give it sim.Awake.
	ProbeTarget kmd.Target
	// CountTarget is a device whose instructions Retired counts: those of the cores of its first
	// queue since it was opened. A synchronous emulator returns the same count every time. If
	// either is nil, no instructions are reported.
	CountTarget kmd.Target
	Retired     func() uint64
	// Executed returns how many instructions the prefetcher, the dispatcher and its subordinate of
	// CountTarget's first queue have executed since its first call, without rounds of waiting. If
	// it is nil, the summary has no instructions.
	Executed func() [3]uint64
	// Demo runs a whole network on a device: the one that the summary measures. Nil means that
	// there is none.
	Demo func(context.Context, kmd.Target) error
	// Emulated makes a device like Target that this process emulates, and reports its work. The
	// family "emulator" measures nothing without it.
	Emulated func() Emulated
	// Parallel is Emulated with tiles that execute instructions at the same time, for the summary's
	// row of one chip on all processors.
	Parallel func() Emulated
	// Mesh is the cards of a machine for the mesh family, which measures nothing without it.
	Mesh mesh.Machine
	// Against is a device that the summary and the families tensix and ops measure beside the
	// target; nil means none.
	Against *Against
	// Machine says which features of the kernel may be used; nil means those that it offers.
	Machine probe.Machine
	// Progress, if set, is called with the name of each figure before it is measured.
	Progress func(figure string)
}

// machine says which features of the kernel may be used.
func (c *Config) machine() probe.Machine {
	if c.Machine != nil {
		return c.Machine
	}
	return probe.Detect()
}

// Summarized is the family whose figures are those of others that users feel, a few of each, and
// which makes [report.Report.Summary].
const Summarized = "summary"

// ErrFamily is the error of [Run] for a name in [Config].Families that is not among [Families].
var ErrFamily = errors.New("there is no such family of measurements")

// Emulated is a device that this process emulates, for the family "emulator".
type Emulated struct {
	// Target is a device of its own, for one opening.
	Target kmd.Target
	// Work returns what the device has done since it was opened.
	Work func() Work
}

// Work is what an emulated device has done.
type Work struct {
	// Instructions is how many all its processors have executed, NoCBytes how much its networks
	// have moved.
	Instructions, NoCBytes uint64
}

// Against is a device that the families "tensix" and "ops" measure beside the target.
type Against struct {
	// Target is the device.
	Target kmd.Target
	// Name is what ratios call it.
	Name string
	// Emulated says that it is one of this project's emulators, whose clocks aren't reported.
	Emulated bool
}
