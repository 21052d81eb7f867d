// Package workers has a pool of goroutines for jobs done in parallel many times a second.
package workers

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is goroutines that do jobs beside Run's caller, started once there are jobs for two.
type Pool struct {
	wake  chan struct{} // nil until then
	size  int
	group sync.WaitGroup

	do   func(job int)
	jobs int
	next atomic.Int32 // of jobs

	open   atomic.Bool  // goroutines may still begin
	active atomic.Int32 // goroutines that have begun, or look whether they may
	polls  atomic.Int32 // goroutines that poll for jobs
	mu     sync.Mutex
	idle   sync.Cond // of mu: active became 0
}

// Run does jobs 0 to jobs-1 on at most n goroutines.
func (w *Pool) Run(n, jobs int, do func(job int)) {
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
	for range n - 1 - int(w.polls.Load()) {
		select {
		case w.wake <- struct{}{}:
		default: // a goroutine that has not woken yet takes this one's place
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

// Waking a goroutine may take as long as the next jobs. So goroutines poll before they sleep, for
// the time that their last jobs took, and let others run every pollsAtOnce polls.
const (
	mostPolling = 300 * time.Microsecond
	pollsAtOnce = 500

	jobPolls = 3000 // for the end of others' jobs
)

func (w *Pool) hire(n int) {
	if w.wake == nil {
		w.wake = make(chan struct{}, max(n, runtime.GOMAXPROCS(0)))
		w.idle.L = &w.mu
	}
	for ; w.size < n; w.size++ {
		w.group.Add(1)
		go w.helper()
	}
}

func (w *Pool) helper() {
	defer w.group.Done()
	for worked := time.Duration(0); w.await(worked); {
		begun := time.Now()
		w.active.Add(1)
		if w.open.Load() { // else others were quicker
			w.work()
		}
		if w.active.Add(-1) == 0 {
			w.mu.Lock()
			w.idle.Signal()
			w.mu.Unlock()
		}
		worked = time.Since(begun)
	}
}

// await waits until there may be jobs, false if there will be none.
func (w *Pool) await(poll time.Duration) bool {
	w.polls.Add(1)
	for end := time.Now().Add(min(poll, mostPolling)); time.Now().Before(end); runtime.Gosched() {
		for range pollsAtOnce {
			if w.open.Load() {
				w.polls.Add(-1)
				return true
			}
		}
	}
	w.polls.Add(-1)
	_, ok := <-w.wake
	return ok
}

func (w *Pool) work() {
	for {
		i := int(w.next.Add(1)) - 1
		if i >= w.jobs {
			w.open.Store(false)
			return
		}
		w.do(i)
	}
}

// Close ends the goroutines.
func (w *Pool) Close() {
	if w.wake != nil {
		close(w.wake)
		w.group.Wait()
		w.wake, w.size = nil, 0
	}
}

// Size is how many goroutines there are.
func (w *Pool) Size() int { return w.size }
