package visualizer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/ops/graph"
)

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
		if got := p.perBank(&graph.Node{Params: q}, 0); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestPagesBelongToOperations(t *testing.T) {
	p := save(t, `{"version":1,"buffer_pages":[{"device_id":0,"address":64,"page_size":2048,"buffer_type":1}],"graph":[
	{"counter":0,"node_type":"function_start","params":{"name":"f"},"stacking_level":1},
	{"counter":1,"node_type":"function_end","params":{"name":"f"},"stacking_level":1},
	{"counter":2,"node_type":"function_start","params":{"name":"g"},"stacking_level":1},
	{"counter":3,"node_type":"buffer","params":{"size":2048,"type":"L1"},"stacking_level":1},
	{"counter":4,"node_type":"buffer_allocate","params":{"size":2048,"type":"L1","layout":"HEIGHT_SHARDED","address":64},"connections":[3],"stacking_level":1},
	{"counter":5,"node_type":"function_end","params":{"name":"g"},"stacking_level":1}]}`)
	_, ask := imported(t, Options{}, p)
	want(t, ask("SELECT operation_id, address, page_size FROM buffer_pages"), "2|64|2048")
	want(t, ask("SELECT operation_id, buffer_layout FROM buffers"), "2|2")
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
	want(t, ask("SELECT operation_id, device_id, core_x FROM buffer_pages ORDER BY 1, 2, 3"), "1|0|5", "1|1|3", "2|0|5", "2|1|6", "2|1|7")
}

func TestOtherForms(t *testing.T) {
	p := save(t, `{"version":1,"later":1,"buffer_pages_by_address":{"64":[{"address":64,"page_size":32,"buffer_type":1},{"address":64,"page_size":33,"page_index":1}]},
	"per_operation_buffers":{"10":[{"address":64,"size":4096,"type":"L1","layout":"BLOCK_SHARDED"},{"address":1,"type":"ROM"}],"11":[],"20":[{"address":64,"max_size_per_bank":7,"buffer_type":1}]},
	"per_operation_buffer_pages":{"20":[{"address":99,"page_size":34,"core_x":5}]},
	"python_io":[{"name":"f","output_tensor_ids":[7],"rank":1}],"graph":[
	{"counter":10,"node_type":"function_start","params":{"name":"f"},"stacking_level":1,"rank":0,"connections":[11,12]},
	{"counter":12,"node_type":"function_end","params":{"name":"f"},"stacking_level":1,"rank":0,"connections":[13]},
	{"counter":13,"node_type":"tensor","params":{"tensor_id":3,"shape":"Shape([4])","device_id":0},"stacking_level":1},
	{"counter":20,"node_type":"function_start","params":{"name":"g"},"stacking_level":1,"connections":[21]},
	{"counter":21,"node_type":"function_end","params":{"name":"g"},"stacking_level":1}]}`)
	sum, ask := imported(t, Options{}, p)
	want(t, ask("SELECT operation_id, max_size_per_bank, buffer_type, buffer_layout FROM buffers"), "1|4096|1|4", "2|7|1|0")
	want(t, ask("SELECT operation_id, address, page_size, page_index, core_x FROM buffer_pages"), "1|64|32|0|0", "1|64|33|1|0", "2|99|34|0|5")
	want(t, ask("SELECT tensor_id, shape FROM tensors"), "3|Shape([4])", "7|Shape([4])")
	want(t, ask("SELECT operation_id, tensor_id FROM output_tensors"), "1|7")
	var warnings []string
	for _, w := range sum.Warnings {
		warnings = append(warnings, strings.TrimPrefix(w, p+": not read: "))
	}
	want(t, warnings, "graph.connections of nodes that are missing (1×)", "graph.rank (2×)", "later (1×)",
		"per_operation_buffers of nodes that are missing (1×)", "per_operation_buffers with type ROM (1×)", "python_io.rank (1×)",
		"2 buffers name devices that aren't there")
}
