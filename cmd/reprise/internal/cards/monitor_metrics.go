package cards

import (
	"net/http"
	"path/filepath"
	"strconv"

	"github.com/reprise-tt/reprise/internal/promtext"
)

// metricsHandler serves /metrics and polls for each scrape.
func metricsHandler(poll func() (*MonitorReport, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		r, err := poll()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", promtext.ContentType)
		_, _ = r.metrics().WriteTo(w) // the client has disconnected
	})
	return mux
}

// metrics returns the report in Prometheus's text format. A log's file name distinguishes devices
// that one process has open.
func (r *MonitorReport) metrics() *promtext.Writer {
	w := new(promtext.Writer)
	for _, x := range []struct {
		name, kind, help string
		value            func(*monitorMemory) uint64
	}{
		{"allocated_bytes", promtext.Gauge, "Device memory that is allocated, over all banks.", func(m *monitorMemory) uint64 { return m.Allocated }},
		{"capacity_bytes", promtext.Gauge, "Device memory that could be allocated, over all banks. DRAM and TRACE share it where traces have no region of their own.", func(m *monitorMemory) uint64 { return m.Capacity }},
		{"peak_bytes", promtext.Gauge, "The most device memory that was ever allocated at once.", func(m *monitorMemory) uint64 { return m.Peak }},
		{"extents", promtext.Gauge, "Live buffers, kernels and traces.", func(m *monitorMemory) uint64 { return m.Extents }},
		{"updates_total", promtext.Counter, "Changes of the memory in use.", func(m *monitorMemory) uint64 { return m.Updates }},
	} {
		w.Family("reprise_memory_"+x.name, x.kind, x.help)
		r.each(func(d *monitorDevice, p *monitorProcess) {
			for i := range p.Memory {
				m := &p.Memory[i]
				w.Uint(x.value(m), "device", d.label(), "kind", m.Kind,
					"pid", strconv.Itoa(p.PID), "command", p.Command, "log", filepath.Base(p.Log))
			}
		})
	}
	w.Family("reprise_process_info", promtext.Gauge, "A device that a process has open.")
	live := uint64(0)
	r.each(func(d *monitorDevice, p *monitorProcess) {
		live++
		node := ""
		if d.NUMANode != nil {
			node = strconv.Itoa(*d.NUMANode)
		}
		w.Uint(1, "device", d.label(), "name", d.Name, "serial", d.Serial, "arch", d.Arch,
			"numa_node", node, "emulated", strconv.FormatBool(d.Emulated), "pid", strconv.Itoa(p.PID),
			"uid", strconv.Itoa(p.UID), "command", p.Command, "log", filepath.Base(p.Log))
	})
	w.Family("reprise_process_open_time_seconds", promtext.Gauge, "When the process opened the device, in seconds since 1970.")
	r.each(func(d *monitorDevice, p *monitorProcess) {
		w.Float(float64(p.Opened.UnixMilli())/1e3, "device", d.label(), "pid", strconv.Itoa(p.PID),
			"command", p.Command, "log", filepath.Base(p.Log))
	})
	w.Family("reprise_logs", promtext.Gauge, "Logs by state: live, dead (of a process that is gone and another user's) or unreadable.")
	w.Uint(live, "state", "live")
	w.Uint(uint64(r.Dead), "state", "dead")
	w.Uint(uint64(len(r.Problems)), "state", "unreadable")
	return w
}

func (r *MonitorReport) each(do func(*monitorDevice, *monitorProcess)) {
	for i := range r.Devices {
		for j := range r.Devices[i].Processes {
			do(&r.Devices[i], &r.Devices[i].Processes[j])
		}
	}
}
