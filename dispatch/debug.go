package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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
func (g *Debug) PrintEpoch() uint64 {
	p := g.d.printing
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

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

type printing struct {
	mu       sync.Mutex
	known    map[string]int   // how often they are held
	list     []*print.Program // of known, in order
	version  uint64           // of list
	watching map[*func()]struct{}
	epoch    uint64      // odd while the rings are being emptied
	any      atomic.Bool // list isn't empty
}

func newPrinting() *printing {
	return &printing{known: map[string]int{}, watching: map[*func()]struct{}{}, version: 1}
}

func printedKey(p *print.Program) string { return fmt.Sprint(p.ID, p.Cores) }

func (p *printing) learn(programs []print.Program) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range programs {
		key := printedKey(&programs[i])
		holds, known := p.known[key]
		p.known[key] = holds + 1
		if known {
			continue
		}
		p.list = append(p.list[:len(p.list):len(p.list)], &programs[i])
		more = true
	}
	if more {
		p.version++
		p.any.Store(true)
	}
	return more
}

// last reports whether a program lost its last hold.
func (p *printing) last(programs []print.Program) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range programs {
		key := printedKey(&programs[i])
		if holds, known := p.known[key]; known {
			p.known[key] = holds - 1
			last = last || holds == 1
		}
	}
	return last
}

// forget removes programs without a hold.
func (p *printing) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(p.list), func(q *print.Program) bool {
		key := printedKey(q)
		gone := p.known[key] == 0
		if gone {
			delete(p.known, key)
		}
		return gone
	})
	if len(left) < len(p.list) {
		p.list = left
		p.version++
		p.any.Store(len(left) > 0)
	}
}

func (p *printing) all() []*print.Program {
	list, _ := p.since(0)
	return list
}

func (p *printing) since(version uint64) ([]*print.Program, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if version == p.version {
		return nil, version
	}
	return p.list, p.version
}

func (p *printing) watch(f func()) (cancel func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watching[&f] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watching, &f)
	}
}

func (p *printing) tell() {
	p.mu.Lock()
	var all []func()
	for f := range p.watching {
		all = append(all, *f)
	}
	p.mu.Unlock()
	for _, f := range all {
		f()
	}
}

func (p *printing) stopped() {
	p.tell()
	p.mu.Lock()
	p.epoch |= 1
	p.mu.Unlock()
	p.tell()
}

func (p *printing) started() {
	p.mu.Lock()
	p.epoch += p.epoch & 1
	p.mu.Unlock()
	p.tell()
}
