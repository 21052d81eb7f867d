package ttnn

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/internal/debug/stack"
	"github.com/reprise-tt/reprise/sim/emu"
)

// tileRun is a tile's execution of a program: a line for observer/perf.py.
type tileRun struct {
	Machine    int64 // when it began
	Chip       int
	Operation  uint32
	Tile       chip.XY
	Start, End uint64
	Kernels    [chip.NumProcessors][2]uint64
	// SubDevice is 1 for the first sub-device, and 0 if the device isn't divided. Workers are
	// those of the sub-device.
	SubDevice uint32
	Workers   []chip.Core
}

// PerfRecorder writes the programs that tiles execute to a file, for [Run.WritePerf].
type PerfRecorder struct {
	json *json.Encoder
	err  error
}

// NewPerfRecorder creates the file, or continues it: a process may load the library several
// times.
func NewPerfRecorder(path string) (*PerfRecorder, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("ttnn: record times: %w", err)
	}
	return &PerfRecorder{json: json.NewEncoder(f)}, nil // which writes whole lines
}

// Launches follows the programs of a further machine, whose chips number numbers.
func (r *PerfRecorder) Launches(wheel string, arch chip.Arch, number func(*chip.Chip) int) (*emu.Launches, error) {
	l := abi.Of(wheel, arch)
	if l == nil {
		return nil, fmt.Errorf("ttnn: record times: the launch messages of ttnn %s aren't known", wheel)
	}
	machine := time.Now().UnixNano()
	return &emu.Launches{Go: l.L1.Go, Entries: l.L1.GoEntries, Index: l.L1.GoIndex, Code: l.L1.KernelConfig,
		Ended: func(e *emu.Launch, read emu.ReadCore) {
			m, ok := launchOf(l, stack.Of(read, e.Tile, chip.BRISC))
			if !ok || m.enables == 0 || m.operation == 0 { // programs of command queues are of no operation
				return
			}
			run := tileRun{Machine: machine, Chip: number(e.Chip), Operation: m.operation, Tile: e.Tile, Start: e.Start, End: e.End,
				Kernels: e.Kernels}
			if l.L1.GoEntries > 1 {
				run.divide(e, l.L1.GoIndex, read)
			}
			if r.err == nil {
				r.err = r.json.Encode(run)
			}
		}}, nil
}

// divide finds the workers of the tile's sub-device: those that listen to the same go message.
func (t *tileRun) divide(e *emu.Launch, index uint32, read emu.ReadCore) {
	w, h := e.Chip.Grid()
	var workers []chip.Core
	divided := false
	b := make([]byte, 4)
	for i := range w * h {
		at := chip.Core{X: i % w, Y: i / w}
		xy, err := e.Chip.Physical(at)
		if err != nil || !read(xy, chip.BRISC, index, b) {
			continue
		}
		n := uint32(b[0])
		if divided = divided || n != 0; n == e.Index {
			workers = append(workers, at)
		}
	}
	if divided {
		t.SubDevice, t.Workers = e.Index+1, workers
	}
}

// Err returns the first error of writing the file.
func (r *PerfRecorder) Err() error {
	if r.err != nil {
		return fmt.Errorf("ttnn: record times: %w", r.err)
	}
	return nil
}

// perfReport writes the report from what the recorder and the observer wrote.
//
//go:embed observer/perf.py
var perfReport string

// WritePerf writes a performance report of a run with Settings.Perf and Calls into a folder. The
// error is that of the folder or a file, or says that the program has opened no device.
func (r *Run) WritePerf(ctx context.Context, dir string) error {
	spec, err := r.Settings.Spec()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, r.Installation.Python, "-c", perfReport, spec.Arch.String(), r.Settings.Perf, r.Calls, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ttnn: times of operations: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
