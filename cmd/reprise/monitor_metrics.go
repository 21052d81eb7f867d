package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
)

// metricsHandler serves /metrics, polling for each scrape.
func metricsHandler(poll func() (*monitorReport, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		r, err := poll()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		var b bytes.Buffer
		r.writeMetrics(&b)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = b.WriteTo(w) // the client has disconnected
	})
	return mux
}

// writeMetrics writes the report in Prometheus's text format 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats). A log's file name tells apart what one process has
// open twice.
func (r *monitorReport) writeMetrics(w io.Writer) {
	memory := []struct {
		name, kind, help string
		value            func(*monitorMemory) uint64
	}{
		{"reprise_memory_allocated_bytes", "gauge", "Device memory that is allocated, over all banks.", func(m *monitorMemory) uint64 { return m.Allocated }},
		{"reprise_memory_capacity_bytes", "gauge", "Device memory that could be allocated, over all banks. DRAM and TRACE share it where traces have no region of their own.", func(m *monitorMemory) uint64 { return m.Capacity }},
		{"reprise_memory_peak_bytes", "gauge", "The most device memory that was ever allocated at once.", func(m *monitorMemory) uint64 { return m.Peak }},
		{"reprise_memory_extents", "gauge", "Live buffers, kernels and traces.", func(m *monitorMemory) uint64 { return m.Extents }},
		{"reprise_memory_updates_total", "counter", "Changes of the memory in use.", func(m *monitorMemory) uint64 { return m.Updates }},
	}
	for _, x := range memory {
		head(w, x.name, x.kind, x.help)
		r.each(func(d *monitorDevice, p *monitorProcess) {
			for i := range p.Memory {
				m := &p.Memory[i]
				fmt.Fprintf(w, "%s{device=%s,kind=%s,pid=\"%d\",command=%s,log=%s} %d\n",
					x.name, quote(d.label()), quote(m.Kind), p.PID, quote(p.Command), quote(filepath.Base(p.Log)), x.value(m))
			}
		})
	}
	const info, opened, logs = "reprise_process_info", "reprise_process_open_time_seconds", "reprise_logs"
	head(w, info, "gauge", "A device that a process has open.")
	r.each(func(d *monitorDevice, p *monitorProcess) {
		node := ""
		if d.NUMANode != nil {
			node = strconv.Itoa(*d.NUMANode)
		}
		fmt.Fprintf(w, "%s{device=%s,name=%s,serial=%s,arch=%s,numa_node=%s,emulated=\"%t\",pid=\"%d\",uid=\"%d\",command=%s,log=%s} 1\n",
			info, quote(d.label()), quote(d.Name), quote(d.Serial), quote(d.Arch), quote(node), d.Emulated, p.PID, p.UID, quote(p.Command), quote(filepath.Base(p.Log)))
	})
	head(w, opened, "gauge", "When the process opened the device, in seconds since 1970.")
	r.each(func(d *monitorDevice, p *monitorProcess) {
		fmt.Fprintf(w, "%s{device=%s,pid=\"%d\",command=%s,log=%s} %.3f\n", opened, quote(d.label()), p.PID, quote(p.Command), quote(filepath.Base(p.Log)), float64(p.Opened.UnixMilli())/1e3)
	})
	head(w, logs, "gauge", "Logs by state: live, dead (of a process that is gone and another user's) or unreadable.")
	live := 0
	r.each(func(*monitorDevice, *monitorProcess) { live++ })
	fmt.Fprintf(w, "%s{state=\"live\"} %d\n%s{state=\"dead\"} %d\n%s{state=\"unreadable\"} %d\n", logs, live, logs, r.Dead, logs, len(r.Problems))
}

func (r *monitorReport) each(do func(*monitorDevice, *monitorProcess)) {
	for i := range r.Devices {
		for j := range r.Devices[i].Processes {
			do(&r.Devices[i], &r.Devices[i].Processes[j])
		}
	}
}

func head(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// quote writes a label's value.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
