package report

import (
	"fmt"
)

// AIClock is the clock of the chip's tiles in MHz, before, in the middle of and after the rounds of a figure.
type AIClock struct {
	Before float64 `json:"before"`
	During float64 `json:"during"`
	After  float64 `json:"after"`
}

// clockTolerance is the most by which the clock may move: the firmware's own readings jitter by less.
const clockTolerance = 0.005

// Moved reports whether the clock changed by more than its readings jitter.
func (c *AIClock) Moved() bool {
	low, high := min(c.Before, c.During, c.After), max(c.Before, c.During, c.After)
	return high-low > clockTolerance*high
}

// Refusal is a figure that was measured and is not in the report, because the chip's clock moved.
type Refusal struct {
	Figure string `json:"figure"`
	// AIClocks are the readings of each attempt.
	AIClocks []*AIClock `json:"aiclk_mhz"`
}

func (r *Refusal) String() string {
	s := r.Figure + ": not reported, since the clock of the chip moved while it was measured:"
	for _, c := range r.AIClocks {
		s += fmt.Sprintf(" %g, %g, %g MHz;", c.Before, c.During, c.After)
	}
	return s[:len(s)-1]
}
