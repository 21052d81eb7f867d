package reprise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/reprise-tt/reprise/allocator"
)

// MemoryMap returns what lies where in the device's memory now. It prints as text, JSON or a picture, and as CSV
// reports.
func (d *Device) MemoryMap() *MemoryMap { return d.mem.Map() }

// MemoryFingerprint returns a number that stands for everything that decides where buffers of a kind will lie. As long
// as it is the same, the same buffers get the same addresses: who wants a buffer to come back to where it was can note
// it and compare.
func (d *Device) MemoryFingerprint(k Kind) uint64 { return d.mem.Fingerprint(k) }

// WouldFit says at which addresses buffers would lie if they were allocated now, one after the other, and takes nothing.
// The error is the one that NewBuffer would give for the first that doesn't fit.
func (d *Device) WouldFit(cs ...BufferConfig) ([]uint32, error) {
	return d.MemorySnapshot().WouldFit(cs...)
}

// WriteMemoryReports writes the reports l1_usage_summary.csv, memory_usage_summary.csv and detailed_memory_usage.csv to a
// directory, with a prefix to their names. They have the columns of tt-metal's.
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

// MemorySnapshot is what was allocated at a moment. It can be asked what would fit, also without some of the buffers.
type MemorySnapshot struct {
	d   *Device
	mem *allocator.Allocator
}

// MemorySnapshot copies the state of the device's memory, not its content.
func (d *Device) MemorySnapshot() *MemorySnapshot {
	// While circular buffers grow or shrink, their place is free for a moment.
	d.cbs.mu.Lock()
	defer d.cbs.mu.Unlock()
	return &MemorySnapshot{d: d, mem: d.mem.Clone()}
}

// Map returns what lay where.
func (s *MemorySnapshot) Map() *MemoryMap { return s.mem.Map() }

// Changes lists what has come and gone since, by kind and address.
func (s *MemorySnapshot) Changes() []MemoryChange { return s.d.mem.Diff(s.mem) }

// Without takes a buffer out of the snapshot, as if it were freed.
func (s *MemorySnapshot) Without(b *Buffer) error {
	if b == nil || b.d != s.d {
		return fmt.Errorf("reprise: memory snapshot: %w", b.of(s.d))
	}
	free := s.mem.Free
	if b.root != nil {
		free = s.mem.Unhold
	}
	if err := free(b.ext); err != nil {
		return fmt.Errorf("reprise: memory snapshot: buffer %q: %w", b.name, err)
	}
	return nil
}

// WouldFit says at which addresses buffers would lie if they were allocated one after the other in the snapshot, which
// stays as it is.
func (s *MemorySnapshot) WouldFit(cs ...BufferConfig) ([]uint32, error) {
	mem := s.mem.Clone()
	out := make([]uint32, 0, len(cs))
	for i := range cs {
		_, r, err := s.d.plan(&cs[i])
		if err == nil {
			var e allocator.Extent
			e, err = place(mem, &cs[i], r)
			out = append(out, uint32(e.Addr))
		}
		if err != nil {
			return nil, fmt.Errorf("reprise: buffer %q would not fit: %w", cs[i].Name, err)
		}
	}
	return out, nil
}

// worksForOthers reports whether a function is of this package, or of one that calls it for its own callers.
func worksForOthers(function string) bool {
	for _, p := range [...]string{packagePath, meshPath, pipelinePath} {
		if strings.HasPrefix(function, p) {
			return true
		}
	}
	return false
}

// pipelinePath begins the names of package pipeline's functions.
const pipelinePath = "github.com/reprise-tt/reprise/pipeline."

// userPC returns the call site that the caller works for.
func userPC() uintptr {
	var pcs [4]uintptr // the user is near, and every frame takes time
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if f := runtime.FuncForPC(pc - 1); f != nil && !worksForOthers(f.Name()) {
				return pc
			}
		}
		if n < len(pcs) {
			return 0
		}
	}
}
