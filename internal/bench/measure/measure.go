// Package measure measures operations in rounds, each beside its baselines.
package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/reprise-tt/reprise/internal/bench/report"
)

// Clock converts ticks of the processor's counter to nanoseconds.
type Clock struct {
	NsPerTick float64
	Overhead  int64 // median ticks between two successive readings
}

// Calibrate takes about d.
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

// Ns returns the time between two readings, less the cost of reading.
func (c Clock) Ns(start, end int64) float64 {
	return float64(max(0, end-start-c.Overhead)) * c.NsPerTick
}

// Baselines measures the baselines alone.
func (r *Runner) Baselines(ctx context.Context) (out []*report.Figure, err error) {
	for _, b := range allBaselines() {
		f, err := r.Measure(ctx, "baseline", &Job{Name: b.name, PerSample: b.per, Burst: 64, Do: func(n int) error {
			b.op(n)
			return nil
		}})
		if err != nil {
			return nil, fmt.Errorf("bench: baseline %s: %w", b.name, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// Job is a measured operation.
type Job struct {
	Name   string
	Params []report.Param
	// Op is the operation, which takes at least a microsecond.
	Op func() error
	// Do replaces Op: it runs the operation n times.
	Do func(n int) error
	// Sample replaces Op: it runs the operation once and returns its time in ns.
	Sample func() (ns float64, err error)
	// Submit and Finish replace Op: they are the halves of an awaited operation.
	Submit, Finish func() error
	// PerSample are operations in a sample, Burst samples in a round; 0 means 1.
	PerSample, Burst int
	// Settle brings the device to rest between rounds, unmeasured.
	Settle  func() error
	Against []*Baseline
	Copy    bool // against a copy of Bytes too

	Bytes, Commands float64 // of one operation; 0 if unknown
	Allocs          bool
	Peers           []report.Peer
	Unit            string // what the figure's rate counts; "" for no rate
}

func (j *Job) settle() error {
	if j.Settle == nil {
		return nil
	}
	return j.Settle()
}

func (j *Job) do(n int) error {
	if j.Do != nil {
		return j.Do(n)
	}
	op := j.Op
	if op == nil {
		op = func() error { return errors.Join(j.Submit(), j.Finish()) }
	}
	for range n {
		if err := op(); err != nil {
			return err
		}
	}
	return nil
}

// Runner measures jobs.
type Runner struct {
	Clock  Clock
	Rounds int
	Warmup int
	// AIClock reads the chip's clock; ok is false if the clock can't be read.
	AIClock func() (mhz float64, ok bool, err error)
}

// Measure runs a job.
func (r *Runner) Measure(ctx context.Context, family string, j *Job) (*report.Figure, error) {
	j.PerSample, j.Burst = cmp.Or(j.PerSample, 1), cmp.Or(j.Burst, 1)
	against := j.Against
	if j.Copy {
		n := int(j.Bytes)
		same := Memcpy(report.MemcpySame, n, make([]byte, max(12<<20, min(4*n, n+12<<20))))
		same.per = j.PerSample
		against = append([]*Baseline{same}, against...)
	}
	own := NewSeries()
	bases := make([]*Series, len(against))
	ratios := make([][]float64, len(against))
	for i := range bases {
		bases[i] = NewSeries()
	}
	var clocks []float64
	for n := -r.Warmup; n < r.Rounds; n++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if n == 0 || n == r.Rounds/2 {
			if err := r.readClock(&clocks); err != nil {
				return nil, err
			}
		}
		if err := r.round(j, own); err != nil {
			return nil, err
		}
		for i, b := range against {
			for range j.Burst {
				start := Ticks()
				b.op(b.per)
				bases[i].Add(r.Clock.Ns(start, Ticks()) / float64(b.per))
			}
		}
		if n < 0 {
			own.round = own.round[:0]
			for _, b := range bases {
				b.round = b.round[:0]
			}
			continue
		}
		own.End()
		last := len(own.Rounds) - 1
		for i, b := range bases {
			b.End()
			if base := b.Rounds[last]; base > 0 {
				ratios[i] = append(ratios[i], own.Rounds[last]/base)
			}
		}
	}
	if err := r.readClock(&clocks); err != nil {
		return nil, err
	}
	f := &report.Figure{Family: family, Name: j.Name, Params: j.Params, PerSample: j.PerSample, Peers: j.Peers}
	own.Fill(f)
	if len(clocks) > 1 {
		f.AIClock = &report.AIClock{Before: clocks[0], During: clocks[len(clocks)/2], After: clocks[len(clocks)-1]}
	}
	for i, b := range against {
		base := report.Figure{}
		bases[i].Fill(&base)
		if len(ratios[i]) > 0 {
			f.Ratios = append(f.Ratios, report.Ratio{To: b.name, Ns: base.P50, Value: report.Median(ratios[i])})
		}
	}
	if j.Unit != "" && f.P50 > 0 {
		f.Rate = &report.Rate{Of: j.Unit, PerSecond: 1e9 / f.P50}
	}
	f.Bytes, f.Commands = known(j.Bytes), known(j.Commands)
	if j.Allocs {
		n, err := Allocations(32, j.settle, func() error { return j.do(1) })
		if err := errors.Join(err, j.settle()); err != nil {
			return nil, err
		}
		f.Allocs = new(float64(n))
	}
	return f, nil
}

func (r *Runner) readClock(to *[]float64) error {
	if r.AIClock == nil {
		return nil
	}
	mhz, ok, err := r.AIClock()
	if err != nil {
		return fmt.Errorf("read the chip's clock: %w", err)
	}
	if ok {
		*to = append(*to, mhz)
	}
	return nil
}

func known(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}

func (r *Runner) round(j *Job, s *Series) error {
	for range j.Burst {
		if j.Sample != nil {
			ns, err := j.Sample()
			if err != nil {
				return err
			}
			s.Add(ns)
			continue
		}
		start := Ticks()
		err := j.do(j.PerSample)
		end := Ticks()
		if err != nil {
			return err
		}
		s.Add(r.Clock.Ns(start, end) / float64(j.PerSample))
	}
	return j.settle()
}

// Allocations returns the heap allocations of op. The counter is the process's, and an emulated
// device may allocate too: the least of several rounds after settle, on one processor, counts.
func Allocations(rounds int, settle, op func() error) (uint64, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fewest := uint64(math.MaxUint64)
	for i := 0; i < rounds && fewest > 0; i++ {
		if err := settle(); err != nil {
			return 0, err
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := op()
		runtime.ReadMemStats(&after)
		if err != nil {
			return 0, err
		}
		fewest = min(fewest, after.Mallocs-before.Mallocs)
	}
	return fewest, nil
}

// maxUnits is a hundred seconds, the histogram's longest time.
const maxUnits = 100e9 * report.UnitsPerNs

// Series collects the samples of one quantity.
type Series struct {
	hist   *hdrhistogram.Histogram
	round  []float64
	Rounds []float64
	min    float64
	max    float64
	sum    float64
}

// NewSeries returns an empty series.
func NewSeries() *Series {
	return &Series{hist: hdrhistogram.New(1, maxUnits, 3), min: math.Inf(1)}
}

// Add takes nanoseconds.
func (s *Series) Add(ns float64) {
	s.round = append(s.round, ns)
}

// End ends a round. Samples enter the histogram now, so that the measurement isn't disturbed.
func (s *Series) End() {
	if len(s.round) == 0 {
		return
	}
	for _, ns := range s.round {
		v := int64(math.Round(ns * report.UnitsPerNs))
		_ = s.hist.RecordValue(min(max(v, 1), maxUnits)) // in range
		s.min, s.max, s.sum = min(s.min, ns), max(s.max, ns), s.sum+ns
	}
	slices.Sort(s.round)
	s.Rounds = append(s.Rounds, s.round[len(s.round)/2])
	s.round = s.round[:0]
}

// Fill fills in statistics.
func (s *Series) Fill(f *report.Figure) {
	q := func(p float64) float64 { return float64(s.hist.ValueAtQuantile(p)) / report.UnitsPerNs }
	f.Samples = s.hist.TotalCount()
	if f.Samples == 0 {
		return
	}
	f.Min, f.Max, f.Mean = s.min, s.max, s.sum/float64(f.Samples)
	// The histogram rounds: a bucket's end may exceed the largest sample, or fall below the
	// smallest.
	within := func(p float64) float64 { return max(s.min, min(q(p), s.max)) }
	f.P50, f.P90, f.P99 = within(50), within(90), within(99)
	if f.Samples >= report.EnoughForP999 {
		f.P999 = new(within(99.9))
	}
	f.Rounds = s.Rounds
	if b, err := s.hist.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err == nil {
		f.Histogram = string(b)
	}
}

// Baseline is an operation to compare with.
type Baseline struct {
	name string
	per  int
	op   func(n int)
}

const ringBytes = 64 << 20

// Memcpy copies n bytes to successive places of a ring.
func Memcpy(name string, n int, ring []byte) *Baseline {
	src := make([]byte, n)
	for i := range src {
		src[i] = byte(i)
	}
	clear(ring) // every page exists
	at := 0
	return &Baseline{name: name, per: 16, op: func(k int) {
		for range k {
			if at+n > len(ring) {
				at = 0
			}
			copy(ring[at:at+n], src)
			at += n
		}
	}}
}

// MemcpyPages copies pages, and reports the time of a byte.
func MemcpyPages(page int) *Baseline {
	pages := Memcpy(report.MemcpyPages, page, make([]byte, 12<<20))
	return &Baseline{name: report.MemcpyPages, per: 1 << 20, op: func(bytes int) { pages.op(bytes / page) }}
}

// allBaselines are those that don't depend on the figure.
func allBaselines() []*Baseline {
	hot := make([]byte, 4096)
	out := []*Baseline{
		Memcpy(report.MemcpyHot, 4096, hot),
		Memcpy(report.MemcpyRing, 4096, make([]byte, ringBytes)),
	}
	if nt := NonTemporal(); nt != nil {
		out = append(out, nt)
	}
	return append(out,
		&Baseline{report.EmptySyscall, 16, func(k int) {
			for range k {
				syscall.Getppid()
			}
		}},
		&Baseline{report.TimerRead, 16, func(k int) {
			for range k {
				_ = time.Now()
			}
		}})
}

// NonTemporal returns nil where the processor has no such stores.
func NonTemporal() *Baseline {
	if !hasNonTemporal {
		return nil
	}
	ring := make([]byte, ringBytes+64)
	clear(ring)
	ring = ring[64-int(reflect.ValueOf(ring).Pointer()%64):][:ringBytes] // whole cache lines
	var src [64]byte
	at := 0
	return &Baseline{name: report.NonTemporal, per: 16, op: func(k int) {
		for range k {
			storeNonTemporal(&ring[at], &src)
			at = (at + 64) & (ringBytes - 1)
		}
	}}
}
