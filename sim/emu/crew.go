package emu

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/reprise-tt/reprise/sim/emu/tensix"
)

// workerPool is a pool of goroutines that do jobs of different tiles beside the goroutine that runs
// the chip. It starts them when there is first enough to do for two.
type workerPool struct {
	wake  chan struct{} // nil until then
	size  int
	group sync.WaitGroup

	do   func(job int)
	jobs int
	next atomic.Int32 // of jobs

	open   atomic.Bool  // goroutines may still begin
	active atomic.Int32 // goroutines that have begun, or look whether they may
	mu     sync.Mutex
	idle   sync.Cond // of mu: active became 0
}

// minShared is the least weight of what cores gave to engines for which waking another goroutine
// pays: some 20 µs.
const minShared = 200

// runEngines runs the engines to which cores have given something. All have ended when it returns,
// and cores are told in the order in which they first gave something.
func (s *sched) runEngines() {
	s.turns = 0
	list := s.waitingEngines
	if len(list) == 0 {
		return
	}
	for rest := list; len(rest) > 0 && s.chip.fault == nil; rest = s.suspendedEngines(rest) {
		n := 1
		if heavy(rest) {
			n = s.workers()
		}
		s.crew.run(n, len(rest), func(i int) { rest[i].run() })
	}
	for _, e := range list {
		e.listed = false
		if s.chip.fault == nil {
			e.tile.engineRan(origin{tile: e.tile})
		}
	}
	clear(list)
	s.waitingEngines = list[:0]
}

// suspendedEngines lets each engine of a list that is suspended do the instruction that reaches
// registers, in their order. It returns those that were.
func (s *sched) suspendedEngines(list []*engines) []*engines {
	var out []*engines
	for _, e := range list {
		if !e.Suspended() {
			continue
		}
		e.Resume()
		e.direct, e.from = true, origin{tile: e.tile}
		e.ran = e.Step() > 0 || e.ran
		e.direct = false
		out = append(out, e)
	}
	return out
}

// workers is on how many goroutines jobs of different tiles are done.
func (s *sched) workers() int {
	if n := s.chip.cfg.Workers; n != 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}

// run does jobs 0 to jobs-1 on at most n goroutines.
func (w *workerPool) run(n, jobs int, do func(job int)) {
	if n = min(n, jobs); n <= 1 {
		for i := range jobs {
			do(i)
		}
		return
	}
	w.hire(n - 1)
	w.do, w.jobs = do, jobs
	w.next.Store(0)
	w.open.Store(true)
	for range n - 1 {
		select {
		case w.wake <- struct{}{}:
		default: // a goroutine that has not woken since the last time takes this one's place
		}
	}
	w.work()
	w.open.Store(false)
	for polls := 0; w.active.Load() > 0; polls++ {
		if polls < jobPolls {
			runtime.Gosched()
			continue
		}
		w.mu.Lock()
		for w.active.Load() > 0 {
			w.idle.Wait()
		}
		w.mu.Unlock()
	}
	w.do = nil
}

// jobPolls is how often goroutines look for others' end, or for further jobs, before they sleep:
// some 0.3 ms. The next jobs often come sooner, and waking one that sleeps may take as long as they
// do: some kernels of virtual machines have it wait for the processor of the one that woke it.
const jobPolls = 3000

// heavy reports whether what was given to engines is worth waking another goroutine.
func heavy(list []*engines) bool {
	weight := 0
	for _, e := range list {
		for _, op := range e.ops[e.done:] {
			weight += op.weight()
		}
		if weight >= minShared {
			return true
		}
	}
	return false
}

// weight is the rough cost of an op in tenths of a microsecond.
func (op *engineOp) weight() int {
	switch {
	case op.kind != opPush:
		return 0
	case tensix.Expands(op.v):
		return 32
	}
	return 1
}

// hire makes sure that there are n goroutines.
func (w *workerPool) hire(n int) {
	if w.wake == nil {
		w.wake = make(chan struct{}, max(n, runtime.GOMAXPROCS(0)))
		w.idle.L = &w.mu
	}
	for ; w.size < n; w.size++ {
		w.group.Add(1)
		go w.helper()
	}
}

// helper does jobs whenever there are any.
func (w *workerPool) helper() {
	defer w.group.Done()
	for w.await() {
		w.active.Add(1)
		if w.open.Load() { // else the others were quicker
			w.work()
		}
		if w.active.Add(-1) == 0 {
			w.mu.Lock()
			w.idle.Signal()
			w.mu.Unlock()
		}
	}
}

// await waits until there may be jobs, and returns false when there will be none.
func (w *workerPool) await() bool {
	for range jobPolls {
		if w.open.Load() {
			return true
		}
		runtime.Gosched()
	}
	_, ok := <-w.wake
	return ok
}

// work does jobs until all are taken.
func (w *workerPool) work() {
	for {
		i := int(w.next.Add(1)) - 1
		if i >= w.jobs {
			w.open.Store(false)
			return
		}
		w.do(i)
	}
}

// close ends the goroutines.
func (w *workerPool) close() {
	if w.wake != nil {
		close(w.wake)
		w.group.Wait()
		w.wake, w.size = nil, 0
	}
}
