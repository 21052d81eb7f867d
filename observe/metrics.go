package observe

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
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

// WriteTo writes all metrics in Prometheus's text format 0.0.4, by one Write, for a net/http
// handler or the node exporter's textfile collector.
func (m *Metrics) WriteTo(to io.Writer) (int64, error) {
	var w promtext.Writer
	m.write(&w)
	return w.WriteTo(to)
}

type callSeries struct {
	kind   reprise.CallKind
	labels []string
	callCounts
}

func (m *Metrics) write(w *promtext.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var calls []callSeries
	for _, d := range m.devices {
		for k := range numCalls {
			c := &d.calls[k]
			c.mu.Lock()
			n := c.callCounts
			c.mu.Unlock()
			if n.begun > 0 {
				calls = append(calls, callSeries{k, slices.Clip([]string{"device", d.name, "call", k.String()}), n})
			}
		}
	}
	writeCalls(w, calls)
	m.writeMemoryLocked(w)
}

func writeCalls(w *promtext.Writer, calls []callSeries) {
	var bounds [len(callBounds)]float64
	for i, b := range callBounds {
		bounds[i] = b.Seconds()
	}
	w.Family("reprise_call_duration_seconds", promtext.Histogram, "How long calls took on the host.")
	for _, s := range calls {
		w.Histogram(bounds[:], s.buckets[:], s.took.Seconds(), s.labels...)
	}
	w.Family("reprise_call_errors_total", promtext.Counter, "Calls that failed.")
	for _, s := range calls {
		for why, n := range s.failed {
			w.Uint(n, append(s.labels, "reason", failureNames[why])...)
		}
	}
	w.Family("reprise_call_bytes_total", promtext.Counter,
		"Bytes that calls moved, allocated or released; of loads and captures those of the device's memory, of replays those sent to the queue.")
	for _, s := range calls {
		if !slices.Contains(withoutBytes[:], s.kind) {
			w.Uint(s.bytes, s.labels...)
		}
	}
	w.Family("reprise_calls_in_flight", promtext.Gauge, "Calls that have begun and not ended.")
	for _, s := range calls {
		w.Uint(s.begun-s.ended, s.labels...)
	}
}

var withoutBytes = [...]reprise.CallKind{reprise.CallRun, reprise.CallRecord, reprise.CallWaitEvent, reprise.CallEventWait,
	reprise.CallQueueWait, reprise.CallReleaseExecutable, reprise.CallReleaseTrace}

func (m *Metrics) writeMemoryLocked(w *promtext.Writer) {
	type series struct {
		device, kind string
		values       [5]uint64
	}
	var all []series
	w.Family("reprise_devices", promtext.Gauge, "Devices that are observed.")
	for _, d := range m.devices {
		if len(d.open) == 0 {
			continue
		}
		w.Uint(uint64(len(d.open)), "device", d.name, "arch", d.open[0].Arch().String())
		for _, k := range allocator.Kinds() {
			s := series{device: d.name, kind: k.Code()}
			for _, dev := range d.open {
				st := dev.Memory(k)
				banks := uint64(st.Banks)
				for i, v := range [...]uint64{st.Allocated * banks, st.Total * banks, st.Peak * banks, 0, uint64(st.Extents)} {
					s.values[i] += v
				}
				s.values[3] = max(s.values[3], st.LargestHole*banks)
			}
			all = append(all, s)
		}
	}
	for i, f := range [...]struct{ name, help string }{
		{"allocated_bytes", "Device memory that is allocated, over all banks."},
		{"capacity_bytes", "Device memory that could be allocated, over all banks. DRAM and TRACE share it where traces have no region of their own."},
		{"peak_bytes", "The most device memory that was ever allocated at once."},
		{"largest_free_bytes", "The most that one more buffer can get, over all banks."},
		{"extents", "Live buffers, kernels and traces."},
	} {
		w.Family("reprise_device_memory_"+f.name, promtext.Gauge, f.help)
		for k := range all {
			w.Uint(all[k].values[i], "device", all[k].device, "kind", all[k].kind)
		}
	}
}
