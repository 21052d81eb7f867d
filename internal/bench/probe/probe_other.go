//go:build !linux || !(amd64 || arm64 || riscv64)

package probe

import (
	"fmt"
	"runtime"
)

type Probe struct{}

type machine struct{}

func (machine) Missing(Feature) error {
	return fmt.Errorf("%w: %s on %s has no eBPF that this package knows", ErrMissing, runtime.GOOS, runtime.GOARCH)
}

func Detect() Machine { return machine{} }

func Start(Config) (*Probe, error) {
	return nil, fmt.Errorf("probe: start: %w", machine{}.Missing(BPF))
}

func (*Probe) Stage(uint32) {}

func (*Probe) Has(Kind) bool { return false }

func (*Probe) Running() bool { return false }

func (*Probe) Snapshot() (*Snapshot, error) {
	return nil, fmt.Errorf("probe: snapshot: %w", machine{}.Missing(BPF))
}

func (*Probe) Close() error { return nil }

type Counter struct{}

func OpenCounter() (*Counter, error) {
	return nil, fmt.Errorf("probe: count instructions: %w", machine{}.Missing(Counters))
}

func (*Counter) Read() (uint64, error) { return 0, nil }

func (*Counter) Close() error { return nil }

func Calibrate(Machine, ...Kind) ([]Cost, error) { return nil, nil }

func ThreadID() int { return 0 }
