package observe

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/promtext"
)

// MetricsContentType is the Content-Type of what [Metrics.WriteTo] writes.
const MetricsContentType = promtext.ContentType

// Metrics counts the calls that use devices, and writes the counts and the devices' memory in
// Prometheus's text format:
//
//	reprise_call_duration_seconds   histogram  how long calls took on the host, from 1 µs to 100 s
//	reprise_call_errors_total       counter    calls that failed, by reason: canceled, hang, lost or other
//	reprise_call_bytes_total        counter    bytes that calls moved, allocated or released, or sent for replays
//	reprise_calls_in_flight         gauge      calls that have begun and not ended
//	reprise_device_memory_…_bytes   gauge      allocated, capacity, peak and largest_free, over all banks
//	reprise_device_memory_extents   gauge      live buffers, kernels and traces
//	reprise_devices                 gauge      devices that are observed, with their architecture
//
// Labels are device, the name of the target, and call, a [reprise.CallKind] such as "replay" (from
// its first call on), or kind, a kind of memory by its name in tt-metal. Submissions, such as
// replays, end when the device may still be working.
//
// The zero Metrics is ready to use, from any goroutine. Counting a call allocates nothing.
type Metrics struct {
	mu      sync.Mutex
	devices []*deviceMetrics
}

// Observe counts the calls that use a device until stop is called. Devices of one name share
// series. Counts stay after stop; memory is no longer written. Observing a device twice does
// nothing.
func (m *Metrics) Observe(dev *reprise.Device) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.devices, func(d *deviceMetrics) bool { return d.name == dev.Name() })
	if i < 0 {
		i = len(m.devices)
		m.devices = append(m.devices, &deviceMetrics{name: dev.Name()})
	}
	d := m.devices[i]
	if slices.Contains(d.open, dev) {
		return func() {}
	}
	d.open = append(d.open, dev)
	detach := dev.Observe(d)
	return sync.OnceFunc(func() {
		detach()
		m.mu.Lock()
		defer m.mu.Unlock()
		d.open = slices.DeleteFunc(d.open, func(o *reprise.Device) bool { return o == dev })
	})
}

const numCalls = reprise.CallReleaseTrace + 1

type deviceMetrics struct {
	name  string
	open  []*reprise.Device
	calls [numCalls]callMetrics
}

func (d *deviceMetrics) Begin(_ context.Context, c *reprise.Call) {
	m := &d.calls[c.Kind]
	m.mu.Lock()
	m.begun++
	m.mu.Unlock()
}

func (d *deviceMetrics) End(_ context.Context, c *reprise.Call) {
	m, took := &d.calls[c.Kind], c.End.Sub(c.Start)
	bucket, _ := slices.BinarySearch(callBounds[:], took)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended++
	m.buckets[bucket]++
	m.took += took
	if c.Err != nil {
		m.failed[failureOf(c.Err)]++
		return
	}
	m.bytes += uint64(c.Bytes)
}

type callMetrics struct {
	mu sync.Mutex
	callCounts
}

type callCounts struct {
	begun, ended uint64
	buckets      [len(callBounds) + 1]uint64
	took         time.Duration
	failed       [numFailures]uint64
	bytes        uint64
}

func (m *callMetrics) read() callCounts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.callCounts
}

// callBounds are 1, 2, 5, 10 µs and so on up to 100 s.
var callBounds = func() (b [25]time.Duration) {
	unit := time.Microsecond
	for i := range b {
		b[i] = unit * [...]time.Duration{1, 2, 5}[i%3]
		if i%3 == 2 {
			unit *= 10
		}
	}
	return b
}()

type failure int

const (
	failureCanceled failure = iota
	failureHang
	failureLost // the device is gone, or was reset under the runtime
	failureOther
	numFailures
)

var failureNames = [numFailures]string{"canceled", "hang", "lost", "other"}

func failureOf(err error) failure {
	var hang *dispatch.HangError
	switch {
	case errors.As(err, &hang):
		return failureHang
	case errors.Is(err, reprise.ErrDeviceLost):
		return failureLost
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return failureCanceled
	}
	return failureOther
}
