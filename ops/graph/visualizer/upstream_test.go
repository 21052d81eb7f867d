package visualizer

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops/graph"
)

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
	out, err := os.Create(name)
	devtest.Must(t, err)
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
		want(t, ask("SELECT output_index, tensor_id FROM output_tensors ORDER BY 1"), "0|201", "1|202")
		want(t, ask("SELECT input_index, tensor_id FROM input_tensors"), "0|42")
		want(t, ask("SELECT name, value FROM operation_arguments"), "arg_0|Tensor()", "arg_1|Shape([1, 4, 2048, 128])", "arg_2|nullopt")
		want(t, ask("SELECT operation_id, device_id, address, max_size_per_bank, buffer_type FROM buffers WHERE address = 12345"),
			"1|0|12345|2048|1")
		want(t, ask("SELECT * FROM tensors WHERE tensor_id = 201"),
			"201|Shape([1, 1, 32, 32])|DataType.BFLOAT16|Layout.TILE|MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1)|0|12345|1|2048")
		want(t, ask("SELECT device_id, address, buffer_type FROM tensors WHERE tensor_id = 202"), "||")
		if n := ask("SELECT count(*) > 0 FROM edges"); n[0] != "1" {
			t.Error("no edges")
		}
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
	want(t, ask("SELECT address, buffer_type FROM buffers ORDER BY 1"), "1000|0", "2000|1", "3000|2", "4000|3", "5000|4")
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
		want(t, ask("SELECT operation_id, group_concat(address) FROM (SELECT * FROM buffers ORDER BY 1, 3) GROUP BY 1"), "1|1000", "2|1000,2000",
			"3|1000,2000,3000")
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
	want(t, ask("SELECT tensor_id, device_id, address FROM device_tensors ORDER BY 1, 3"), "5|0|1374208", "5|1|1374272", "6|0|2000",
		"6|1|2064")
}

func TestUpstreamValidation(t *testing.T) {
	sum, _ := imported(t, Options{}, recorded(t, graph.Config{}, func(r *graph.Recorder) {
		r.Begin("ttnn::add", arg(tensor(1, nil))...)
		r.End(tensor(2, nil))
	}))
	if len(sum.Warnings) != 0 {
		t.Errorf("warnings about a clean report: %q", sum.Warnings)
	}
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
	want(t, ask("SELECT operation_id, name FROM operations"), "1|ttnn::to_device", "2|ttnn::to_device", "3|ttnn::to_device",
		"4|ttnn::linear")
	want(t, ask("SELECT operation_id, group_concat(tensor_id) FROM (SELECT * FROM input_tensors ORDER BY 1, 2) GROUP BY 1"), "1|0", "2|2",
		"3|4", "4|1,3,5")
	want(t, ask("SELECT count(*) FROM tensors"), "7")
	want(t, ask("SELECT tensor_id, address FROM tensors WHERE device_id IS NOT NULL ORDER BY 2"), "1|1920032", "3|2096160", "5|2272288",
		"6|2278432")
	want(t, ask("SELECT max_size_per_bank FROM buffers WHERE operation_id = 4 ORDER BY address"), "176128", "176128", "6144", "176128", "4096")
	want(t, ask("SELECT operation_id, tensor_id FROM output_tensors ORDER BY 1"), "1|1", "2|3", "3|5", "4|6")
}

func TestUpstreamFilesBeside(t *testing.T) {
	path := recorded(t, graph.Config{StackTraces: true}, func(r *graph.Recorder) { r.Begin("ttnn::add"); r.End() }, func(p *graph.Report) {
		p.ClusterDescriptor, p.MeshMapping = "arch: [wormhole_b0]\n", "chips: {0: [0,0,0,0]}\n"
		p.Graph.Nodes[1].StackTrace = []string{`File "model.py", line 7, in frame1`, "frame2"}
	})
	dir := t.TempDir()
	if _, err := Import(context.Background(), filepath.Join(dir, "db.sqlite"), []string{path}, Options{SVG: true}); err != nil {
		t.Fatal(err)
	}
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
			if err := c.QueryRow("SELECT count(*) FROM " + table +
				" WHERE operation_id NOT IN (SELECT operation_id FROM operations)").Scan(&n); err != nil {
				t.Fatal(err)
			}
			if n != 0 {
				t.Errorf("%d rows of %s belong to no operation", n, table)
			}
		}
		var bad int
		if err := c.QueryRow("SELECT count(*) FROM captured_graph WHERE NOT json_valid(captured_graph)").Scan(&bad); err != nil || bad != 0 {
			t.Errorf("%d graphs that aren't JSON, %v", bad, err)
		}
	})
}
