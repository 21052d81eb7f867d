package dispatch

import (
	"sync"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/nap"
)

// One goroutine at a time is inside, all get in, and what one has written the next one sees.
func TestSpinLockExcludes(t *testing.T) {
	g := spinLock{naps: new(nap.Sleeper)}
	var group sync.WaitGroup
	n, inside := 0, 0
	const goroutines, times = 8, 2000
	for i := range goroutines {
		group.Go(func() {
			for j := range times {
				if i%2 == 0 || !g.TryLock() {
					g.Lock()
				}
				inside++
				if inside != 1 {
					t.Errorf("%d are inside", inside)
				}
				n++
				if j%500 == 0 {
					time.Sleep(20 * time.Microsecond) // as with a ring that is full
				}
				inside--
				g.Unlock()
			}
		})
	}
	group.Wait()
	if n != goroutines*times {
		t.Errorf("%d times inside, want %d", n, goroutines*times)
	}
	if !g.TryLock() {
		t.Error("taken at the end")
	}
}

// A waiter gets in, although another one takes the spinLock again and again without a pause.
func TestSpinLockIsFair(t *testing.T) {
	g := spinLock{naps: new(nap.Sleeper)}
	done := make(chan struct{})
	var busy sync.WaitGroup
	for range 3 {
		busy.Go(func() {
			for {
				g.Lock()
				select {
				case <-done:
					g.Unlock()
					return
				default:
				}
				g.Unlock()
			}
		})
	}
	for n := 0; n < 100; {
		g.Lock()
		n++
		g.Unlock()
	}
	close(done)
	busy.Wait()
}

// A spinLock that is held for long keeps others waiting, and TryLock out.
func TestSpinLockHeldForLong(t *testing.T) {
	g := spinLock{naps: new(nap.Sleeper)}
	g.Lock()
	if g.TryLock() {
		t.Fatal("taken twice")
	}
	in := make(chan struct{})
	go func() {
		g.Lock()
		close(in)
	}()
	select {
	case <-in:
		t.Fatal("let in while it was held")
	case <-time.After(10 * time.Millisecond):
	}
	g.Unlock()
	<-in
}
