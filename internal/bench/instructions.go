package bench

import (
	"context"

	"github.com/reprise-tt/reprise"
)

// executed returns what the prefetcher, the dispatcher and its subordinate execute for each program of a long trace of a program,
// and for a replay of a trace of one, on a synchronous device, which is done when Replay returns. now tells what they have executed
// so far.
func (s *session) executed(ctx context.Context, x *reprise.Executable, now func() [3]uint64) (each, one [3]float64, err error) {
	// A whole number of rounds of launch messages, so that each kind of step is there in proportion.
	const short, long = 32, 64
	var n [3][3]float64
	for i, programs := range []int{1, short, long} {
		err := s.recorded(ctx, x, programs, func(t *reprise.Trace) error {
			var before [3]uint64
			for range 2 { // the second time all is warm
				if err := s.finish(ctx); err != nil {
					return err
				}
				before = now()
				if err := t.Replay(ctx); err != nil {
					return err
				}
			}
			for k, v := range now() {
				n[i][k] = float64(v - before[k])
			}
			return nil
		})
		if err != nil {
			return each, one, err
		}
	}
	for k := range each {
		each[k] = (n[2][k] - n[1][k]) / (long - short)
	}
	return each, n[0], nil
}
