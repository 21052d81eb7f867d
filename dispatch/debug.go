package dispatch

import (
	"errors"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/kernels/watch"
)

// Debug accesses a device beside its queues, for tools. Its methods may be called from any
// goroutine until the device is closed.
type Debug struct{ d *machine }

func (d *machine) Debug() *Debug { return &Debug{d} }

// Name returns the name of the target.
func (g *Debug) Name() string { return g.d.kd.String() }

// ReadL1 reads from the L1 of a worker.
func (g *Debug) ReadL1(worker chip.Core, addr uint32, p []byte) error {
	return g.d.report.Read(worker, addr, p)
}

// WriteL1 writes to the L1 of a worker.
func (g *Debug) WriteL1(worker chip.Core, addr uint32, p []byte) error {
	return g.d.write(worker, addr, p)
}

// PrintEpoch counts how often the print rings were emptied (reprise.Device.Recover); it is odd
// meanwhile.
func (g *Debug) PrintEpoch() uint64 { return g.d.printing.current() }

// EngineWait returns the oldest pending instruction of a thread of a worker's Tensix engines and
// the condition that holds it back, or "". Thread 0 unpacks, 1 computes, 2 packs. Only an emulated
// device can tell; others return [errors.ErrUnsupported].
func (g *Debug) EngineWait(worker chip.Core, thread int) (string, error) {
	xy, err := g.d.ch.Virtual(worker)
	if err != nil {
		return "", err
	}
	wait, known := g.d.kd.EngineWait(xy, thread)
	if !known {
		return "", fmt.Errorf("dispatch: what the engines of %v wait for: %w: %s doesn't tell, an emulated device does", worker,
			errors.ErrUnsupported, g.Name())
	}
	return wait, nil
}

// PrintArea returns the L1 address that kernels print to; false with tt-metal's base firmware.
func (g *Debug) PrintArea() (addr uint32, ok bool) {
	l1 := &g.d.worker.L1
	return l1.Print, l1.PrintSize >= print.AreaSize
}

// Printing returns all programs with kernels that print, in the order in which they became known,
// and a version that changes with them; no programs if since is that version. A program is listed
// from before its first run until all its executables and traces are released.
func (g *Debug) Printing(since uint64) (programs []*print.Program, version uint64) {
	return g.d.printing.since(since)
}

// OnPrinting has f called before a new printing program can run, before one is forgotten, and
// before and after a restart empties the rings.
func (g *Debug) OnPrinting(f func()) (cancel func()) { return g.d.printing.watch(f) }

const (
	watchFirst  = 2 * time.Millisecond
	watchLatest = 128 * time.Millisecond
)

type watchDue struct {
	next  time.Time
	after time.Duration
}

func (d *watchDue) due() bool {
	now := time.Now()
	if now.Before(d.next) {
		return false
	}
	d.after = min(max(2*d.after, watchFirst), watchLatest)
	first := d.next.IsZero()
	d.next = now.Add(d.after)
	return !first
}

func (d *machine) watchedCores(of chip.Range) (out []chip.Core) {
	if d.worker.L1.Watch == 0 {
		return nil
	}
	seen := map[chip.Core]bool{}
	for _, p := range d.printing.all() {
		for _, r := range p.Cores {
			for c := range r.Cores() {
				if of.Contains(c) && !seen[c] {
					seen[c] = true
					out = append(out, c)
				}
			}
		}
	}
	return out
}

func (d *machine) failures(c chip.Core) ([]watch.Failure, error) {
	area := make([]byte, watch.AreaSize)
	if err := d.report.Read(c, d.worker.L1.Watch, area); err != nil {
		return nil, fmt.Errorf("dispatch: read failed checks of %v: %w", c, err)
	}
	if !watch.Failed(area) {
		return nil, nil
	}
	return watch.Failures(c, area, d.printing.all()), nil
}

// Failures returns the checks that have failed on workers whose kernels were compiled with
// kernels.Source.Watch.
func (g *Debug) Failures() ([]watch.Failure, error) {
	var out []watch.Failure
	for _, c := range g.d.watchedCores(g.d.grid) {
		fs, err := g.d.failures(c)
		if err != nil {
			return nil, err
		}
		out = append(out, fs...)
	}
	return out, nil
}
