package visualizer

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/ops/graph"
)

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
		want(t, ask("SELECT operation_id, name, tensor_id FROM operations JOIN input_tensors USING (operation_id) WHERE operation_id > 1 ORDER BY 1"),
			"2|ttnn.deallocate|7", "3|ttnn::deallocate|8")
		want(t, ask("SELECT count(*) FROM operations JOIN stack_traces USING (operation_id) WHERE name = 'ttnn::deallocate' AND stack_trace LIKE '%captures_test.go%'"), "1")
	}
}

func TestArchOfNodeLists(t *testing.T) {
	sum, ask := imported(t, Options{Arch: "blackhole"}, "../testdata/tt-metal/matmul_run.json")
	want(t, ask("SELECT device_id, num_x_cores, num_y_cores, l1_num_banks, worker_l1_size, address_at_first_l1_cb_buffer, cb_limit FROM devices ORDER BY 1"),
		"0|11|10|110|1572864|111616|1461248")
	want(t, ask("SELECT DISTINCT device_id FROM buffers UNION SELECT device_id FROM tensors UNION SELECT device_id FROM device_tensors"), "0")
	if len(sum.Warnings) != 0 {
		t.Errorf("warnings %q", sum.Warnings)
	}
	text, err := os.ReadFile("../testdata/tt-metal/matmul_run.json")
	if err != nil {
		t.Fatal(err)
	}
	_, ask = imported(t, Options{}, save(t, strings.Replace(string(text), `"graph":`, `"devices":[{"device_id":0}],"graph":`, 1)))
	want(t, ask("SELECT DISTINCT device_id FROM buffers UNION SELECT device_id FROM devices"), "0")
	sum, ask = imported(t, Options{Arch: "wormhole"}, save(t,
		`[{"counter":0,"node_type":"capture_start","connections":[1]},{"counter":1,"node_type":"function_start","params":{"name":"ttnn::add"},"connections":[2,4]},
	{"counter":2,"node_type":"buffer","params":{"size":"64","type":"L1"},"connections":[]},{"counter":3,"node_type":"buffer_allocate","params":{"address":"64","size":"64","type":"L1"},"connections":[2]},
	{"counter":4,"node_type":"function_end","params":{"name":"ttnn::add"},"connections":[5]},{"counter":5,"node_type":"capture_end","connections":[]}]`))
	want(t, ask("SELECT devices.device_id, l1_num_banks, address FROM buffers JOIN devices USING (device_id)"), "0|64|64")
	if len(sum.Warnings) != 0 {
		t.Errorf("nodes without devices: warnings %q", sum.Warnings)
	}
	_, ask = imported(t, Options{Arch: "wormhole"}, save(t, `{"version":1,"devices":[{"device_id":4,"l1_num_banks":7}],"graph":[]}`))
	want(t, ask("SELECT device_id, l1_num_banks FROM devices"), "0|7")
	if _, err := Import(t.Context(), t.TempDir()+"/db.sqlite", []string{"../testdata/sample.json"},
		Options{Arch: "z80"}); !errors.Is(err, graph.ErrArch) {
		t.Errorf("an unknown architecture: %v", err)
	}
}
