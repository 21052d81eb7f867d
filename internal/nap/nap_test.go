package nap

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestSleepIsLongEnough(t *testing.T) {
	var s Sleeper
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for _, d := range []time.Duration{-1, 0, 1, 20 * time.Microsecond, time.Duration(i) * 100 * time.Microsecond, 3 * time.Millisecond} {
				begun := time.Now()
				s.Sleep(d)
				if took := time.Since(begun); took < d {
					t.Errorf("a sleep of %v took %v", d, took)
				}
			}
			if i == 4 {
				s.Close()
			}
		})
	}
	all.Wait()
	s.Close()
}

func TestSleepDoesNotAllocate(t *testing.T) {
	var s Sleeper
	defer s.Close()
	if n := testing.AllocsPerRun(20, func() { s.Sleep(10 * time.Microsecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLate(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		name        string
		late        []time.Duration // repeated
		least, most time.Duration
	}{
		{"always the same", []time.Duration{50 * us}, 49 * us, 51 * us},
		{"in time", []time.Duration{0}, 0, us},
		{"one in two", []time.Duration{20 * us, 80 * us}, 50 * us, 80 * us},
		{"one in eight", []time.Duration{20 * us, 20 * us, 20 * us, 20 * us, 20 * us, 20 * us, 20 * us, 80 * us}, 20 * us, 50 * us},
		{"early, which none is", []time.Duration{-500 * us, 30 * us}, 0, 30 * us},
	} {
		var s Sleeper
		for i := range 400 {
			s.slept(time.Millisecond, time.Millisecond+c.late[i%len(c.late)])
		}
		if got := s.Late(); got < c.least || got > c.most {
			t.Errorf("%s: %v, want %v to %v", c.name, got, c.least, c.most)
		}
	}
	var s Sleeper
	for range 100 {
		s.slept(us, 51*us)
	}
	s.slept(us, time.Hour)
	if got := s.Late(); got < 50*us || got > 75*us {
		t.Errorf("after an hour: %v, where sleeps were 50 µs late", got)
	}
}

func BenchmarkSleep(b *testing.B) {
	for _, d := range []time.Duration{20 * time.Microsecond, time.Millisecond} {
		b.Run(d.String(), func(b *testing.B) {
			var s Sleeper
			defer s.Close()
			benchmarkSleep(b, d, s.Sleep)
		})
		b.Run(d.String()+"/time", func(b *testing.B) { benchmarkSleep(b, d, time.Sleep) })
	}
}

func benchmarkSleep(b *testing.B, d time.Duration, sleep func(time.Duration)) {
	b.ReportAllocs()
	begun := time.Now()
	for b.Loop() {
		sleep(d)
	}
	b.ReportMetric(float64(time.Since(begun))/float64(b.N)-float64(d), "ns-late/sleep")
}

// BenchmarkWakeBesideSleepers is how long a goroutine waits for a processor while as many others as
// there are processors sleep as waits do.
func BenchmarkWakeBesideSleepers(b *testing.B) {
	wake, stop := make(chan time.Time, 1), make(chan struct{})
	var waits sync.WaitGroup
	var s Sleeper
	defer s.Close()
	for range runtime.GOMAXPROCS(0) {
		waits.Go(func() {
			for {
				select {
				case <-stop:
					return
				case wake <- time.Now():
				default:
				}
				s.Sleep(time.Millisecond)
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
