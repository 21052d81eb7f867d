//go:build !unix

package usage

import "fmt"

// Create makes a log of a device in a directory.
func Create(string, Device) (*Log, error) {
	return nil, fmt.Errorf("usage: create: %w", ErrUnsupported)
}

// Close ends the log and deletes its file.
func (l *Log) Close() error { return nil }

// Read reads the logs of a directory.
func Read(string) (*Snapshot, error) { return nil, fmt.Errorf("usage: read: %w", ErrUnsupported) }

// Sweep deletes the logs of dead processes.
func Sweep(string) (int, error) { return 0, fmt.Errorf("usage: sweep: %w", ErrUnsupported) }
