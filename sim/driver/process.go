package driver

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/reprise-tt/reprise/internal/seam"
)

// Process is a process of the modelled machine beside this one: it has files of its own, it can get
// signals, and it can be killed. Its memory is this process's.
type Process struct {
	drv  *Driver
	pid  int
	name string
	dead atomic.Bool
	// signals counts what interrupts the process's waits.
	signals atomic.Int64

	mu    sync.Mutex
	taken map[int]struct{} // descriptors of the process's files
}

// descriptor takes the lowest free one, as open(2) does.
func (p *Process) descriptor() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken == nil {
		p.taken = map[int]struct{}{}
	}
	fd := 0
	for ; ; fd++ {
		if _, is := p.taken[fd]; !is {
			break
		}
	}
	p.taken[fd] = struct{}{}
	return fd
}

// giveBack frees a descriptor.
func (p *Process) giveBack(fd int) {
	p.mu.Lock()
	delete(p.taken, fd)
	p.mu.Unlock()
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

// Signal interrupts the process's waits in open and LOCK_CTL by a signal whose handler was
// installed without SA_RESTART: they return EINTR.
func (p *Process) Signal() {
	p.signals.Add(1)
	for _, d := range p.drv.all() {
		d.mu.Lock()
		d.wake.Broadcast()
		d.mu.Unlock()
	}
}

// Kill ends the process as kill -9 does: its waits end, its mappings go, its files are released,
// and after each the driver cleans up. The order is Linux's: mappings before descriptors (do_exit
// calls exit_mm before exit_files), of the descriptors the highest first, because exit_files closes
// them upwards and the work that it leaves for the end of the task is done last in, first out
// (kernel/task_work.c, since Linux 4.3). A file that was asked to be released last comes after all
// others, and one with a request under way when that has ended.
func (p *Process) Kill() error {
	p.dead.Store(true)
	p.Signal()
	var errs []error
	for {
		files := p.take()
		if len(files) == 0 {
			break
		}
		slices.SortStableFunc(files, func(a, b *file) int {
			return cmp.Or(cmp.Compare(a.exitRank(), b.exitRank()), cmp.Compare(b.fd, a.fd))
		})
		for _, f := range files {
			errs = append(errs, f.dev.release(f)) // the others go all the same
		}
	}
	p.drv.mu.Lock()
	defer p.drv.mu.Unlock()
	p.drv.procs = slices.DeleteFunc(p.drv.procs, func(o *Process) bool { return o == p })
	return errors.Join(errs...)
}

// take takes the process's files out of its hands, and returns those to release. A request that is
// under way releases its file when it ends.
func (p *Process) take() (files []*file) {
	for _, d := range p.drv.all() {
		d.mu.Lock()
		for f := range d.files {
			if f.proc != p || f.killed || f.refs == 0 {
				continue // another's, or on its way
			}
			for m := range f.maps {
				m.zap()
			}
			clear(f.maps)
			for id := range f.tlbs {
				f.tlbs[id] = 0
			}
			f.killed = true
			f.refs = 0
			if f.overLocked() {
				files = append(files, f)
			}
		}
		d.mu.Unlock()
	}
	return files
}

// all returns every device that has a node or is still open.
func (d *Driver) all() []*device {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append(slices.Clone(d.devices), d.gone...)
}
