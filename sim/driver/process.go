package driver

import (
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/reprise-tt/reprise/internal/seam"
)

// Process is a process of the modelled machine beside this one: it has files of its own, it can get signals, and it
// can be killed. Its memory is this process's.
type Process struct {
	drv  *Driver
	pid  int
	name string
	dead atomic.Bool
	// signals counts what interrupts the process's waits.
	signals atomic.Int64
}

// NewProcess starts a process with a number and the name that ps shows.
func (d *Driver) NewProcess(pid int, name string) *Process {
	p := &Process{drv: d, pid: pid, name: name}
	d.mu.Lock()
	d.procs = append(d.procs, p)
	d.mu.Unlock()
	return p
}

// Node returns the node of device i as this process opens it.
func (p *Process) Node(i int) seam.Node { return processNode{p, p.drv.list()[i]} }

type processNode struct {
	p   *Process
	dev *device
}

// Open opens the node.
func (n processNode) Open(flags int) (seam.File, error) {
	if n.p.dead.Load() {
		return nil, syscall.ESRCH
	}
	return opened(n.dev.open(n.p, flags))
}

// String names the node.
func (n processNode) String() string { return fmt.Sprintf("%s of process %d", n.dev.name, n.p.pid) }

// Signal interrupts the process's waits in open and LOCK_CTL by a signal whose handler was installed without
// SA_RESTART: they return EINTR.
func (p *Process) Signal() {
	p.signals.Add(1)
	for _, d := range p.drv.all() {
		d.mu.Lock()
		d.wake.Broadcast()
		d.mu.Unlock()
	}
}

// Kill ends the process as kill -9 does: its waits end, its mappings go, its files are closed, and with the last
// reference the driver cleans up after it.
func (p *Process) Kill() error {
	p.dead.Store(true)
	p.Signal()
	for _, d := range p.drv.all() {
		for {
			f := d.fileOf(p)
			if f == nil {
				break
			}
			if err := d.release(f); err != nil {
				return err
			}
		}
	}
	p.drv.mu.Lock()
	defer p.drv.mu.Unlock()
	p.drv.procs = slices.DeleteFunc(p.drv.procs, func(o *Process) bool { return o == p })
	return nil
}

// fileOf takes a file of a process out of its hands.
func (d *device) fileOf(p *Process) *file {
	d.mu.Lock()
	defer d.mu.Unlock()
	for f := range d.files {
		if f.proc != p || f.killed {
			continue
		}
		for m := range f.maps {
			m.zapped.Store(true)
		}
		clear(f.maps)
		for id := range f.tlbs {
			f.tlbs[id] = 0
		}
		f.killed = true
		f.refs = 0
		return f
	}
	return nil
}

// all returns every device that has a node or is still open.
func (d *Driver) all() []*device {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append(slices.Clone(d.devices), d.gone...)
}
