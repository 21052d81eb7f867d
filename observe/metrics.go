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

// Begin implements reprise.Observer.
func (d *deviceMetrics) Begin(_ context.Context, c *reprise.Call) {
	m := &d.calls[c.Kind]
	m.mu.Lock()
	m.begun++
	m.mu.Unlock()
}

// End implements reprise.Observer.
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

var callBounds = [...]time.Duration{
	1 * time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond,
	10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, 20 * time.Second, 50 * time.Second,
	100 * time.Second,
}

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
