//go:build !unix

package usage

import "fmt"

// Create fails.
func Create(string, Device) (*Log, error) {
	return nil, fmt.Errorf("usage: create: %w", ErrUnsupported)
}

// Close does nothing.
func (l *Log) Close() error { return nil }

// Read fails.
func Read(string) (*Snapshot, error) { return nil, fmt.Errorf("usage: read: %w", ErrUnsupported) }

// Watch fails.
func Watch(string) error { return fmt.Errorf("usage: watch: %w", ErrUnsupported) }

// Sweep fails.
func Sweep(string) (int, error) { return 0, fmt.Errorf("usage: sweep: %w", ErrUnsupported) }
