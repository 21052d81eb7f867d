package reprise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// MemoryMap returns what lies where in the device's memory now. It prints as text, JSON or a picture, and as CSV
// reports.
func (d *Device) MemoryMap() *MemoryMap { return d.mem.Map() }

// MemoryFingerprint returns a number that stands for everything that decides the addresses of later buffers of a kind. As long
// as it is the same, the same buffers get the same addresses: note and compare it to learn whether a buffer that is
// allocated again gets the address that it had.
func (d *Device) MemoryFingerprint(k Kind) uint64 { return d.mem.Fingerprint(k) }

// WouldFit returns the addresses that buffers would get if they were allocated now, one after the other. It allocates
// nothing. The error is the one that NewBuffer would return for the first buffer that doesn't fit.
func (d *Device) WouldFit(cs ...BufferConfig) ([]uint32, error) {
	return d.MemorySnapshot().WouldFit(cs...)
}

// WriteMemoryReports writes the reports l1_usage_summary.csv, memory_usage_summary.csv and detailed_memory_usage.csv to a
// directory, with a prefix to their names. Their columns are tt-metal's.
func (d *Device) WriteMemoryReports(dir, prefix string) error {
	m := d.MemoryMap()
	var errs []error
	for _, r := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"l1_usage_summary.csv", m.WriteL1Summary},
		{"memory_usage_summary.csv", m.WriteSummary},
		{"detailed_memory_usage.csv", m.WriteDetailed},
	} {
		f, err := os.Create(filepath.Join(dir, prefix+r.name))
		if err == nil {
			err = errors.Join(r.write(f), f.Close())
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("reprise: write memory reports: %w", err)
	}
	return nil
}
