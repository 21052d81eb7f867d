package ops

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/ops/graph"
)

// Capture records what runs and what it allocates as a graph.
type Capture struct {
	d    *Device
	rec  *graph.Recorder
	mode graph.Mode
}

// BeginCapture starts to record what happens on the device: operations with their arguments and tensors, and also buffers,
// programs and transfers of others. The graph is that of [Capture.End].
//
// With graph.NoDispatch no operation reaches the device: tensors are allocated in a copy of its memory's state, by the same
// code, and what doesn't fit is at address 0; nothing is loaded, transferred or run, and [Device.ToHost] gives no data. It
// holds for operations only: who uses the device without them really does. The tensors that such a capture makes are good
// for nothing after it.
//
// Captures nest: everything is recorded in each of them, and End is for the innermost first. Whether operations really
// run is for the outermost to say.
func (d *Device) BeginCapture(cfg graph.Config) *Capture {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := &Capture{d: d, rec: graph.NewRecorder(cfg), mode: cfg.Mode}
	c.rec.Device(d.describe())
	l := &d.live
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.stack) == 0 {
		l.stop = d.dev.Observe(watcher{d})
		if cfg.Mode == graph.NoDispatch {
			l.snap = d.dev.MemorySnapshot()
			l.gen++
		}
	}
	l.stack = append(l.stack, c)
	return c
}

// End ends the capture and returns its report. The error wraps [ErrNotCapturing] if it isn't the innermost.
func (c *Capture) End() (*graph.Report, error) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if err := c.d.live.remove(c); err != nil {
		return nil, fmt.Errorf("ops: end of a graph's capture: %w", err)
	}
	return c.rec.Finish()
}

// EndToFile ends the capture and writes its report to a file, making the directories that it needs. The report is also
// there if the file can't be written.
func (c *Capture) EndToFile(path string) (*graph.Report, error) {
	r, err := c.End()
	if r == nil {
		return nil, err
	}
	if e := writeReport(r, path); e != nil {
		err = errors.Join(err, fmt.Errorf("ops: write a graph's report: %w", e))
	}
	return r, err
}

func writeReport(r *graph.Report, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(r.Encode(f), f.Close())
}

// Report returns what was recorded so far. The capture goes on.
func (c *Capture) Report() *graph.Report { return c.rec.Report() }

// Open returns the names of the functions that have begun and not ended, the outermost first: after a hang, what hangs.
func (c *Capture) Open() []string { return c.rec.Open() }

// describe describes the device for reports.
func (d *Device) describe() graph.Device {
	grid, l1, p := d.dev.Grid(), d.dev.Memory(reprise.L1), d.dev.Arch().Params()
	g := graph.Device{
		ID: int64(d.id), GridX: int64(grid.End.X + 1), GridY: int64(grid.End.Y + 1), ComputeX: int64(grid.End.X + 1), ComputeY: int64(grid.End.Y + 1),
		WorkerL1Size: int64(p.L1.Size), L1Banks: int64(l1.Banks), L1BankSize: int64(l1.Total), FirstL1Bank: int64(p.L1.Unreserved),
		FirstCircularBuffer: int64(p.L1.Unreserved), Arch: archName(d.dev.Arch()), DRAMChannels: int64(d.dev.DRAMBanks()), DRAMSizePerChannel: int64(d.dev.DRAMBankSize()),
	}
	g.Derive()
	return g
}

// archName is what reports call an architecture.
func archName(a reprise.Arch) string {
	if a == reprise.Wormhole {
		return "wormhole_b0"
	}
	return a.String()
}
