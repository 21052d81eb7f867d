package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
)

// job is one thing to measure.
type job struct {
	name   string
	params []Param
	// op does it n times.
	op func(ctx context.Context, n int) error
	// sample does it once and returns what it took, in nanoseconds, where that isn't the time that a call takes. It is
	// instead of op.
	sample func(ctx context.Context) (ns float64, err error)
	// submit and finish are the halves of op where it is waited for; nil for others.
	submit func(ctx context.Context, n int) error
	finish func(context.Context) error
	// per is the number of operations in a sample, burst the number of samples in a round.
	per, burst int
	// settle brings the device to rest, between rounds and outside the time; nil if nothing is left over.
	settle func(context.Context) error
	// against are measured in every round as well.
	against []*baseline

	bytes, commands float64 // of one operation; 0 if unknown
	allocs          bool    // count allocations of op
	peers           []Peer
	unit            string // what the figure's rate counts; "" for no rate
}

// runner measures jobs.
type runner struct {
	clock  clock
	rounds int
	warmup int
	// aiClock reads the chip's clock, if there is one that can be read.
	aiClock func(context.Context) (mhz float64, ok bool, err error)
}

// measure runs a job.
func (r *runner) measure(ctx context.Context, family string, j *job) (*Figure, error) {
	own := newSeries()
	bases := make([]*series, len(j.against))
	ratios := make([][]float64, len(j.against))
	for i := range bases {
		bases[i] = newSeries()
	}
	var clocks []float64
	for n := -r.warmup; n < r.rounds; n++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if n == 0 || n == r.rounds/2 {
			if err := r.readClock(ctx, &clocks); err != nil {
				return nil, err
			}
		}
		if err := r.round(ctx, j, own); err != nil {
			return nil, err
		}
		for i, b := range j.against {
			for range j.burst {
				start := ticks()
				b.op(b.per)
				bases[i].add(r.clock.ns(start, ticks()) / float64(b.per))
			}
		}
		if n < 0 {
			own.round = own.round[:0]
			for _, b := range bases {
				b.round = b.round[:0]
			}
			continue
		}
		own.end()
		last := len(own.rounds) - 1
		for i, b := range bases {
			b.end()
			if base := b.rounds[last]; base > 0 {
				ratios[i] = append(ratios[i], own.rounds[last]/base)
			}
		}
	}
	if err := r.readClock(ctx, &clocks); err != nil {
		return nil, err
	}
	f := &Figure{Family: family, Name: j.name, Params: j.params, PerSample: j.per, Peers: j.peers}
	own.figure(f)
	if len(clocks) > 1 {
		f.AIClock = &AIClock{Before: clocks[0], During: clocks[len(clocks)/2], After: clocks[len(clocks)-1]}
	}
	for i, b := range j.against {
		base := Figure{}
		bases[i].figure(&base)
		if len(ratios[i]) > 0 {
			f.Ratios = append(f.Ratios, Ratio{To: b.name, Ns: base.P50, Value: median(ratios[i])})
		}
	}
	if j.unit != "" && f.P50 > 0 {
		f.Rate = &Rate{Of: j.unit, PerSecond: 1e9 / f.P50}
	}
	f.Bytes, f.Commands = known(j.bytes), known(j.commands)
	if j.allocs {
		n, err := allocations(ctx, j)
		if err != nil {
			return nil, err
		}
		f.Allocs = &n
	}
	return f, nil
}

// readClock adds a reading of the chip's clock, if it can be read.
func (r *runner) readClock(ctx context.Context, to *[]float64) error {
	if r.aiClock == nil {
		return nil
	}
	mhz, ok, err := r.aiClock(ctx)
	if err != nil {
		return fmt.Errorf("read the chip's clock: %w", err)
	}
	if ok {
		*to = append(*to, mhz)
	}
	return nil
}

// known returns nil for 0, which means that a quantity is unknown.
func known(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}

// round takes a burst of samples.
func (r *runner) round(ctx context.Context, j *job, s *series) error {
	for range j.burst {
		if j.sample != nil {
			ns, err := j.sample(ctx)
			if err != nil {
				return err
			}
			s.add(ns)
			continue
		}
		start := ticks()
		err := j.op(ctx, j.per)
		end := ticks()
		if err != nil {
			return err
		}
		s.add(r.clock.ns(start, end) / float64(j.per))
	}
	if j.settle != nil {
		return j.settle(ctx)
	}
	return nil
}

// allocations returns how often the operation allocates on the heap. The counter is the whole process's, and an
// emulated device, which runs in it, may allocate while work is under way. So each round is one operation on a device
// at rest, on one processor, and the fewest of all rounds counts: what an operation does every time is in every round.
func allocations(ctx context.Context, j *job) (float64, error) {
	const rounds = 32
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fewest := math.Inf(1)
	for i := 0; i < rounds && fewest > 0; i++ {
		if j.settle != nil {
			if err := j.settle(ctx); err != nil {
				return 0, err
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := j.op(ctx, 1)
		runtime.ReadMemStats(&after)
		if err != nil {
			return 0, err
		}
		fewest = min(fewest, float64(after.Mallocs-before.Mallocs))
	}
	if j.settle != nil {
		return fewest, j.settle(ctx)
	}
	return fewest, nil
}
