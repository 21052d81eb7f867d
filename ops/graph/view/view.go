// Package view shows the report of a capture in a browser: operations over time, memory over time, the addresses of buffers,
// and the data flow between operations. One page, which works from a file too ([HTML]), has all of it with scripts; others are
// rendered on the server without. None loads anything from other hosts.
package view

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/dustin/go-humanize"

	"github.com/reprise-tt/reprise/ops/graph"
)

//go:embed pages
var files embed.FS

// view serves the pages of a report.
type view struct {
	name  string
	r     *graph.Report
	pages *template.Template
	app   []byte
}

// New returns a handler that shows a report under a name.
func New(name string, r *graph.Report) (http.Handler, error) {
	t, err := template.New("").Funcs(template.FuncMap{"bytes": func(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }}).ParseFS(files, "pages/*.html")
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	v := &view{name: name, r: r, pages: t}
	if v.app, err = appPage(name, r); err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", v.index)
	mux.HandleFunc("GET /plain", v.overview)
	mux.HandleFunc("GET /flow", v.flow)
	mux.HandleFunc("GET /report.json", v.report)
	mux.HandleFunc("GET /graph.svg", v.graph)
	return mux, nil
}

// index sends the page with scripts; addresses with a core are of the pages without.
func (v *view) index(w http.ResponseWriter, q *http.Request) {
	if q.URL.Query().Has("core") {
		v.overview(w, q)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(v.app) // it fails if the client has gone, which needs no answer
}

// page is the data of every page.
type page struct {
	Name  string
	Nodes int
	Calls int
	Error string
}

func (v *view) page() page {
	return page{Name: v.name, Nodes: len(v.r.Graph.Nodes), Calls: len(v.r.Graph.Calls())}
}

// write sends a page, or an error if its template fails.
func (v *view) write(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := v.pages.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(bytes.Map(legal, b.Bytes())) // it fails if the client has gone, which needs no answer
}

// legal replaces a character that HTML, or the XML of pictures, can't have.
func legal(r rune) rune {
	if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
		return unicode.ReplacementChar
	}
	return r
}

func (v *view) overview(w http.ResponseWriter, q *http.Request) {
	g := v.r.Graph
	core, err := parseCore(q.FormValue("core"))
	status := http.StatusOK
	data := struct {
		page
		Peaks    []peak
		Timeline timeline
		Memory   chart
		Maps     []addresses
		Core     string
		Cores    []string
		Failed   []problem
	}{
		page: v.page(), Peaks: peaks(g), Timeline: newTimeline(g), Memory: newChart(g), Failed: problems(g),
	}
	if err != nil {
		data.Error, status = err.Error(), http.StatusBadRequest
	} else if core != nil && !exists(v.r, core) {
		data.Error, status = fmt.Sprintf("core %d,%d: no device of this report has it", core.x, core.y), http.StatusNotFound
		core = nil
	} else if core != nil {
		data.Core = fmt.Sprintf("%d,%d", core.x, core.y)
		data.Memory = newCoreChart(v.r, core)
	}
	for _, t := range []graph.BufferType{graph.L1, graph.DRAM} {
		if m := newAddresses(v.r, t, core); len(m.Rects) > 0 {
			data.Maps = append(data.Maps, m)
		}
	}
	data.Cores = cores(v.r)
	v.write(w, status, "overview.html", data)
}

func (v *view) flow(w http.ResponseWriter, q *http.Request) {
	level := 1
	data := struct {
		page
		Level int
		Flow  flow
	}{page: v.page()}
	status := http.StatusOK
	if text := q.FormValue("level"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			data.Error, status, n = fmt.Sprintf("level %q: levels count from 1", text), http.StatusBadRequest, 1
		}
		level = n
	}
	vs, err := graph.Levelize(v.r.Graph, level)
	if err != nil {
		data.Error, status = err.Error(), http.StatusInternalServerError
	}
	data.Level, data.Flow = level, newFlow(vs)
	v.write(w, status, "flow.html", data)
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

// core is the logical coordinate of a worker core.
type core struct{ x, y int64 }

// parseCore parses "x,y"; it returns nil for an empty string.
func parseCore(s string) (*core, error) {
	if s == "" {
		return nil, nil
	}
	var c core
	x, y, ok := strings.Cut(s, ",")
	var err1, err2 error
	c.x, err1 = strconv.ParseInt(x, 10, 32)
	c.y, err2 = strconv.ParseInt(y, 10, 32)
	if !ok || err1 != nil || err2 != nil || c.x < 0 || c.y < 0 {
		return nil, fmt.Errorf("core %q: want x,y", s)
	}
	return &c, nil
}

// exists reports whether a core is on the grid of a device, or something of the report is on it.
func exists(r *graph.Report, c *core) bool {
	for _, d := range r.Devices {
		if c.x < d.GridX && c.y < d.GridY {
			return true
		}
	}
	return slices.Contains(cores(r), fmt.Sprintf("%d,%d", c.x, c.y))
}

// maxCores limits the list of cores. No chip has as many.
const maxCores = 4096

// cores lists the cores that have pages or circular buffers in the report.
func cores(r *graph.Report) []string {
	seen := map[core]bool{}
	sets := map[string]bool{} // already processed: many circular buffers have the same cores
	for i := range r.Graph.Nodes {
		set := r.Graph.Nodes[i].Params[graph.ParamCoreRangeSet]
		if r.Graph.Nodes[i].Type != graph.CircularAllocate || sets[set] {
			continue
		}
		sets[set] = true
		for _, c := range graph.ParseCores(set) {
			for y := c.Y0; y <= c.Y1 && len(seen) < maxCores; y++ {
				for x := c.X0; x <= c.X1 && len(seen) < maxCores; x++ {
					seen[core{int64(x), int64(y)}] = true
				}
			}
		}
	}
	add := func(ps []graph.Page) {
		for _, p := range ps {
			seen[core{p.CoreX, p.CoreY}] = true
		}
	}
	add(r.BufferPages)
	for _, vs := range r.PagesByAddress {
		for _, v := range vs {
			add(v.Pages)
		}
	}
	all := make([]core, 0, len(seen))
	for c := range seen {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b core) int { return cmp.Or(cmp.Compare(a.y, b.y), cmp.Compare(a.x, b.x)) })
	out := make([]string, len(all))
	for i, c := range all {
		out[i] = fmt.Sprintf("%d,%d", c.x, c.y)
	}
	return out
}

// peak is a row of the table of peaks.
type peak struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

func peaks(g *graph.Graph) []peak {
	return []peak{
		{"L1, buffers and a core's circular buffers", graph.PeakL1(g)}, {"circular buffers of a core", graph.PerCore(g, 64).Circular},
		{"all buffers that were allocated", graph.PeakAllocated(g)}, {"DRAM", graph.DRAMUsage(g).Peak},
	}
}

// problem is an operation that failed or didn't end.
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
