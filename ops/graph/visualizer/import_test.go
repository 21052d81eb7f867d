package visualizer

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops/graph"
)

func imported(t *testing.T, o Options, paths ...string) (*Summary, func(string) []string) {
	t.Helper()
	db := filepath.Join(t.TempDir(), "db.sqlite")
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
	c, err := sql.Open("sqlite3", db)
	devtest.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func want(t *testing.T, got []string, rows ...string) {
	t.Helper()
	if d := cmp.Diff(rows, got); d != "" {
		t.Error(d)
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
	want(t, ask("SELECT operation_id, name FROM operations"), "1|ttnn::add", "2|ttnn::deallocate")
	want(t, ask("SELECT operation_id, address, max_size_per_bank, buffer_type FROM buffers"), "1|0|24576|1")
	want(t, ask("SELECT count(*) FROM tensors"), "0")
	want(t, ask("SELECT value FROM report_metadata WHERE key = 'schema_version'"), "2.1")
	want(t, ask("SELECT count(*) FROM edges e WHERE sink_unique_id >= (SELECT json_array_length(captured_graph) FROM captured_graph c WHERE c.operation_id = e.operation_id)"), "0")
	want(t, ask("SELECT json_extract(captured_graph, '$[1].params.name'), json_extract(captured_graph, '$[1].id') FROM captured_graph WHERE operation_id = 1"), "ttnn::add|1")
}

func TestSchema(t *testing.T) {
	_, ask := imported(t, Options{}, "../testdata/sample.json")
	text, err := os.ReadFile("testdata/columns.txt")
	devtest.Must(t, err)
	for line := range strings.Lines(string(text)) {
		table, columns, _ := strings.Cut(strings.TrimSpace(line), " ")
		want(t, ask("SELECT group_concat(name) FROM pragma_table_info('"+table+"')"), columns)
	}
}

func TestImportErrorsAndInputs(t *testing.T) {
	p := "testdata/errors.json"
	_, ask := imported(t, Options{SVG: true}, p, p)
	want(t, ask("SELECT * FROM operations WHERE operation_id < 10000"), "1|f|0.0015", "2|hangs|0")
	want(t, ask("SELECT operation_id, operation_name, error_type, error_message FROM errors WHERE operation_id < 10000 ORDER BY 1"),
		"1|f|TestError|m", "2|hangs|incomplete_operation|the operation began and didn't end")
	want(t, ask("SELECT * FROM input_tensors WHERE operation_id < 10000"), "1|0|77")
	want(t, ask("SELECT tensor_id, dtype, device_id, buffer_type FROM tensors"), "77|DataType.BFLOAT16|0|1")
	want(t, ask("SELECT * FROM operation_arguments WHERE operation_id = 1"), "1|arg_0|a", "1|arg_1|b")
	want(t, ask("SELECT device_id, address, max_size_per_bank FROM buffers WHERE operation_id = 1"), "0|12345|4096") // 13 pages on 12 channels
	want(t, ask("SELECT device_id FROM devices"), "0")
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
	if _, err := Import(ctx, filepath.Join(t.TempDir(), "db.sqlite"), []string{report}, Options{}); err == nil ||
		!strings.Contains(err.Error(), "python_io") {
		t.Errorf("records that can't be read: %v", err)
	}
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
	if err == nil || !strings.Contains(err.Error(), "is a folder, want a database: name a file in it, such as "+
		filepath.Join(dir, "db.sqlite")) {
		t.Error(err)
	}
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
		if d := cmp.Diff(before, tree(t, root)); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	db := filepath.Join(root, "new", "folder", "db.sqlite")
	try("into a new folder", db, a, cluster, broken)
	if _, err := Import(context.Background(), db, []string{a, cluster}, Options{SVG: true}); err != nil {
		t.Fatal(err)
	}
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
	real, err := filepath.EvalSymlinks(model)
	devtest.Must(t, err)
	want(t, ask("SELECT path, contents FROM source_files"), real+"|import ttnn\n\uFFFD")
	want(t, ask("SELECT operation_id, source_file_id FROM stack_traces WHERE operation_id < 10000 ORDER BY 1"), "1|1", "2|1", "3|", "4|",
		"5|", "6|", "7|")
	want(t, ask("SELECT count(*) FROM stack_traces s JOIN source_files f ON s.source_file_id = f.id WHERE s.operation_id > 10000"), "2")

	db := filepath.Join(t.TempDir(), "db.sqlite")
	for _, text := range []string{"first", "second"} {
		devtest.Must(t, os.WriteFile(model, []byte(text), 0o666))
		if _, err := Import(context.Background(), db, []string{report}, Options{}); err != nil {
			t.Fatal(err)
		}
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
	want(t, ask("SELECT * FROM operation_arguments"), "1|dtype|bfloat16")
}

func TestParametersAsTheVisualizerWants(t *testing.T) {
	report := "testdata/parameters.json"
	_, ask := imported(t, Options{}, report)
	want(t, ask("SELECT json_extract(value, '$.params.core_range_set'), json_extract(value, '$.params.globally_allocated') FROM captured_graph, json_each(captured_graph) WHERE value LIKE '%circular%'"),
		"{[0-0 - 3-0], [1-2 - 1-2]}|0", "{[(x=0,y=0) - (x=0,y=7)]}|1", "{}|1")
}

func TestNumbersOfLayoutsAndDevices(t *testing.T) {
	report := "testdata/layouts.json"
	_, ask := imported(t, Options{}, report)
	want(t, ask("SELECT device_id, address, buffer_layout FROM buffers ORDER BY address"), "1|1000|0", "1|2000|2", "1|3000|3", "0|4000|4")
	want(t, ask("SELECT device_id, address, page_address FROM buffer_pages ORDER BY address"), "1|1000|1", "1|2000|2")
	want(t, ask("SELECT DISTINCT json_extract(value, '$.params.device_id') FROM captured_graph, json_each(captured_graph) WHERE value LIKE '%buffer%' ORDER BY 1"), "0", "1")
}
