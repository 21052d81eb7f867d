package visualizer

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops/graph"
)

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
	want(t, rows("SELECT tensor_id, shape FROM tensors ORDER BY tensor_id"), "1|Shape([1, 16])", "2|Shape([1, 16])", "3|Shape([4, 4])",
		"4|Shape([4, 4])")
	want(t, rows("SELECT operation_id, tensor_id FROM input_tensors ORDER BY operation_id"), "1|1", "10001|1", "20001|3")
	want(t, rows("SELECT operation_id, tensor_id FROM output_tensors ORDER BY operation_id"), "1|2", "10001|2", "20001|4")
	want(t, rows("SELECT count(*) FROM captured_graph WHERE operation_id = 20001 AND captured_graph LIKE '%\"tensor_id\":4%'"), "1")
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
