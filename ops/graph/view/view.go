// Package view shows the report of a capture in a browser, on one page: operations and tensors,
// functions, memory and addresses of buffers over time, cores, and the data flow between
// operations. The page contains all its scripts and works from a file too ([HTML]).
package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/reprise-tt/reprise/ops/graph"
)

// New returns a handler that shows a report under a name: the page at /, the report as
// /report.json, and a picture of all its nodes as /graph.svg. Findings are a JSON file that
// reprise ttnn run --check --report wrote of the same program, or nil.
func New(name string, r *graph.Report, findings json.RawMessage) (http.Handler, error) {
	page, err := appPage(name, r, findings)
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	mux := http.NewServeMux()
	for path, c := range map[string]struct {
		kind  string
		write func(io.Writer) error
	}{
		"/{$}":         {"text/html; charset=utf-8", func(w io.Writer) error { _, err := w.Write(page); return err }},
		"/report.json": {"application/json", r.Encode},
		"/graph.svg":   {"image/svg+xml", r.Graph.SVG},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			var b bytes.Buffer
			if err := c.write(&b); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", c.kind)
			_, _ = w.Write(b.Bytes()) // fails only if the client has gone
		})
	}
	return mux, nil
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
	out := []problem{}
	for _, n := range g.All(graph.ErrorNode) {
		p := n.Params
		out = append(out, problem{p[graph.ParamErrorOperation], p[graph.ParamErrorType] + ": " + p[graph.ParamErrorMessage]})
	}
	for _, c := range g.Calls() {
		if c.End < 0 {
			out = append(out, problem{c.Name, "it began and didn't end"})
		}
	}
	return out
}
