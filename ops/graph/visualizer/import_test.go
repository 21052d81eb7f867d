package visualizer

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
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
	for table, columns := range map[string]string{
		"operations": "operation_id,name,duration", "operation_arguments": "operation_id,name,value",
		"tensors":        "tensor_id,shape,dtype,layout,memory_config,device_id,address,buffer_type,size",
		"device_tensors": "tensor_id,device_id,address", "buffers": "operation_id,device_id,address,max_size_per_bank,buffer_type,buffer_layout",
		"captured_graph": "operation_id,captured_graph", "nodes": "operation_id,unique_id,node_operation_id,name",
		"edges":           "operation_id,source_unique_id,sink_unique_id,source_output_index,sink_input_index,key",
		"report_metadata": "key,value", "errors": "operation_id,operation_name,error_type,error_message,stack_trace,timestamp",
		"source_files": "id,path,contents", "stack_traces": "operation_id,stack_trace,source_file_id",
		"input_tensors": "operation_id,input_index,tensor_id", "output_tensors": "operation_id,output_index,tensor_id",
		"local_tensor_comparison_records":  "tensor_id,golden_tensor_id,matches,desired_pcc,actual_pcc",
		"global_tensor_comparison_records": "tensor_id,golden_tensor_id,matches,desired_pcc,actual_pcc",
		"buffer_pages":                     "operation_id,device_id,address,core_y,core_x,bank_id,page_index,page_address,page_size,buffer_type",
		"devices": "device_id,num_y_cores,num_x_cores,num_y_compute_cores,num_x_compute_cores,worker_l1_size,l1_num_banks,l1_bank_size,address_at_first_l1_bank," +
			"address_at_first_l1_cb_buffer,num_banks_per_storage_core,num_compute_cores,num_storage_cores,total_l1_memory,total_l1_for_tensors," +
			"total_l1_for_interleaved_buffers,total_l1_for_sharded_buffers,cb_limit",
	} {
		want(t, ask("SELECT group_concat(name) FROM pragma_table_info('"+table+"')"), columns)
	}
}

func TestImportErrorsAndInputs(t *testing.T) {
	p := save(t, `{"version":1,"devices":[{"device_id":4,"l1_num_banks":64,"num_dram_channels":12}],"graph":[
	{"counter":0,"node_type":"capture_start","stacking_level":0},
	{"counter":1,"node_type":"function_start","params":{"name":"f"},"arguments":["a","b"],"input_tensors":[2,99],"stacking_level":1,"connections":[3,4,5]},
	{"counter":2,"node_type":"tensor","params":{"tensor_id":77,"device_id":4,"dtype":"DataType::BFLOAT16","buffer_type_value":1},"stacking_level":1},
	{"counter":3,"node_type":"buffer","params":{"size":26624,"device_id":4},"stacking_level":1},
	{"counter":4,"node_type":"buffer_allocate","params":{"size":26624,"page_size":2048,"num_cores":0,"address":12345,"type":"DRAM","layout":"INTERLEAVED","device_id":4},"connections":[3],"stacking_level":1},
	{"counter":5,"node_type":"error","params":{"error_type":"TestError","error_message":"m","error_operation":"f"},"stacking_level":2},
	{"counter":6,"node_type":"function_end","params":{"name":"f"},"duration_ns":1500000,"stacking_level":1},
	{"counter":7,"node_type":"function_start","params":{"name":"hangs"},"stacking_level":1}]}`)
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
