package visualizer

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/ops/graph"
)

func imported(t *testing.T, o Options, paths ...string) (*Summary, func(string) []string) {
	t.Helper()
	return importedInto(t, filepath.Join(t.TempDir(), "db.sqlite"), o, paths...)
}

func importedInto(t *testing.T, db string, o Options, paths ...string) (*Summary, func(string) []string) {
	t.Helper()
	sum, err := Import(context.Background(), db, paths, o)
	devtest.Must(t, err)
	c := connect(t, db)
	return sum, func(q string) []string {
		t.Helper()
		rows, err := c.Query(q)
		devtest.Must(t, err)
		defer rows.Close()
		out := []string{}
		cols, _ := rows.Columns()
		for rows.Next() {
			vals := make([]sql.NullString, len(cols))
			ptr := make([]any, len(cols))
			for i := range vals {
				ptr[i] = &vals[i]
			}
			devtest.Must(t, rows.Scan(ptr...))
			texts := make([]string, len(cols))
			for i, v := range vals {
				texts[i] = v.String
			}
			out = append(out, strings.Join(texts, "|"))
		}
		return out
	}
}

func connect(t *testing.T, db string) *sql.DB {
	t.Helper()
	c := expect.Value(sql.Open("sqlite3", db))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func want(t *testing.T, got []string, rows ...string) {
	t.Helper()
	if d := cmp.Diff(rows, got); d != "" {
		t.Error(d)
	}
}

// answers asks a database what testdata/queries.txt has for the test, and compares the rows.
func answers(t *testing.T, ask func(string) []string) {
	t.Helper()
	_, text, ok := strings.Cut(string(expect.Value(os.ReadFile("testdata/queries.txt"))(t)), "\n== "+t.Name()+"\n")
	if !ok {
		t.Fatal("there are no queries for this test")
	}
	text, _, _ = strings.Cut(text, "\n== ")
	for _, m := range regexp.MustCompile(`(?m)^(SELECT .*)\n((?:\t.*\n?)+)`).FindAllStringSubmatch(text, -1) {
		rows := strings.Split(strings.TrimSuffix(m[2], "\n"), "\n")
		for i := range rows {
			rows[i] = rows[i][1:] // without the tab
		}
		expect.NoDiff(t, ask(m[1]), rows, "%s", m[1])
	}
}

func save(t *testing.T, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "report.json")
	devtest.Must(t, os.WriteFile(p, []byte(text), 0o666))
	return p
}

func TestImportSample(t *testing.T) {
	_, ask := imported(t, Options{}, "../testdata/sample.json")
	answers(t, ask)
}

func TestSchema(t *testing.T) {
	_, ask := imported(t, Options{}, "../testdata/sample.json")
	text := expect.Value(os.ReadFile("testdata/columns.txt"))(t)
	for line := range strings.Lines(string(text)) {
		table, columns, _ := strings.Cut(strings.TrimSpace(line), " ")
		want(t, ask("SELECT group_concat(name) FROM pragma_table_info('"+table+"')"), columns)
	}
}

// Each of two hosts has numbers of its own.
func TestRecordsOfPython(t *testing.T) {
	path := "testdata/records.json"
	b, err := os.ReadFile(path)
	devtest.Must(t, err)
	sum, ask := imported(t, Options{}, path, save(t, strings.Replace(string(b), `"rank": 0`, `"rank": 1, "world_size": 2`, 1)))
	expect.Equal(t, len(sum.Warnings), 0, "warnings: %q", sum.Warnings)
	answers(t, ask)
}

func TestOlderDatabase(t *testing.T) {
	text, err := os.ReadFile("testdata/schema-2.1.sql")
	devtest.Must(t, err)
	db := filepath.Join(t.TempDir(), "db.sqlite")
	expect.Value(connect(t, db).Exec(string(text)))(t)
	_, ask := importedInto(t, db, Options{}, "../testdata/sample.json")
	answers(t, ask)
}

func TestImportErrorsAndInputs(t *testing.T) {
	p := "testdata/errors.json"
	_, ask := imported(t, Options{SVG: true}, p, p)
	answers(t, ask)
}

// An operation that failed ends before the next one begins: it has no buffers of later ones.
func TestFailedOperationEnds(t *testing.T) {
	paths := expect.Value(filepath.Glob("../testdata/ttnn/*/*[a-z].json"))(t)
	failed := 0
	for _, path := range paths {
		if strings.Contains(path, ".answers") {
			continue
		}
		r, err := read(t.Context(), path, graph.Limits{})
		devtest.Must(t, err)
		ops := newPlan(r, 0).ops
		for i := range ops[:max(len(ops), 1)-1] {
			if !ops[i].finished {
				failed++
			}
			if ops[i].end >= ops[i+1].start {
				t.Errorf("%s: %+v reaches into %+v", path, ops[i], ops[i+1])
			}
		}
	}
	if failed == 0 {
		t.Errorf("none of %q has an operation that failed before another one", paths)
	}
}

