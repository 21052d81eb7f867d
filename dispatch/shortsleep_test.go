package dispatch

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// BenchmarkWakeBesideSleepers is how long a goroutine that has work waits for a place to run in, while as many others as there are
// places sleep as waits do. Each sleep begins right after the wake-up, as in a wait that has polled an emulated device.
func BenchmarkWakeBesideSleepers(b *testing.B) {
	wake, stop := make(chan time.Time, 1), make(chan struct{})
	var waits sync.WaitGroup
	var sleepers Sleepers
	for range runtime.GOMAXPROCS(0) {
		waits.Go(func() {
			for {
				select {
				case <-stop:
					return
				case wake <- time.Now():
				default:
				}
				sleepers.sleep(time.Millisecond)
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
