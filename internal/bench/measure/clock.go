package measure

import (
	"slices"
	"time"
)

// Clock turns ticks of the processor's counter into nanoseconds.
type Clock struct {
	NsPerTick float64
	Overhead  int64 // ticks between two readings with nothing in between, the median
}

// Calibrate measures the counter against the system's monotonic clock for about that long.
func Calibrate(d time.Duration) Clock {
	t0, c0 := time.Now(), Ticks()
	gaps := make([]int64, 0, 1024)
	for time.Since(t0) < d {
		a := Ticks()
		b := Ticks()
		if len(gaps) < cap(gaps) {
			gaps = append(gaps, b-a)
		}
	}
	t1, c1 := time.Now(), Ticks()
	c := Clock{NsPerTick: 1}
	if c1 > c0 {
		c.NsPerTick = float64(t1.Sub(t0)) / float64(c1-c0)
	}
	slices.Sort(gaps)
	c.Overhead = gaps[len(gaps)/2]
	return c
}

// Ns is the time between two readings, less the cost of reading.
func (c Clock) Ns(start, end int64) float64 {
	return float64(max(0, end-start-c.Overhead)) * c.NsPerTick
}
