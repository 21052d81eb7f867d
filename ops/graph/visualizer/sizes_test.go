package visualizer

import (
	"path/filepath"
	"testing"

	"github.com/reprise-tt/reprise/ops/graph"
)

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
	if _, err := c.Exec("CREATE TABLE tensors (tensor_id int UNIQUE, shape text, dtype text, layout text, memory_config text, device_id int, address int, buffer_type int)"); err != nil {
		t.Fatal(err)
	}
	sum, err := Import(t.Context(), db, []string{path}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := c.QueryRow("SELECT count(*) FROM tensors WHERE buffer_type IN (0, 1)").Scan(&n); err != nil || n != len(rows) ||
		sum.Tensors != n {
		t.Errorf("%d tensors in a table without sizes, %v, summary %d", n, err, sum.Tensors)
	}
}
