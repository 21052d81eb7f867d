package visualizer

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/devtest"
)

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
	report := save(t, `{"version":1,"graph":[
	{"counter":0,"node_type":"function_start","params":{"name":"f"},"stacking_level":1,"connections":[1,2,3,4]},
	{"counter":1,"node_type":"circular_buffer_allocate","params":{"size":64,"core_range_set":[{"start":{"x":0,"y":0},"end":{"x":3,"y":0}},{"start":{"x":1,"y":2},"end":{"x":1,"y":2}}],"globally_allocated":"false"},"stacking_level":1},
	{"counter":2,"node_type":"circular_buffer_allocate","params":{"size":64,"core_range_set":"{[(x=0,y=0) - (x=0,y=7)]}","globally_allocated":true},"stacking_level":1},
	{"counter":3,"node_type":"circular_buffer_allocate","params":{"size":64,"core_range_set":"[]","globally_allocated":1},"stacking_level":1},
	{"counter":4,"node_type":"function_end","params":{"name":"f"},"stacking_level":1}]}`)
	_, ask := imported(t, Options{}, report)
	want(t, ask("SELECT json_extract(value, '$.params.core_range_set'), json_extract(value, '$.params.globally_allocated') FROM captured_graph, json_each(captured_graph) WHERE value LIKE '%circular%'"),
		"{[0-0 - 3-0], [1-2 - 1-2]}|0", "{[(x=0,y=0) - (x=0,y=7)]}|1", "{}|1")
}

func TestNumbersOfLayoutsAndDevices(t *testing.T) {
	report := save(t, `{"version":1,"devices":[{"device_id":9},{"device_id":4}],
	"buffer_pages":[{"device_id":9,"address":1000,"page_address":1,"page_size":64,"buffer_type":1}],
	"buffer_pages_by_address":{"2000":[{"alloc_counter":4,"pages":[{"device_id":9,"address":2000,"page_address":2,"page_size":64,"buffer_type":1}]}]},"graph":[
	{"counter":0,"node_type":"function_start","params":{"name":"f"},"stacking_level":1,"connections":[2,4,6,8,9]},
	{"counter":1,"node_type":"buffer","params":{"size":64,"type":"L1","device_id":9},"stacking_level":1},
	{"counter":2,"node_type":"buffer_allocate","params":{"size":64,"type":"L1","layout":"INTERLEAVED","address":1000,"device_id":9},"connections":[1],"stacking_level":1},
	{"counter":3,"node_type":"buffer","params":{"size":64,"type":"L1","device_id":9},"stacking_level":1},
	{"counter":4,"node_type":"buffer_allocate","params":{"size":64,"type":"L1","layout":"HEIGHT_SHARDED","address":2000,"device_id":9},"connections":[3],"stacking_level":1},
	{"counter":5,"node_type":"buffer","params":{"size":64,"type":"L1","device_id":9},"stacking_level":1},
	{"counter":6,"node_type":"buffer_allocate","params":{"size":64,"type":"L1","layout":"WIDTH_SHARDED","address":3000,"device_id":9},"connections":[5],"stacking_level":1},
	{"counter":7,"node_type":"buffer","params":{"size":64,"type":"L1","device_id":4},"stacking_level":1},
	{"counter":8,"node_type":"buffer_allocate","params":{"size":64,"type":"L1","layout":"BLOCK_SHARDED","address":4000,"device_id":4},"connections":[7],"stacking_level":1},
	{"counter":9,"node_type":"function_end","params":{"name":"f"},"stacking_level":1}]}`)
	_, ask := imported(t, Options{}, report)
	want(t, ask("SELECT device_id, address, buffer_layout FROM buffers ORDER BY address"), "1|1000|0", "1|2000|2", "1|3000|3", "0|4000|4")
	want(t, ask("SELECT device_id, address, page_address FROM buffer_pages ORDER BY address"), "1|1000|1", "1|2000|2")
	want(t, ask("SELECT DISTINCT json_extract(value, '$.params.device_id') FROM captured_graph, json_each(captured_graph) WHERE value LIKE '%buffer%' ORDER BY 1"), "0", "1")
}
