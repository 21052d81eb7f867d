package ops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/ops/graph"
)

// Capture records operations and their allocations as a graph.
type Capture struct {
	all   *captures
	lock  *sync.Mutex // held during an operation
	rec   *graph.Recorder
	mode  graph.Mode
	first *graph.Recorder // of another chip of a mesh, whose graph has the memory of all chips; or nil

	zonesMu sync.Mutex
	zones   []graph.Zone
}

// Record adds a zone of a kernel to the report: it is a handler for print.Listen on the device, to
// be closed or drained before the capture ends. Other records, and zones beyond a million, are
// ignored.
func (c *Capture) Record(r print.Record) {
	const most = 1 << 20
	if !r.Zone {
		return
	}
	xy, err := c.all.dev.Virtual(r.Core)
	if err != nil {
		return
	}
	c.zonesMu.Lock()
	defer c.zonesMu.Unlock()
	if len(c.zones) < most {
		c.zones = append(c.zones, graph.Zone{
			Device: int64(c.all.id), X: int(xy.X), Y: int(xy.Y), Processor: r.Processor.String(), Program: r.Program, Kernel: r.Kernel,
			Name: r.Text, File: r.File, Line: r.Line, Start: r.Start, End: r.Time,
		})
	}
}

func (c *Capture) withZones(r *graph.Report) *graph.Report {
	c.zonesMu.Lock()
	defer c.zonesMu.Unlock()
	if r != nil {
		r.Zones = slices.Clone(c.zones)
	}
	return r
}

func (c *Capture) memory(event func(*graph.Recorder)) {
	event(c.rec)
	if c.first != nil {
		event(c.first)
	}
}

func (all *captures) start(cfg graph.Config, lock *sync.Mutex, first *graph.Recorder) *Capture {
	lock.Lock()
	defer lock.Unlock()
	c := &Capture{all: all, lock: lock, rec: graph.NewRecorder(cfg), mode: cfg.Mode, first: first}
	c.rec.Device(all.describe())
	all.mu.Lock()
	defer all.mu.Unlock()
	if len(all.stack) == 0 {
		if cfg.Mode == graph.Normal {
			all.times.startLocked(all.dev)
		}
		all.stop = all.dev.Observe(watcher{all})
		if cfg.Mode == graph.NoDispatch {
			all.snap = all.dev.MemorySnapshot()
			all.gen++
		}
	}
	c.rec.Set(all.on&(graph.DetailStackTraces|graph.DetailBufferPages), true)
	c.rec.Set(graph.DetailDurations, all.on.Has(graph.DetailDurations))
	all.stack = append(all.stack, c)
	return c
}

// Set switches details on or off for this capture, from the next event on.
func (c *Capture) Set(some graph.Details, on bool) { c.rec.Set(some, on) }

// Has reports whether this capture records all of some details.
func (c *Capture) Has(some graph.Details) bool { return c.rec.Has(some) }

// End ends the capture and returns its report, with the device times of all programs that are done:
// call [Device.Wait] first. The error wraps [ErrNotCapturing] if another capture is inside this
// one.
func (c *Capture) End() (*graph.Report, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.all.time(c, true)
	if err := c.all.remove(c); err != nil {
		return nil, fmt.Errorf("ops: end graph capture: %w", err)
	}
	r, err := c.rec.Finish()
	return c.withZones(r), err
}

// EndToFile ends the capture and writes its report to a file, whole or not at all, in directories
// that it creates. If writing fails it returns the report and the error.
func (c *Capture) EndToFile(path string) (*graph.Report, error) {
	r, err := c.End()
	if r == nil {
		return nil, err
	}
	if e := writeReport(r, path); e != nil {
		err = errors.Join(err, fmt.Errorf("ops: write graph report: %w", e))
	}
	return r, err
}

func writeReport(r *graph.Report, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0) // a device or a pipe, which a new file mustn't replace
		if err != nil {
			return err
		}
		return errors.Join(r.Encode(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	if err = errors.Join(r.Encode(f), f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// Report returns a report of the capture so far, which goes on.
func (c *Capture) Report() *graph.Report {
	c.all.time(c, false)
	return c.withZones(c.rec.Report())
}

// Open returns the names of the functions that haven't ended, the outermost first.
func (c *Capture) Open() []string { return c.rec.Open() }

func (d *captures) describe() graph.Device {
	grid, l1, p := d.dev.Grid(), d.dev.Memory(allocator.L1), d.dev.Arch().Params()
	g := graph.Device{
		ID: int64(d.id), GridX: int64(grid.End.X + 1), GridY: int64(grid.End.Y + 1), ComputeX: int64(grid.End.X + 1),
		ComputeY:     int64(grid.End.Y + 1),
		WorkerL1Size: int64(p.L1Size), L1Banks: int64(l1.Banks), L1BankSize: int64(l1.Total), FirstL1Bank: int64(l1.Low),
		FirstCircularBuffer: int64(l1.Low), Arch: archName(d.dev.Arch()), DRAMChannels: int64(d.dev.DRAMBanks()),
		DRAMSizePerChannel: int64(d.dev.DRAMBankSize()),
	}
	if mhz, err := d.dev.AIClock(context.Background()); err == nil {
		g.ClockMHz = mhz
	}
	g.Derive()
	return g
}

func archName(a chip.Arch) string {
	if a == chip.Wormhole {
		return "wormhole_b0"
	}
	return a.String()
}
