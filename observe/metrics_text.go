package observe

import (
	"io"
	"slices"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/internal/promtext"
)

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
			if n := d.calls[k].read(); n.begun > 0 {
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
