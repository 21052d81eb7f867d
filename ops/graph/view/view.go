// Package view shows the report of a capture in a browser, on one page: operations and tensors,
// functions, memory and addresses of buffers over time, cores, and the data flow between
// operations. The page contains all its scripts and works from a file too ([HTML]).
package view

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/reprise-tt/reprise/ops/graph"
)

type view struct {
	r    *graph.Report
	page []byte
}

// New returns a handler that shows a report under a name: the page at /, the report as
// /report.json, and a picture of all its nodes as /graph.svg.
func New(name string, r *graph.Report) (http.Handler, error) {
	page, err := appPage(name, r)
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	v := &view{r: r, page: page}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", v.index)
	mux.HandleFunc("GET /report.json", v.report)
	mux.HandleFunc("GET /graph.svg", v.graph)
	return mux, nil
}

func (v *view) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(v.page)
}

func (v *view) report(w http.ResponseWriter, _ *http.Request) {
	v.send(w, "application/json", func(b *bytes.Buffer) error { return v.r.Encode(b) })
}

func (v *view) graph(w http.ResponseWriter, _ *http.Request) {
	v.send(w, "image/svg+xml", func(b *bytes.Buffer) error { return v.r.Graph.SVG(b) })
}

func (v *view) send(w http.ResponseWriter, kind string, f func(*bytes.Buffer) error) {
	var b bytes.Buffer
	if err := f(&b); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(b.Bytes())
}

type peak struct {
	Name      string `json:"name"`
	Bytes     int64  `json:"bytes"`
	InBuffers int64  `json:"inBuffers,omitempty"` // of these, circular buffers in buffers, which count twice
}

func peaks(g *graph.Graph, cores int) []peak {
	return []peak{
		{Name: "L1, buffers and a core's circular buffers", Bytes: graph.PeakL1(g), InBuffers: graph.PeakL1InBuffers(g)},
		{Name: "circular buffers of a core", Bytes: graph.PerCore(g, cores).Circular},
		{Name: "all buffers that were allocated", Bytes: graph.PeakAllocated(g)}, {Name: "DRAM", Bytes: graph.DRAMUsage(g).Peak},
	}
}

type problem struct {
	Operation string `json:"operation"`
	Message   string `json:"message"`
}

func problems(g *graph.Graph) []problem {
	var out []problem
	for i := range g.Nodes {
		if p := g.Nodes[i].Params; g.Nodes[i].Type == graph.ErrorNode {
			out = append(out, problem{p[graph.ParamErrorOperation], p[graph.ParamErrorType] + ": " + p[graph.ParamErrorMessage]})
		}
	}
	for _, c := range g.Calls() {
		if c.End < 0 {
			out = append(out, problem{c.Name, "it began and didn't end"})
		}
	}
	return out
}
