package dispatch

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// BenchmarkWakeBesideSleepers is how long a goroutine that has work waits for a place to run in, while as many others as there are
// places sleep as waits do. Each nap is begun right behind the wake-up, as by a wait that has looked at an emulated device.
func BenchmarkWakeBesideSleepers(b *testing.B) {
	wake, stop := make(chan time.Time, 1), make(chan struct{})
	var waits sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		waits.Go(func() {
			for {
				select {
				case <-stop:
					return
				case wake <- time.Now():
				default:
				}
				shortSleep(time.Millisecond)
			}
		})
	}
	var late time.Duration
	for b.Loop() {
		late += time.Since(<-wake)
	}
	close(stop)
	waits.Wait()
	b.ReportMetric(float64(late)/float64(b.N), "ns-late/wake")
}
