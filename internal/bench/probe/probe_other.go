//go:build !linux || !(amd64 || arm64 || riscv64)

package probe

import (
	"fmt"
	"runtime"
)

// Probe watches a process; not on this system.
type Probe struct{}

type machine struct{}

// Missing implements [Machine].
func (machine) Missing(Feature) error {
	return fmt.Errorf("%w: %s on %s has no eBPF that this package knows", ErrMissing, runtime.GOOS, runtime.GOARCH)
}

// Detect returns a machine without features.
func Detect() Machine { return machine{} }

// Start fails.
func Start(Config) (*Probe, error) {
	return nil, fmt.Errorf("probe: start: %w", machine{}.Missing(BPF))
}

// Stage does nothing.
func (*Probe) Stage(uint32) {}

// Has returns false.
func (*Probe) Has(Kind) bool { return false }

// Running returns false.
func (*Probe) Running() bool { return false }

// Snapshot fails.
func (*Probe) Snapshot() (*Snapshot, error) {
	return nil, fmt.Errorf("probe: snapshot: %w", machine{}.Missing(BPF))
}

// Close does nothing.
func (*Probe) Close() error { return nil }

// Counter counts instructions; not on this system.
type Counter struct{}

// OpenCounter fails.
func OpenCounter() (*Counter, error) {
	return nil, fmt.Errorf("probe: count instructions: %w", machine{}.Missing(Counters))
}

// Read returns 0.
func (*Counter) Read() (uint64, error) { return 0, nil }

// Close does nothing.
func (*Counter) Close() error { return nil }

// Calibrate measures nothing.
func Calibrate(Machine, ...Kind) ([]Cost, error) { return nil, nil }

// ThreadID returns 0.
func ThreadID() int { return 0 }
