package dispatch

import (
	"fmt"
	"sync"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/debug/print"
	"github.com/reprise-tt/reprise/dispatch/abi"
)

// printing is what is known of kernels that print.
type printing struct {
	mu       sync.Mutex
	programs []*print.Program
	known    map[string]bool
	more     chan struct{} // closed when there is another program
	stops    map[*func()]struct{}
}

// add makes a program known. One that is loaded again is known already.
func (p *printing) add(prog *print.Program) {
	key := fmt.Sprint(prog.ID, prog.Cores)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[key] {
		return
	}
	if p.known == nil {
		p.known = map[string]bool{}
	}
	p.known[key] = true
	p.programs = append(p.programs, prog)
	if p.more != nil {
		close(p.more)
		p.more = nil
	}
}

func (p *printing) list(from int) ([]*print.Program, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.more == nil {
		p.more = make(chan struct{})
	}
	return p.programs[min(from, len(p.programs)):len(p.programs):len(p.programs)], p.more
}

func (p *printing) onStop(f func()) (cancel func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stops == nil {
		p.stops = map[*func()]struct{}{}
	}
	p.stops[&f] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.stops, &f)
	}
}

// stopped calls what onStop was given.
func (p *printing) stopped() {
	p.mu.Lock()
	var all []func()
	for f := range p.stops {
		all = append(all, *f)
	}
	p.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// AddPrinting makes programs known that the device was given as commands, by a trace file.
func (d *Device) AddPrinting(programs []print.Program) {
	for i := range programs {
		d.printing.add(&programs[i])
	}
}

// findPrints finds out which groups have kernels that print, and makes them known.
func (d *Device) findPrints(p *Program, groups []*group) {
	if d.worker.L1.Print == 0 {
		return
	}
	for _, g := range groups {
		prog := &print.Program{Name: p.Name}
		for _, k := range g.kernels {
			if k != nil && len(k.Formats) > 0 {
				prog.Kernels = append(prog.Kernels, print.Kernel{Name: k.Name, Processor: k.Processor, Formats: k.Formats})
			}
		}
		if prog.Kernels == nil {
			continue
		}
		prog.Cores = coverCores(g.cores)
		prog.Identify()
		g.prints = prog
		d.printing.add(prog)
	}
}

// printHeaders is the bytes of the headers of the rings that kernels print to, which are zero when a core starts.
func printHeaders(l1 *abi.L1Map) int {
	if l1.Print == 0 {
		return 0
	}
	return print.HeadersSize
}

// mostPrinters is of how many busy workers a dump has what they have printed.
const mostPrinters = 16

// dumpPrints keeps what is left in the rings of busy workers.
func (d *Device) dumpPrints(dump *Dump) {
	var busy []chip.Core
	for i := range dump.Cores {
		if c := &dump.Cores[i]; c.Kind == kindWorker && c.Unreadable == "" && c.Busy() && len(busy) < mostPrinters {
			busy = append(busy, c.Core)
		}
	}
	if _, ok := d.Debug().PrintArea(); ok {
		dump.Prints = print.Left(d.Debug(), busy)
	}
}
