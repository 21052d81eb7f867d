package visualizer

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // the driver of the database

	"github.com/reprise-tt/reprise/ops/graph"
)

// Apart is how far the numbers of operations of two reports lie apart.
const Apart = 10000

// Options change an import.
type Options struct {
	Limits graph.Limits
	SVG    bool // draw each report, as graphs/NAME.svg beside the database; the second one of a name as NAME-2.svg, and so on
}

// Summary counts what an import wrote.
type Summary struct {
	Files         int      `json:"files"`
	Devices       int      `json:"devices"`
	Operations    int      `json:"operations"`
	Tensors       int      `json:"tensors"`
	DeviceTensors int      `json:"device_tensors"`
	Buffers       int      `json:"buffers"`
	Edges         int      `json:"edges"`
	Errors        int      `json:"errors"`
	StackTraces   int      `json:"stack_traces"`
	Pages         int      `json:"pages"`
	YAML          int      `json:"yaml_files"`
	SVG           int      `json:"svg_files"`
	Warnings      []string `json:"warnings"`
}

// ErrNoReports is in the error of an import that found no report.
var ErrNoReports = errors.New("no reports")

// Import writes reports into a database, which it makes if there is none. A path is a file, or a folder of which all *.json
// files count, by name. An operation that is imported again replaces itself with all that belongs to it; tensors that are
// there stay. A file in a folder that can't be read is a warning; if nothing is left to import that is an error. An import is all
// or nothing: after an error the database and what lies beside it are as they were.
func Import(ctx context.Context, db string, paths []string, o Options) (sum *Summary, err error) {
	files, err := list(paths)
	if err != nil {
		return nil, err
	}
	to, err := newOutput(db)
	if err != nil {
		return nil, fmt.Errorf("visualizer: import: %w", err)
	}
	defer to.close()
	c, err := sql.Open("sqlite", to.uri())
	if err != nil {
		return nil, fmt.Errorf("visualizer: import: open %s: %w", db, err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("visualizer: import: open %s: %w", db, err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return nil, fmt.Errorf("visualizer: import: make the tables of %s: %w", db, err)
	}
	w := &writer{ctx: ctx, tx: tx, sum: &Summary{Warnings: []string{}}, to: to}
	w.insert("INSERT OR REPLACE INTO report_metadata VALUES (?, ?)", "schema_version", SchemaVersion)
	var failed error
	for k, f := range files {
		r, err := read(ctx, f.path, o.Limits)
		if err != nil {
			if !f.found {
				return nil, err
			}
			failed = errors.Join(failed, err)
			w.warn("%s: skipped: %v", f.path, err)
			continue
		}
		w.apart(r, f.path)
		p := newPlan(r, k*Apart)
		if len(p.ops) >= Apart && len(files) > 1 {
			return nil, fmt.Errorf("visualizer: import: %s: %d operations, want fewer than %d with several files in one database: import it alone", f.path, len(p.ops), Apart)
		}
		w.report(p)
		if err := w.beside(r, f.path, o.SVG); err != nil {
			return nil, fmt.Errorf("visualizer: import: %w", err)
		}
		w.sum.Files++
	}
	if w.sum.Files == 0 {
		return nil, fmt.Errorf("visualizer: import: %w: %w", ErrNoReports, failed)
	}
	w.validate()
	if w.err != nil {
		return nil, fmt.Errorf("visualizer: import: write %s: %w", db, w.err)
	}
	if err := to.settle(); err != nil {
		return nil, fmt.Errorf("visualizer: import: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("visualizer: import: write %s: %w", db, err)
	}
	to.keep()
	return w.sum, nil
}

// file is a report to read. found says that it was found in a folder, and not named.
type file struct {
	path  string
	found bool
}

// sidecar is how files end that belong to a report.
const sidecar = ".python_io.json"

func list(paths []string) ([]file, error) {
	var out []file
	for _, p := range paths {
		st, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("visualizer: import: %w", err)
		}
		if !st.IsDir() {
			out = append(out, file{path: p})
			continue
		}
		entries, err := os.ReadDir(p) // by name
		if err != nil {
			return nil, fmt.Errorf("visualizer: import: %w", err)
		}
		for _, e := range entries {
			if n := e.Name(); !e.IsDir() && strings.HasSuffix(n, ".json") && !strings.HasSuffix(n, sidecar) {
				out = append(out, file{filepath.Join(p, n), true})
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("visualizer: import: %w in %s: give files that a capture wrote, or a folder with *.json files", ErrNoReports, strings.Join(paths, ", "))
	}
	return out, nil
}

// read reads a report, and the records of the Python layer that lie beside it.
func read(ctx context.Context, path string, lim graph.Limits) (*graph.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("visualizer: import: %w", err)
	}
	defer f.Close()
	// A pipe that nobody writes to would keep the database.
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	r, err := graph.Decode(f, lim)
	if err != nil {
		return nil, fmt.Errorf("visualizer: import: %s: %w", path, err)
	}
	b, err := os.ReadFile(strings.TrimSuffix(path, ".json") + sidecar)
	switch {
	case errors.Is(err, fs.ErrNotExist) || len(r.Python) > 0:
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("visualizer: import: what lies beside %s: %w", path, err)
	}
	if r.Python, err = graph.DecodePython(b); err != nil {
		return nil, fmt.Errorf("visualizer: import: %s: %w", path, err)
	}
	return r, nil
}

// beside writes the files that lie beside the database.
func (w *writer) beside(r *graph.Report, path string, svg bool) error {
	for name, text := range map[string]string{"cluster_descriptor.yaml": r.ClusterDescriptor, "physical_chip_mesh_coordinate_mapping_1_of_1.yaml": r.MeshMapping} {
		if text == "" || slices.Contains(w.yaml, name) {
			continue
		}
		w.yaml = append(w.yaml, name)
		if err := w.to.write(name, func(f io.Writer) error { _, err := io.WriteString(f, text); return err }); err != nil {
			return err
		}
		w.sum.YAML++
	}
	if !svg {
		return nil
	}
	w.sum.SVG++
	return w.to.write(w.picture(path), r.Graph.SVG)
}

// picture is what a report's picture is called: like no other's of this import.
func (w *writer) picture(path string) string {
	base := strings.TrimSuffix(filepath.Base(path), ".json")
	for n := 1; ; n++ {
		name := filepath.Join("graphs", base+".svg")
		if n > 1 {
			name = filepath.Join("graphs", fmt.Sprintf("%s-%d.svg", base, n))
		}
		if !slices.Contains(w.to.names, name) {
			return name
		}
	}
}

// captured is an operation's part of the graph as JSON: nodes between a start and an end of a capture, numbered from 0.
// Connections to nodes outside of it are left out: their numbers would name others.
func captured(p *plan, nodes []int, end int) (string, [][]int, error) {
	number := map[int]int{}
	for i, c := range nodes {
		number[c] = i + 1
	}
	sub := &graph.Graph{Era: p.g.Era}
	sub.Nodes = append(sub.Nodes, graph.Node{Type: graph.CaptureStart, Params: graph.Params{}, Connections: []int{1}})
	for i, c := range nodes {
		n := *p.at(c)
		n.Counter = i + 1
		n.Connections = renumbered(number, n.Connections)
		if n.InputTensors != nil {
			n.InputTensors = renumbered(number, n.InputTensors)
		}
		n.Params = p.shown(n.Params)
		sub.Nodes = append(sub.Nodes, n)
	}
	if n, ok := number[end]; ok {
		sub.Nodes[n].Connections = append(sub.Nodes[n].Connections, len(sub.Nodes))
	}
	sub.Nodes = append(sub.Nodes, graph.Node{Counter: len(sub.Nodes), Type: graph.CaptureEnd, Params: graph.Params{}})
	b, err := json.Marshal(sub)
	if err != nil {
		return "", nil, err
	}
	var raw []map[string]json.RawMessage // each node gets an id
	if err := json.Unmarshal(b, &raw); err != nil {
		return "", nil, err
	}
	to := make([][]int, len(sub.Nodes))
	for i := range raw {
		raw[i]["id"] = raw[i]["counter"]
		to[i] = sub.Nodes[i].Connections
	}
	b, err = json.Marshal(raw)
	return string(b), to, err
}

func renumbered(number map[int]int, counters []int) []int {
	out := []int{}
	for _, c := range counters {
		if n, ok := number[c]; ok {
			out = append(out, n)
		}
	}
	return out
}