func TestImportRefuses(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	bad := filepath.Join(dir, "a.json")
	devtest.Must(t, os.WriteFile(bad, []byte(`{"version":9}`), 0o666))
	for _, p := range []string{bad, dir} {
		if _, err := Import(ctx, filepath.Join(t.TempDir(), "db.sqlite"), []string{p}, Options{}); !errors.Is(err, graph.ErrVersion) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if _, err := Import(ctx, filepath.Join(t.TempDir(), "db.sqlite"), []string{t.TempDir()}, Options{}); !errors.Is(err, ErrNoReports) {
		t.Errorf("an empty folder: %v", err)
	}
	// Python records beside a report are part of it: if they can't be read the report isn't
	// imported without them.
	report := save(t, `{"version":1,"graph":[]}`)
	devtest.Must(t, os.Mkdir(strings.TrimSuffix(report, ".json")+pythonSuffix, 0o777))
	expect.Says(t, expect.ErrOf(Import(ctx, filepath.Join(t.TempDir(), "db.sqlite"), []string{report}, Options{})), nil, "python_io")
}

func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			out[name+"/"] = ""
			return nil
		}
		b, err := os.ReadFile(path)
		out[name] = string(b)
		return err
	})
	devtest.Must(t, err)
	return out
}

func TestDatabaseIsCalledAsGiven(t *testing.T) {
	for _, name := range []string{"what?.sqlite", "a#b.sqlite", "50%3f.sqlite", "file:x.sqlite", ":memory:", "a b&mode=ro.sqlite"} {
		dir := t.TempDir()
		t.Chdir(dir) // names such as file:x have no folder in front
		relu(t, dir, "r.json", 1, 16)
		for range 2 { // the second finds it
			if _, err := Import(context.Background(), name, []string{"r.json"}, Options{}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		got := tree(t, dir)
		delete(got, "r.json")
		if text, ok := got[name]; !ok || len(got) != 1 || !strings.HasPrefix(text, "SQLite format 3") {
			t.Errorf("%s: there are %d other files, %d B in it", name, len(got)-1, len(text))
		}
	}
}

func TestFolderIsNoDatabase(t *testing.T) {
	dir := t.TempDir()
	relu(t, dir, "r.json", 1, 16)
	_, err := Import(context.Background(), dir, []string{filepath.Join(dir, "r.json")}, Options{})
	expect.Says(t, err, nil, "is a folder, want a database: name a file in it, such as "+filepath.Join(dir, "db.sqlite"))
}

func TestPicturesOfOneName(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	var paths []string
	for _, d := range []string{"a", "b", "c"} {
		devtest.Must(t, os.Mkdir(filepath.Join(dir, d), 0o777))
		relu(t, filepath.Join(dir, d), "r.json", 1, 16)
		paths = append(paths, filepath.Join(dir, d, "r.json"))
	}
	for range 2 { // the second draws the same ones
		sum, err := Import(context.Background(), filepath.Join(to, "db.sqlite"), paths, Options{SVG: true})
		devtest.Must(t, err)
		got := tree(t, to)
		for _, name := range []string{"db.sqlite", "graphs/", "graphs/r.svg", "graphs/r-2.svg", "graphs/r-3.svg"} {
			if _, ok := got[name]; !ok {
				t.Errorf("no %s", name)
			}
			delete(got, name)
		}
		if sum.SVG != 3 || len(got) > 0 {
			t.Errorf("%d pictures, and %v", sum.SVG, got)
		}
	}
}

func TestFailedImportLeavesNothing(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	relu(t, dir, "a.json", 1, 16)
	a, broken := filepath.Join(dir, "a.json"), save(t, `{"version":9}`)
	cluster := save(t, `{"version":1,"graph":[],"cluster_descriptor":"chips: 1"}`)
	try := func(what, db string, paths ...string) {
		t.Helper()
		before := tree(t, root)
		if _, err := Import(context.Background(), db, paths, Options{SVG: true}); err == nil {
			t.Errorf("%s: no error", what)
		}
		expect.NoDiff(t, tree(t, root), before, "%s", what)
	}
	db := filepath.Join(root, "new", "folder", "db.sqlite")
	try("into a new folder", db, a, cluster, broken)
	expect.Value(Import(context.Background(), db, []string{a, cluster}, Options{SVG: true}))(t)
	relu(t, dir, "a.json", 4, 4) // another picture
	try("into an old database", db, a, cluster, broken)
	relu(t, dir, "b.json", 4, 4)
	devtest.Must(t, os.Mkdir(filepath.Join(root, "new", "folder", "graphs", "b.svg"), 0o777))
	try("with a folder where a picture belongs", db, a, filepath.Join(dir, "b.json"))
	text := filepath.Join(root, "new", "folder", "text.sqlite")
	devtest.Must(t, os.WriteFile(text, []byte("this is no database, but a text of somebody"), 0o666))
	try("into a file that is no database", text, a)
}

func TestSourceFiles(t *testing.T) {
	dir := t.TempDir()
	model, secret, alias := filepath.Join(dir, "model.py"), filepath.Join(dir, "secret"), filepath.Join(dir, "alias.py")
	for path, text := range map[string]string{model: "import ttnn\n\xff", secret: "key"} {
		devtest.Must(t, os.WriteFile(path, []byte(text), 0o666))
	}
	devtest.Must(t, os.Symlink(secret, alias))
	devtest.Must(t, os.Mkdir(filepath.Join(dir, "d.py"), 0o777))
	var nodes []string
	for i, trace := range []string{
		`["  File \"` + model + `\", line 7, in forward", "  File \"` + secret + `\", line 1, in x"]`,
		`["` + model + `:9"]`,
		`["File \"` + secret + `\", line 1, in x"]`,
		`["File \"` + alias + `\", line 1, in x"]`,
		`["File \"` + filepath.Join(dir, "d.py") + `\", line 1, in x"]`,
		`["File \"` + filepath.Join(dir, "gone.py") + `\", line 1, in x"]`,
		`["/lib/libttnn.so(ttnn::add+0x123) [0x7f]"]`,
	} {
		nodes = append(nodes, `{"counter":`+strconv.Itoa(2*i)+
			`,"node_type":"function_start","params":{"name":"f"},"stacking_level":1,"connections":[`+strconv.Itoa(2*i+1)+`],"stack_trace":`+trace+
			`}`,
			`{"counter":`+strconv.Itoa(2*i+1)+`,"node_type":"function_end","params":{"name":"f"},"stacking_level":1}`)
	}
	report := save(t, `{"version":1,"graph":[`+strings.Join(nodes, ",")+`]}`)
	_, ask := imported(t, Options{}, report, report)
	real := expect.Value(filepath.EvalSymlinks(model))(t)
	want(t, ask("SELECT path, contents FROM source_files"), real+"|import ttnn\n\uFFFD")
	answers(t, ask)

	db := filepath.Join(t.TempDir(), "db.sqlite")
	for _, text := range []string{"first", "second"} {
		devtest.Must(t, os.WriteFile(model, []byte(text), 0o666))
		expect.Value(Import(context.Background(), db, []string{report}, Options{}))(t)
	}
	var text string
	if err := connect(t, db).QueryRow("SELECT group_concat(contents) FROM source_files").Scan(&text); err != nil || text != "second" {
		t.Errorf("after a second import: %q, %v", text, err)
	}
}

func TestSidecarsAreNoReports(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.json":           `{"version":1,"graph":[{"counter":0,"node_type":"function_start","params":{"name":"ttnn::add"},"arguments":["x"],"stacking_level":1,"connections":[1]},{"counter":1,"node_type":"function_end","params":{"name":"ttnn::add"},"stacking_level":1}]}`,
		"a.python_io.json": `[{"name":"ttnn.add","arguments":{"dtype":"bfloat16"}}]`,
	} {
		devtest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	sum, ask := imported(t, Options{}, dir)
	if sum.Files != 1 || len(sum.Warnings) != 0 {
		t.Errorf("%+v", sum)
	}
	answers(t, ask)
}

func TestParametersAsTheVisualizerWants(t *testing.T) {
	report := "testdata/parameters.json"
	_, ask := imported(t, Options{}, report)
	answers(t, ask)
}

func TestNumbersOfLayoutsAndDevices(t *testing.T) {
	report := "testdata/layouts.json"
	_, ask := imported(t, Options{}, report)
	answers(t, ask)
}

// The operands are those that graph_report.py of tt-metal finds.
func TestOperandsOfCaptures(t *testing.T) {
	for name, c := range map[string]struct{ in, out, buffers []string }{
		"matmul_planned":       {[]string{"ttnn.matmul|1"}, []string{"ttnn.matmul|5"}, []string{"ttnn.matmul|20480|1"}},
		"matmul_run":           {[]string{"ttnn.matmul|1"}, []string{"ttnn.matmul|5"}, []string{"ttnn.matmul|20480|1", "ttnn.matmul|4096|0"}},
		"sharded_add":          {[]string{"ttnn.add|7", "ttnn.add|9"}, []string{"ttnn.add|11"}, []string{"ttnn.add|32768|1"}},
		"sharded_add_in_place": {[]string{"ttnn.add|13", "ttnn.add|15"}, []string{"ttnn.add|13"}, []string{}},
		"conv2d": {[]string{"ttnn.conv2d|1", "ttnn.conv2d|12", "ttnn.conv2d|15", "ttnn.conv2d|3", "ttnn.conv2d|25", "ttnn.conv2d|26",
			"ttnn.conv2d|27", "ttnn.conv2d|28", "ttnn.conv2d|38"},
			[]string{"ttnn.conv2d|14", "ttnn.conv2d|41"}, []string{"ttnn.conv2d|262144|0"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, ask := imported(t, Options{}, "../testdata/tt-metal/"+name+".json")
			for table, rows := range map[string][]string{"input": c.in, "output": c.out} {
				want(t, ask(fmt.Sprintf("SELECT name, tensor_id FROM operations JOIN %s_tensors USING (operation_id) ORDER BY operation_id, %s_index",
					table, table)), rows...)
			}
			want(t, ask("SELECT name, max_size_per_bank, buffer_type FROM operations JOIN buffers USING (operation_id) ORDER BY operation_id, address"), c.buffers...)
		})
	}
}

func TestDeallocateTakesItsTensor(t *testing.T) {
	for _, format := range writtenFormats {
		_, ask := imported(t, Options{}, recorded(t, graph.Config{Format: format, StackTraces: true}, func(r *graph.Recorder) {
			a, b := tensor(7, buffer(1, graph.L1, 1000, 2048)), tensor(8, buffer(2, graph.L1, 1000, 2048))
			r.Begin("ttnn::relu", arg(a, b)...)
			r.End()
			r.Begin("ttnn.deallocate")
			r.Begin("Tensor::deallocate")
			r.Deallocate(a.Buffer)
			r.End()
			r.End()
			r.Deallocate(b.Buffer)
		}))
		answers(t, ask)
	}
}

func TestArchOfNodeLists(t *testing.T) {
	sum, ask := imported(t, Options{Arch: "blackhole"}, "../testdata/tt-metal/matmul_run.json")
	want(t, ask("SELECT device_id, num_x_cores, num_y_cores, l1_num_banks, worker_l1_size, address_at_first_l1_cb_buffer, cb_limit FROM devices ORDER BY 1"),
		"0|11|10|110|1572864|111616|1461248")
	want(t, ask("SELECT DISTINCT device_id FROM buffers UNION SELECT device_id FROM tensors UNION SELECT device_id FROM device_tensors"), "0")
	expect.Equal(t, len(sum.Warnings), 0, "warnings %q", sum.Warnings)
	text := expect.Value(os.ReadFile("../testdata/tt-metal/matmul_run.json"))(t)
	_, ask = imported(t, Options{}, save(t, strings.Replace(string(text), `"graph":`, `"devices":[{"device_id":0}],"graph":`, 1)))
	want(t, ask("SELECT DISTINCT device_id FROM buffers UNION SELECT device_id FROM devices"), "0")
	sum, ask = imported(t, Options{Arch: "wormhole"}, "testdata/nodes.json")
	want(t, ask("SELECT devices.device_id, l1_num_banks, address FROM buffers JOIN devices USING (device_id)"), "0|64|64")
	expect.Equal(t, len(sum.Warnings), 0, "nodes without devices: warnings %q", sum.Warnings)
	_, ask = imported(t, Options{Arch: "wormhole"}, save(t, `{"version":1,"devices":[{"device_id":4,"l1_num_banks":7}],"graph":[]}`))
	want(t, ask("SELECT device_id, l1_num_banks FROM devices"), "0|7")
	if _, err := Import(t.Context(), t.TempDir()+"/db.sqlite", []string{"../testdata/sample.json"},
		Options{Arch: "z80"}); !errors.Is(err, graph.ErrArch) {
		t.Errorf("an unknown architecture: %v", err)
	}
}

func TestBufferMaxSizePerBank(t *testing.T) {
	devices := []graph.Device{{L1Banks: 64, DRAMChannels: 12}}
	for _, c := range []struct {
		size, cores  int64
		kind, layout string
		devices      []graph.Device
		want         int64
	}{
		{2097152, 0, "DRAM", "INTERLEAVED", devices, 176128},
		{65536, 0, "L1", "INTERLEAVED", devices, 2048},
		{26624, 0, "DRAM", "INTERLEAVED", devices, 4096},
		{4096, 0, "DRAM", "INTERLEAVED", nil, 4096},
		{32768, 8, "L1", "HEIGHT_SHARDED", devices, 4096},
	} {
		p := newPlan(&graph.Report{Graph: &graph.Graph{}, Devices: c.devices}, 0)
		q := graph.Params{"size": fmt.Sprint(c.size), "page_size": "2048", "num_cores": fmt.Sprint(c.cores), "type": c.kind,
			"layout": c.layout}
		expect.Equal(t, p.perBank(&graph.Node{Params: q}, 0), c.want, "%+v", c)
	}
}

func TestPagesBelongToOperations(t *testing.T) {
	p := "testdata/pages.json"
	_, ask := imported(t, Options{}, p)
	answers(t, ask)
}

func TestPagesOfEachChip(t *testing.T) {
	on := func(id uint64, chip int64, cores ...int64) *graph.Buffer {
		b := buffer(id, graph.L1, 64, 2048*int64(len(cores)))
		b.Device = int(chip)
		b.Pages = func() (out []graph.Page) {
			for i, x := range cores {
				out = append(out, graph.Page{Device: chip, Address: 64, PageAddr: 64, PageSize: 2048, CoreX: x, Index: int64(i),
					BufferType: 1})
			}
			return out
		}
		return b
	}
	_, ask := imported(t, Options{}, recorded(t, graph.Config{BufferPages: true}, func(r *graph.Recorder) {
		first, other := on(1, 1, 3), on(2, 0, 5)
		r.Begin("ttnn::first")
		r.Allocate(first)
		r.Allocate(other)
		r.End()
		r.Begin("ttnn::second")
		r.Deallocate(first)
		r.Allocate(on(3, 1, 6, 7))
		r.End()
	}))
	answers(t, ask)
}

func TestOtherForms(t *testing.T) {
	p := "testdata/forms.json"
	sum, ask := imported(t, Options{}, p)
	answers(t, ask)
	var warnings []string
	for _, w := range sum.Warnings {
		warnings = append(warnings, strings.TrimPrefix(w, p+": not read: "))
	}
	want(t, warnings, "2 buffers name devices that aren't there", "graph.connections of nodes that are missing (1×)", "graph.rank (2×)",
		"later (1×)", "per_operation_buffers of nodes that are missing (1×)", "per_operation_buffers with type ROM (1×)",
		"python_io.rank (1×)")
}

func TestSizesOfTensors(t *testing.T) {
	path := recorded(t, graph.Config{}, func(r *graph.Recorder) {
		at := func(id uint64, kind graph.BufferType, address uint64, size int64) *graph.Tensor {
			b := buffer(id, kind, address, size)
			b.MaxPerBank = size
			return tensor(id, b)
		}
		run := func(out *graph.Tensor, in ...*graph.Tensor) {
			r.Begin("ttnn::relu", arg(in...)...)
			r.Allocate(out.Buffer)
			r.End(out)
		}
		weights, unknown := at(1, graph.L1, 0x8000, 4096), at(2, graph.L1, 0x9000, 4096)
		first, next, dram := at(3, graph.L1, 0x1000, 2048), at(4, graph.L1, 0x1000, 6144), at(5, graph.DRAM, 0x9000, 8192)
		run(first, weights, unknown)
		r.Deallocate(first.Buffer)
		run(next)
		run(dram, next)
	}, func(p *graph.Report) {
		p.OperationBuffers = map[int][]graph.OperationBuffer{}
		for _, c := range p.Graph.Calls() {
			p.OperationBuffers[c.Start] = []graph.OperationBuffer{{Address: 0x8000, MaxPerBank: 4096, Type: int(graph.L1)}}
		}
	})
	rows := []string{"1|4096", "2|", "3|2048", "4|6144", "5|8192"}
	_, ask := imported(t, Options{}, path)
	want(t, ask("SELECT tensor_id, size FROM tensors ORDER BY 1"), rows...)

	// tt-metal's table has no sizes; a report can still be added to it.
	db := filepath.Join(t.TempDir(), "db.sqlite")
	c := connect(t, db)
	expect.Value(c.Exec("CREATE TABLE tensors (tensor_id int UNIQUE, shape text, dtype text, layout text, memory_config text, device_id int, address int, buffer_type int)"))(t)
	sum, err := Import(t.Context(), db, []string{path}, Options{})
	devtest.Must(t, err)
	var n int
	if err := c.QueryRow("SELECT count(*) FROM tensors WHERE buffer_type IN (0, 1)").Scan(&n); err != nil || n != len(rows) ||
		sum.Tensors != n {
		t.Errorf("%d tensors in a table without sizes, %v, summary %d", n, err, sum.Tensors)
	}
}

func relu(t *testing.T, dir, name string, shape ...int) {
	t.Helper()
	tensor := func(id uint64) *graph.Tensor {
		b := &graph.Buffer{ID: id, Type: graph.L1, Size: 64, PageSize: 64, Address: 0x1000 * id}
		return &graph.Tensor{ID: id, Shape: shape, DType: "DataType::INT32", Layout: "Layout::ROW_MAJOR", Buffer: b}
	}
	r := graph.NewRecorder(graph.Config{})
	r.Begin("ttnn::relu", graph.Arg{Text: "Tensor(...)", Tensors: []*graph.Tensor{tensor(1)}})
	r.End(tensor(2))
	report, err := r.Finish()
	devtest.Must(t, err)
	report.Python = []graph.PythonRecord{{Name: "ttnn.relu", Inputs: []int64{1}, Outputs: []int64{2}}}
	var text bytes.Buffer
	devtest.Must(t, report.Encode(&text))
	devtest.Must(t, os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o666))
}

func TestTensorsOfSeveralReports(t *testing.T) {
	dir := t.TempDir()
	relu(t, dir, "a.json", 1, 16)
	relu(t, dir, "b.json", 1, 16)
	relu(t, dir, "c.json", 4, 4)
	sum, rows := imported(t, Options{}, dir)
	answers(t, rows)
	if len(sum.Warnings) != 1 || !strings.Contains(sum.Warnings[0], "c.json: 2 tensors") {
		t.Errorf("warnings %q", sum.Warnings)
	}
}

func TestNewNumbersOfTensors(t *testing.T) {
	report := func(shape string, ids ...string) *graph.Report {
		r := &graph.Report{Graph: new(graph.Graph)}
		for _, id := range ids {
			r.Graph.Nodes = append(r.Graph.Nodes, graph.Node{Type: graph.TensorNode,
				Params: graph.Params{graph.ParamTensorID: id, graph.ParamShape: shape}})
		}
		return r
	}
	for _, c := range []struct {
		name      string
		ids, want []string
	}{
		{"in order", []string{"1", "2", "1"}, []string{"3", "4", "3"}},
		{"below 0", []string{"-5", "-4", "-5"}, []string{"1", "2", "1"}},
		{"the greatest", []string{"9223372036854775807", "2", "9223372036854775807"}, []string{"1", "3", "1"}},
		{"up to the greatest", []string{"9223372036854775806"}, []string{"9223372036854775807"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n tensorIDs
			n.distinct(report("one", c.ids...))
			r := report("another", c.ids...)
			n.distinct(r)
			var got []string
			for i := range r.Graph.Nodes {
				got = append(got, r.Graph.Nodes[i].Params[graph.ParamTensorID])
			}
			want(t, got, c.want...)
		})
	}
}

// These are upstream's tests of its importer (test_graph_report.py), with their values.

func recorded(t testing.TB, cfg graph.Config, f func(*graph.Recorder), edit ...func(*graph.Report)) string {
	t.Helper()
	tick := time.Unix(1700000000, 0)
	cfg.Now = func() time.Time { tick = tick.Add(time.Millisecond); return tick }
	r := graph.NewRecorder(cfg)
	for id := range int64(2) {
		r.Device(graph.Device{ID: id, L1Banks: 64, DRAMChannels: 12, WorkerL1Size: 1499136, FirstCircularBuffer: 103712})
	}
	f(r)
	p, err := r.Finish()
	devtest.Must(t, err)
	for _, e := range edit {
		e(p)
	}
	name := filepath.Join(t.TempDir(), "report.json")
	out := expect.Value(os.Create(name))(t)
	defer out.Close()
	devtest.Must(t, p.Encode(out))
	return name
}

func buffer(id uint64, t graph.BufferType, address uint64, size int64) *graph.Buffer {
	return &graph.Buffer{ID: id, Type: t, Address: address, Size: size, PageSize: 2048}
}

func tensor(id uint64, b *graph.Buffer) *graph.Tensor {
	t := &graph.Tensor{ID: id, Shape: []int{1, 1, 32, 32}, DType: "DataType::BFLOAT16", Layout: "Layout::TILE", Size: 2048, Buffer: b}
	if b != nil {
		t.MemoryConfig = "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1)"
	}
	return t
}

func arg(ts ...*graph.Tensor) []graph.Arg {
	var out []graph.Arg
	for _, t := range ts {
		out = append(out, graph.Arg{Text: "Tensor()", Tensors: []*graph.Tensor{t}})
	}
	return out
}

var writtenFormats = []graph.Format{graph.Format2026v1, graph.Format2026v2}

// Outputs are the tensors of a function's end, in order; inputs are ids and not counters; arguments
// are rows; a tensor has all its fields.
func TestUpstreamOperation(t *testing.T) {
	for _, format := range writtenFormats {
		_, ask := imported(t, Options{}, recorded(t, graph.Config{Format: format}, func(r *graph.Recorder) {
			in, one, two := tensor(42, buffer(1, graph.L1, 1000, 2048)), tensor(201, buffer(2, graph.L1, 12345, 4096)), tensor(202, nil)
			args := append(arg(in), graph.Arg{Text: "Shape([1, 4, 2048, 128])"}, graph.Arg{Text: "nullopt"})
			r.Begin("ttnn::split", args...)
			r.Allocate(one.Buffer)
			r.End(one, two)
		}))
		answers(t, ask)
		expect.Equal(t, ask("SELECT count(*) > 0 FROM edges")[0], "1", "are there edges")
	}
}

func TestUpstreamBufferTypes(t *testing.T) {
	_, ask := imported(t, Options{}, recorded(t, graph.Config{}, func(r *graph.Recorder) {
		r.Begin("ttnn::all")
		for i, k := range []graph.BufferType{graph.DRAM, graph.L1, graph.SystemMemory, graph.L1Small, graph.TraceMemory} {
			r.Allocate(buffer(uint64(i), k, uint64(1000*i+1000), 2048))
		}
		r.End()
	}))
	answers(t, ask)
}

func TestUpstreamCumulativeBuffers(t *testing.T) {
	for _, c := range []graph.Config{{Format: graph.Format2026v1}, {Format: graph.Format2026v2}, {OperationBuffers: true}} {
		_, ask := imported(t, Options{}, recorded(t, c, func(r *graph.Recorder) {
			for i := range uint64(3) {
				r.Begin("ttnn::next")
				r.Allocate(buffer(i, graph.L1, 1000*i+1000, 2048))
				r.End()
			}
		}))
		answers(t, ask)
	}
}

func TestUpstreamDeviceTensors(t *testing.T) {
	_, ask := imported(t, Options{}, recorded(t, graph.Config{}, func(r *graph.Recorder) {
		x, y := tensor(5, buffer(1, graph.L1, 1374208, 2048)), tensor(6, buffer(2, graph.L1, 2000, 2048))
		one := 1
		x.Devices = []graph.DeviceTensor{{Address: 1374208, Device: 0}, {Address: 1374208 + 64, Device: 1}}
		y.Devices = []graph.DeviceTensor{{Address: 2000, Device: 0}, {Address: 2064, Device: 0, MeshDevice: &one}}
		r.Begin("ttnn::add", arg(x)...)
		r.End(y)
	}))
	answers(t, ask)
}

func TestUpstreamValidation(t *testing.T) {
	sum, _ := imported(t, Options{}, recorded(t, graph.Config{}, func(r *graph.Recorder) {
		r.Begin("ttnn::add", arg(tensor(1, nil))...)
		r.End(tensor(2, nil))
	}))
	expect.Equal(t, len(sum.Warnings), 0, "warnings about a clean report: %q", sum.Warnings)
	sum, _ = imported(t, Options{}, recorded(t, graph.Config{}, func(r *graph.Recorder) { r.Begin("ttnn::add"); r.End() },
		func(p *graph.Report) {
			p.Python = []graph.PythonRecord{{Name: "ttnn.add", Outputs: []int64{99999}}}
		}))
	if !slices.ContainsFunc(sum.Warnings, func(w string) bool { return strings.Contains(w, "outputs of operations") }) {
		t.Errorf("warnings about an output that is nowhere: %q", sum.Warnings)
	}
}

func TestUpstreamLinearModel(t *testing.T) {
	_, ask := imported(t, Options{}, recorded(t, graph.Config{Format: graph.Format2026v1}, func(r *graph.Recorder) {
		var in []*graph.Tensor
		for i, b := range []*graph.Buffer{
			buffer(1, graph.DRAM, 1920032, 2097152), buffer(2, graph.DRAM, 2096160, 2097152), buffer(3, graph.DRAM, 2272288, 65536),
		} {
			r.Begin("ttnn::to_device", arg(tensor(uint64(2*i), nil))...)
			r.Allocate(b)
			in = append(in, tensor(uint64(2*i+1), b))
			r.End(in[i])
		}
		out := tensor(6, buffer(4, graph.DRAM, 2278432, 2097152))
		r.Begin("ttnn::linear", arg(in...)...)
		r.Begin("MatmulDeviceOperation", arg(in...)...)
		r.Allocate(out.Buffer)
		r.Allocate(buffer(5, graph.DRAM, 2454560, 26624))
		r.End(out)
		r.End(out)
	}))
	answers(t, ask)
}

func TestUpstreamFilesBeside(t *testing.T) {
	path := recorded(t, graph.Config{StackTraces: true}, func(r *graph.Recorder) { r.Begin("ttnn::add"); r.End() }, func(p *graph.Report) {
		p.ClusterDescriptor, p.MeshMapping = "arch: [wormhole_b0]\n", "chips: {0: [0,0,0,0]}\n"
		p.Graph.Nodes[1].StackTrace = []string{`File "model.py", line 7, in frame1`, "frame2"}
	})
	dir := t.TempDir()
	expect.Value(Import(context.Background(), filepath.Join(dir, "db.sqlite"), []string{path}, Options{SVG: true}))(t)
	var got []string
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			got = append(got, filepath.ToSlash(rel))
		}
		return err
	})
	devtest.Must(t, err)
	for _, f := range []string{"cluster_descriptor.yaml", "db.sqlite", "graphs/report.svg"} {
		if !slices.Contains(got, f) {
			t.Errorf("no %s among %q", f, got)
		}
	}
	if !slices.ContainsFunc(got, func(f string) bool {
		return strings.HasPrefix(f, "physical_chip_mesh_coordinate_mapping") && strings.HasSuffix(f, ".yaml")
	}) {
		t.Errorf("no mapping of the mesh among %q", got)
	}
	_, ask := imported(t, Options{}, path)
	if d := ask("SELECT stack_trace FROM stack_traces"); len(d) != 1 || !strings.Contains(d[0], "frame1") {
		t.Error(cmp.Diff([]string{"frame1"}, d))
	}
}

