package dispatch

import (
	"errors"
	"fmt"
	"time"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/abi"
	"github.com/reprise-tt/reprise/kernels/watch"
)

// watchArea is the bytes of the records of failed checks, which are zero when a core starts.
func watchArea(l1 *abi.L1Map) int {
	if l1.Watch == 0 {
		return 0
	}
	return watch.AreaSize
}

// tiles is what kernels check NoC requests with.
func (d *Device) tiles(l1 *abi.L1Map) []byte {
	if l1.Tiles == 0 {
		return nil
	}
	return abi.Tiles(d.ch)
}

// Waits without progress poll for failed checks after watchFirst, then after twice as long each time, up to watchLatest.
const (
	watchFirst  = 2 * time.Millisecond
	watchLatest = 128 * time.Millisecond
)

// watchDue is when a wait polls for failed checks next.
type watchDue struct {
	next  time.Time
	after time.Duration
}

// due returns true each time when they are to be polled for.
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

// blameWatch names in the cause of a hang the first check that has failed, unless it is the cause.
func (d *Device) blameWatch(cause error) error {
	var f *watch.Failure
	if errors.As(cause, &f) {
		return cause
	}
	if fs, _ := d.Debug().Failures(); len(fs) > 0 {
		return fmt.Errorf("%w: %w", &fs[0], cause)
	}
	return cause
}

// watchLocked ends the wait if a check of a kernel on the queue's workers has failed. life.mu is held.
func (q *Queue) watchLocked(what string, locked bool) error {
	for _, c := range q.d.watchedCores(q.set.cores) {
		if fs, _ := q.d.failures(c); len(fs) > 0 { // a core that can't be read is found by polls of the whole device
			return q.fail(q.hangErrorLocked(what, &fs[0], locked))
		}
	}
	return nil
}

// watchedCores returns those of some cores on which kernels may report failed checks.
func (d *Device) watchedCores(of chip.Range) (out []chip.Core) {
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

// failures reads which checks have failed on a worker.
func (d *Device) failures(c chip.Core) ([]watch.Failure, error) {
	area := make([]byte, watch.AreaSize)
	if err := d.read(c, d.worker.L1.Watch, area); err != nil {
		return nil, fmt.Errorf("dispatch: read failed checks of %v: %w", c, err)
	}
	if !watch.Failed(area) {
		return nil, nil
	}
	return watch.Failures(c, area, d.printing.all()), nil
}

// Failures returns the checks that have failed on workers whose kernels were compiled with kernels.Source.Watch.
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

// dumpWatch keeps the checks that have failed.
func (d *Device) dumpWatch(dump *Dump) {
	if dump.Unreachable == "" {
		dump.Watch, _ = d.Debug().Failures() // cores that can't be read say so in their state
	}
}
