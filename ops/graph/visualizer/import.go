package visualizer

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	_ "github.com/ncruces/go-sqlite3/driver" // of the database

	"github.com/reprise-tt/reprise/ops/graph"
)

// OperationStride is the distance of the first operation numbers of consecutive reports in one
// import.
const OperationStride = 10000

// Options configure an import.
type Options struct {
	Limits graph.Limits
	// Arch is the architecture of reports without devices, lists of nodes: wormhole or blackhole.
	// The visualizer shows memory only with a device. Empty adds none.
	Arch string
	SVG  bool // draw each report as graphs/NAME.svg beside the database; a second report of the same name is NAME-2.svg
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

// ErrNoReports is in the error of an import without any report.
var ErrNoReports = errors.New("no reports")

// Import writes reports into a database, which it creates if needed. A path is a file, or a folder
// whose *.json files are imported in the order of their names. An operation that is imported again
// is replaced with all its rows; existing tensors stay. A folder's file that can't be read is a
// warning, unless no file can. After an error the database and the files beside it are unchanged.
func Import(ctx context.Context, db string, paths []string, o Options) (*Summary, error) {
	sum, err := importReports(ctx, db, paths, o)
	if err != nil {
		return nil, fmt.Errorf("visualizer: import: %w", err)
	}
	return sum, nil
}

func importReports(ctx context.Context, db string, paths []string, o Options) (sum *Summary, err error) {
	if err := graph.CheckArch(o.Arch); err != nil {
		return nil, err
	}
	files, err := list(paths)
	if err != nil {
		return nil, err
	}
	to, err := newOutput(db)
	if err != nil {
		return nil, err
	}
	defer to.close()
	c, err := sql.Open("sqlite3", to.uri())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", db, err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", db, err)
	}
	defer tx.Rollback()
	w := &writer{ctx: ctx, tx: tx, sum: &Summary{Warnings: []string{}}, to: to, stmts: map[string]*sql.Stmt{}, sources: map[string]any{},
		ids: map[int]*tensorIDs{}}
	if w.createTables(); w.err != nil {
		return nil, fmt.Errorf("make the tables of %s: %w", db, w.err)
	}
	if err := w.files(files, o); err != nil {
		return nil, err
	}
	w.exec(derive)
	w.validate()
	if w.err != nil {
		return nil, fmt.Errorf("write %s: %w", db, w.err)
	}
	if err := to.install(); err != nil {
		return nil, err
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("write %s: %w", db, err)
	}
	to.undo = nil
	return w.sum, nil
}

func (w *writer) files(files []file, o Options) error {
	var failed error
	imported := map[int]int{} // files by rank
	for _, f := range files {
		r, err := read(w.ctx, f.path, o.Limits)
		if err != nil {
			if !f.found {
				return err
			}
			failed = errors.Join(failed, err)
			w.warn("skipped: %v", err)
			continue
		}
		for _, what := range r.Warnings() {
			w.warn("%s: %s", f.path, what)
		}
		if err := r.Describe(o.Arch); err != nil {
			return err
		}
		w.rank, _ = strconv.Atoi(r.Metadata.More["rank"])
		if w.ids[w.rank] == nil {
			w.ids[w.rank] = &tensorIDs{}
		}
		if n := w.ids[w.rank].distinct(r); n > 0 {
			w.warn("%s: %d tensors have ids that another report uses for other tensors, and get new ones", filepath.Base(f.path), n)
		}
		p := newPlan(r, imported[w.rank]*OperationStride)
		imported[w.rank]++
		if len(p.ops) >= OperationStride && len(files) > 1 {
			return fmt.Errorf("%s: %d operations, want fewer than %d with several files in one database: import it alone", f.path, len(p.ops),
				OperationStride)
		}
		w.report(p)
		if err := w.sidecars(r, f.path, o.SVG); err != nil {
			return err
		}
		w.sum.Files++
	}
	if w.sum.Files == 0 {
		return fmt.Errorf("%w: %w", ErrNoReports, failed)
	}
	return nil
}

type file struct {
	path  string
	found bool
}

const pythonSuffix = ".python_io.json"

// noReport matches what TT-NN writes beside reports.
var noReport = regexp.MustCompile(`(^config(_\d+_of_\d+)?|\.python_io|comparison_records|\.tensor_lifetime)\.json$`)

func list(paths []string) ([]file, error) {
	var out []file
	for _, p := range paths {
		st, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		if !st.IsDir() {
			out = append(out, file{path: p})
			continue
		}
		entries, err := os.ReadDir(p) // by name
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if n := e.Name(); !e.IsDir() && strings.HasSuffix(n, ".json") && !noReport.MatchString(n) {
				out = append(out, file{filepath.Join(p, n), true})
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w in %s: give files that a capture wrote, or a folder with *.json files", ErrNoReports,
			strings.Join(paths, ", "))
	}
	return out, nil
}

