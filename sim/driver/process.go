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

// Process is another process, with its own files and this one's memory.
type Process struct {
	drv     *Driver
	pid     int
	name    string
	dead    atomic.Bool
	signals atomic.Int64 // interruptions of its waits

	mu    sync.Mutex
	taken map[int]struct{} // descriptors in use
}

func (p *Process) descriptor() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken == nil {
		p.taken = map[int]struct{}{}
	}
	for fd := 0; ; fd++ {
		if _, is := p.taken[fd]; !is {
			p.taken[fd] = struct{}{}
			return fd
		}
	}
}

func (p *Process) giveBack(fd int) {
	p.mu.Lock()
	delete(p.taken, fd)
	p.mu.Unlock()
}

// NewProcess starts a process with a number and a name.
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

func (n processNode) Open(flags int) (seam.File, error) {
	if n.p.dead.Load() {
		return nil, syscall.ESRCH
	}
	return opened(n.dev.open(n.p, flags))
}

func (n processNode) String() string { return fmt.Sprintf("%s of process %d", n.dev.name, n.p.pid) }

// Signal makes the process's waits in open and LOCK_CTL return EINTR.
func (p *Process) Signal() {
	p.signals.Add(1)
	for _, d := range p.drv.all() {
		d.mu.Lock()
		d.wake.Broadcast()
		d.mu.Unlock()
	}
}

// Kill ends the process as kill -9, in Linux's order: mappings before descriptors (do_exit), and
// those highest first: exit_files closes upwards, and the deferred work runs last in, first out
// (kernel/task_work.c, since Linux 4.3). Files of ReleaseLast come last, and a file with a
// running request after it.
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

// A request in progress releases its file.
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

func (d *Driver) all() []*device {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append(slices.Clone(d.devices), d.gone...)
}
