package reprise_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
)

// Each program of a trace has a time on the device, one behind the other, and running them so does what a replay does. A
// program that does more takes longer.
func TestTimes(t *testing.T) {
	onAll(t, func(b *bench) {
		const n = 70 // more than the smallest completion queue holds reports
		trace, bufs := b.chain(n)
		before := b.allocated()
		b.write(bufs[0], 10)
		times, err := trace.Times(b.ctx)
		b.must(err)
		b.holds(bufs[n%2], 10+n)
		if len(times) != n {
			b.Fatalf("%d times of %d programs", len(times), n)
		}
		for i, s := range times {
			if s.Start >= s.End || i > 0 && s.Start != times[i-1].End || s.Name != []string{"to odd", "to even"}[i%2] || s.Queue != 0 {
				b.Errorf("program %d: %+v behind %+v", i, s, times[max(i-1, 0)])
			}
		}
		if diff := cmp.Diff(before, b.allocated()); diff != "" {
			b.Errorf("something is left (-before +after):\n%s", diff)
		}
		b.write(bufs[0], 20)
		b.must(trace.Replay(b.ctx))
		b.holds(bufs[n%2], 20+n)
		b.must(trace.Release(b.ctx))
		if times, err := trace.Times(b.ctx); !errors.Is(err, reprise.ErrReleased) || times != nil {
			b.Errorf("after the release: %v", err)
		}
	})
}
