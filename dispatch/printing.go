package dispatch

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/debug/print"
	"github.com/reprise-tt/reprise/dispatch/abi"
)

// printing is what is known of kernels that print.
type printing struct {
	mu       sync.Mutex
	programs []*print.Program
	known    map[string]bool
	watching map[*func()]struct{}
	epoch    uint64      // odd while the rings are being emptied
	any      atomic.Bool // there are programs
}

// add makes programs known. One that is loaded again is known already. Listeners have made ready for them when it returns.
func (p *printing) add(programs ...*print.Program) {
	more := false
	for _, prog := range programs {
		more = p.learn(prog) || more
	}
	if more {
		p.tell()
	}
}

// learn makes a program known, and reports whether it wasn't.
func (p *printing) learn(prog *print.Program) bool {
	key := fmt.Sprint(prog.ID, prog.Cores)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[key] {
		return false
	}
	if p.known == nil {
		p.known = map[string]bool{}
	}
	p.known[key] = true
	p.programs = append(p.programs, prog)
	p.any.Store(true)
	return true
}

func (p *printing) list(from int) []*print.Program {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.programs[min(from, len(p.programs)):len(p.programs):len(p.programs)]
}

func (p *printing) watch(f func()) (cancel func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watching == nil {
		p.watching = map[*func()]struct{}{}
	}
	p.watching[&f] = struct{}{}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watching, &f)
	}
}

// tell calls what watch was given.
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

// stopped is called when the cores are held in reset, before their rings are emptied.
func (p *printing) stopped() {
	p.tell()
	p.mu.Lock()
	p.epoch |= 1
	p.mu.Unlock()
	p.tell() // returns when what was begun before is done
}

// started is called when the rings are empty, before the cores start.
func (p *printing) started() {
	p.mu.Lock()
	p.epoch += p.epoch & 1
	p.mu.Unlock()
	p.tell()
}

func (p *printing) current() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

// AddPrinting makes programs known that the device was given as commands, by a trace file.
func (d *Device) AddPrinting(programs []print.Program) {
	var all []*print.Program
	for i := range programs {
		all = append(all, &programs[i])
	}
	d.printing.add(all...)
}

// findPrints finds out which groups have kernels that print, and makes them known.
func (d *Device) findPrints(p *Program, groups []*group) {
	if d.worker.L1.Print == 0 {
		return
	}
	var all []*print.Program
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
		all = append(all, prog)
	}
	d.printing.add(all...)
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
