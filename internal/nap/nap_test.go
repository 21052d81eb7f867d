package nap

import (
	"sync"
	"testing"
	"time"
)

func TestSleepIsLongEnough(t *testing.T) {
	var s Sleeper
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for _, d := range []time.Duration{-1, 0, 1, 20 * time.Microsecond, time.Duration(i) * 100 * time.Microsecond,
				3 * time.Millisecond} {
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
