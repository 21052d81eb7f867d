package bench

import (
	"slices"
	"time"
)

// clock turns ticks of the processor's counter into nanoseconds.
type clock struct {
	nsPerTick float64
	overhead  int64 // ticks between two readings with nothing in between, the median
}

// calibrate measures the counter against the system's monotonic clock for about that long.
func calibrate(d time.Duration) clock {
	t0, c0 := time.Now(), ticks()
	gaps := make([]int64, 0, 1024)
	for time.Since(t0) < d {
		a := ticks()
		b := ticks()
		if len(gaps) < cap(gaps) {
			gaps = append(gaps, b-a)
		}
	}
	t1, c1 := time.Now(), ticks()
	c := clock{nsPerTick: 1}
	if c1 > c0 {
		c.nsPerTick = float64(t1.Sub(t0)) / float64(c1-c0)
	}
	slices.Sort(gaps)
	c.overhead = gaps[len(gaps)/2]
	return c
}

// ns is the time between two readings, less the cost of reading.
func (c clock) ns(start, end int64) float64 {
	return float64(max(0, end-start-c.overhead)) * c.nsPerTick
}
