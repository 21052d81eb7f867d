//go:build !linux || !(amd64 || arm64 || riscv64)

package probe

import (
	"fmt"
	"runtime"
)

// Probe watches a process until it is closed.
type Probe struct{}

var errMissing = fmt.Errorf("%w: %s on %s has no eBPF that this package knows", ErrMissing, runtime.GOOS, runtime.GOARCH)

// Detect returns the features that this kernel offers to this process, without mounting or
// attaching anything.
func Detect() Machine { return func(Feature) error { return errMissing } }

// Start begins to watch.
func Start(Config) (*Probe, error) {
	return nil, fmt.Errorf("probe: start: %w", errMissing)
}

// Stage sets the number under which events are counted from now on.
func (*Probe) Stage(uint32) {}

// Has reports whether a kind is measured.
func (*Probe) Has(Kind) bool { return false }

// Running reports whether the process still runs.
func (*Probe) Running() bool { return false }

// Snapshot fails.
func (*Probe) Snapshot() (*Snapshot, error) {
	return nil, fmt.Errorf("probe: snapshot: %w", errMissing)
}

// Close detaches the probes.
func (*Probe) Close() error { return nil }

// OpenCounter starts a counter for the calling thread.
func OpenCounter() (*Counter, error) {
	return nil, fmt.Errorf("probe: count instructions: %w", errMissing)
}

// Calibrate measures the cost of probes on this process.
func Calibrate(Machine, ...Kind) ([]Cost, error) { return nil, nil }

// ThreadID returns the calling thread's number in this PID namespace, as in [Thread].
func ThreadID() int { return 0 }