func FuzzImport(f *testing.F) {
	sample, err := os.ReadFile("../testdata/sample.json")
	devtest.Must(f, err)
	f.Add(sample)
	for _, format := range writtenFormats {
		text, err := os.ReadFile(recorded(f, graph.Config{Format: format, OperationBuffers: true, BufferPages: true},
			func(r *graph.Recorder) {
				x := tensor(1, buffer(1, graph.L1, 64, 4096))
				x.Buffer.Pages = func() []graph.Page {
					return []graph.Page{{Address: 64, PageAddr: 64, PageSize: 2048, BufferType: 1}}
				}
				r.Begin("ttnn::add", arg(x)...)
				r.Begin("inner")
				r.Allocate(x.Buffer)
				r.Program(0, graph.CircularBuffer{Size: 64, Cores: []graph.CoreRange{{X1: 3, Y1: 3}}})
				r.Error("kind", "what", "ttnn::add")
				r.End(x)
				r.End(x)
				r.Deallocate(x.Buffer)
				r.Begin("hangs")
			}))
		devtest.Must(f, err)
		f.Add(text)
	}
	f.Add([]byte(`{"version":1,"graph":[{"counter":0,"node_type":"function_start","connections":[-1,7,0],"input_tensors":[0,9223372036854775807]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "report.json")
		devtest.Must(t, os.WriteFile(path, text, 0o666))
		db := filepath.Join(dir, "db.sqlite")
		if _, err := Import(context.Background(), db, []string{path},
			Options{Limits: graph.Limits{Bytes: 1 << 20, Nodes: 1000}}); err != nil {
			return
		}
		c := connect(t, db)
		for _, table := range []string{"operation_arguments", "input_tensors", "output_tensors", "buffers", "captured_graph", "stack_traces",
			"nodes", "edges"} {
			var n int
			expect.Must(t, c.QueryRow("SELECT count(*) FROM "+table+
				" WHERE operation_id NOT IN (SELECT operation_id FROM operations)").Scan(&n))
			expect.Equal(t, n, 0, "rows of %s belong to no operation", table)
		}
		var bad int
		if err := c.QueryRow("SELECT count(*) FROM captured_graph WHERE NOT json_valid(captured_graph)").Scan(&bad); err != nil || bad != 0 {
			t.Errorf("%d graphs that aren't JSON, %v", bad, err)
		}
	})
}