func read(ctx context.Context, path string, lim graph.Limits) (*graph.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Reading a pipe without a writer would block with the database locked.
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	r, err := graph.Decode(f, lim)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	b, err := os.ReadFile(strings.TrimSuffix(path, ".json") + pythonSuffix)
	switch {
	case errors.Is(err, fs.ErrNotExist) || len(r.Python) > 0:
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("records of %s: %w", path, err)
	}
	if r.Python, err = graph.DecodePython(b); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func (w *writer) sidecars(r *graph.Report, path string, svg bool) error {
	rank := "" // part of the names of files of several hosts
	if n, _ := strconv.Atoi(r.Metadata.More["world_size"]); n > 1 {
		rank = fmt.Sprintf("_%d_of_%d", w.rank+1, n)
	}
	for name, text := range map[string]string{"cluster_descriptor" + rank + ".yaml": r.ClusterDescriptor,
		"physical_chip_mesh_coordinate_mapping" + cmp.Or(rank, "_1_of_1") + ".yaml": r.MeshMapping} {
		if text == "" || slices.Contains(w.yaml, name) {
			continue
		}
		w.yaml = append(w.yaml, name)
		if err := w.to.write(name, func(f io.Writer) error { _, err := io.WriteString(f, text); return err }); err != nil {
			return err
		}
		w.sum.YAML++
	}
	config := "config" + rank + ".json" // TT-NN's settings, which the visualizer shows
	if b, err := os.ReadFile(filepath.Join(filepath.Dir(path), config)); err == nil && !slices.Contains(w.to.names, config) {
		if err := w.to.write(config, func(f io.Writer) error { _, err := f.Write(b); return err }); err != nil {
			return err
		}
	}
	if !svg {
		return nil
	}
	w.sum.SVG++
	base := strings.TrimSuffix(filepath.Base(path), ".json")
	name := filepath.Join("graphs", base+".svg")
	for n := 2; slices.Contains(w.to.names, name); n++ {
		name = filepath.Join("graphs", fmt.Sprintf("%s-%d.svg", base, n))
	}
	return w.to.write(name, r.Graph.SVG)
}

// tensorIDs makes the tensor ids of several reports unique. Reports of one process share ids: equal
// tensors of an equal id are one row of the database. Reports of other processes start at 1 too:
// another tensor of a known id gets a new one.
type tensorIDs struct {
	seen map[int64]string // descriptions of tensors by id
	last int64            // the search for a new one starts after it
}

// unused returns a new id above 0 that neither earlier reports nor own have.
func (n *tensorIDs) unused(own map[int64]string) int64 {
	for {
		if n.last = max(n.last, 0); n.last == math.MaxInt64 {
			n.last = 0
		}
		n.last++
		_, before := n.seen[n.last]
		if _, now := own[n.last]; !before && !now {
			return n.last
		}
	}
}

func (n *tensorIDs) distinct(r *graph.Report) int {
	if n.seen == nil {
		n.seen = map[int64]string{}
	}
	own := map[int64]string{}
	for _, node := range r.Graph.All(graph.TensorNode) {
		q := node.Params
		id, ok := q.Int(graph.ParamTensorID)
		if _, again := own[id]; !ok || again {
			continue
		}
		own[id] = strings.Join([]string{
			q[graph.ParamShape], q[graph.ParamDType], q[graph.ParamLayout], q[graph.ParamMemoryConfig], q[graph.ParamDeviceID],
			q[graph.ParamAddress],
		}, "\n")
		n.last = max(n.last, id)
	}
	to := map[int64]int64{} // new ids, all above 0
	for _, node := range r.Graph.All(graph.TensorNode) {
		id, ok := node.Params.Int(graph.ParamTensorID)
		if !ok {
			continue
		}
		if other, taken := n.seen[id]; to[id] == 0 && taken && other != own[id] {
			to[id] = n.unused(own)
		}
		if to[id] != 0 {
			node.Params = maps.Clone(node.Params)
			node.Params[graph.ParamTensorID] = strconv.FormatInt(to[id], 10)
		}
	}
	for id, tensor := range own {
		if to[id] != 0 {
			id = to[id]
		}
		n.seen[id] = tensor
	}
	for i := range r.Python {
		for _, ids := range [][]int64{r.Python[i].Inputs, r.Python[i].Outputs} {
			for k, id := range ids {
				if to[id] != 0 {
					ids[k] = to[id]
				}
			}
		}
	}
	return len(to)
}
