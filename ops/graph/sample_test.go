package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/devtest"
)

// Equal fails a test unless two values are equal; what is a format and its arguments.
func Equal(t testing.TB, want, got any, what ...any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		if len(what) > 0 {
			d = fmt.Sprintf(fmt.Sprint(what[0]), what[1:]...) + ": " + d
		}
		t.Error(d)
	}
}

func readSample(t testing.TB) *Report {
	t.Helper()
	b, err := os.ReadFile("testdata/sample.json")
	devtest.Must(t, err)
	r, err := Decode(bytes.NewReader(b), Limits{})
	devtest.Must(t, err)
	return r
}

func other(n int) []Arg { return make([]Arg, n) }

func take(ts ...*Tensor) []Arg {
	var out []Arg
	for _, t := range ts {
		out = append(out, Arg{Text: fmt.Sprintf("Tensor(%d)", t.ID), Tensors: []*Tensor{t}})
	}
	return out
}

func l1(id uint64, size int64, address uint64) *Buffer {
	return &Buffer{ID: id, Type: L1, Size: size, PageSize: 2048, Address: address}
}

func recordSample(c Config) *Recorder {
	tick := time.Unix(1700000000, 0)
	c.Now = func() time.Time { tick = tick.Add(time.Microsecond); return tick }
	r := NewRecorder(c)
	tensor := func(id uint64, n int, b *Buffer) *Tensor {
		return &Tensor{ID: id, Shape: []int{n, 3, 32, 32}, DType: "DataType::BFLOAT16", Layout: "Layout::TILE", Size: b.Size, Buffer: b}
	}
	a, b := tensor(1, 4, l1(1, 24576, 1024)), tensor(2, 1, l1(2, 6144, 2048))
	twice, sum := tensor(3, 4, l1(3, 24576, 1953396066)), tensor(4, 4, l1(4, 24576, 0))
	part := []CoreRange{{0, 0, 0, 7}, {1, 0, 1, 3}}
	all := []CoreRange{{0, 0, 7, 7}}

	r.Begin("ttnn::add", take(a, b)...)
	r.Begin("ttnn::repeat", append(take(b), other(1)...)...)
	r.Begin("ttnn::prim::repeat", other(5)...)
	r.Begin("Device Operation", other(2)...)
	r.Begin("create_device_tensor", other(5)...)
	r.Allocate(twice.Buffer)
	r.End(twice)
	r.AllocateCircular(CircularBuffer{Size: 4096, Cores: part})
	r.End(twice)
	r.End(twice)
	r.End(twice)
	r.Begin("ttnn::prim::binary", append(take(a, twice), other(8)...)...)
	r.Begin("Device Operation", other(2)...)
	r.Begin("create_device_tensor", other(5)...)
	r.Allocate(sum.Buffer)
	r.End(sum)
	for range 3 {
		r.AllocateCircular(CircularBuffer{Size: 4096, Cores: all})
	}
	r.End(sum)
	r.End(sum)
	r.Deallocate(twice.Buffer)
	r.End(sum)
	r.Deallocate(sum.Buffer)
	return r
}

func finish(t testing.TB, r *Recorder) *Report {
	t.Helper()
	p, err := r.Finish()
	devtest.Must(t, err)
	return p
}

func TestRecorderGivesTheSample(t *testing.T) {
	got, err := json.Marshal(finish(t, recordSample(Config{Format: Format2025})).Graph)
	devtest.Must(t, err)
	var g, w bytes.Buffer
	want, err := os.ReadFile("testdata/sample.json")
	devtest.Must(t, err)
	var sorted any
	devtest.Must(t, json.Unmarshal(want, &sorted))
	want, _ = json.Marshal(sorted)
	devtest.Must(t, json.Unmarshal(got, &sorted))
	got, _ = json.Marshal(sorted)
	_ = json.Indent(&g, got, "", " ")
	_ = json.Indent(&w, want, "", " ")
	Equal(t, w.String(), g.String())
}

type shape struct {
	Type NodeType
	To   []int
}

func shapes(g *Graph) []shape {
	out := make([]shape, len(g.Nodes))
	for i, n := range g.Nodes {
		out[i] = shape{n.Type, list(n.Connections)}
	}
	return out
}

func TestSampleIn2026v1(t *testing.T) {
	g := finish(t, recordSample(Config{Format: Format2026v1})).Graph
	if d := cmp.Diff(shapes(readSample(t).Graph), shapes(g)); d != "" {
		t.Fatal(d)
	}
	checks := []struct {
		node int
		want string
	}{
		{1, `{"arguments":["Tensor(1)","Tensor(2)"],"connections":[3,5,6,18,30,31],"counter":1,"input_tensors":[2,4],"node_type":"function_start","params":{"inputs":"2","name":"ttnn::add"},"stacking_level":1}`},
		{2, `{"arguments":[],"connections":[1,18],"counter":2,"input_tensors":[],"node_type":"tensor","params":{"address":"1024","buffer_type":"BufferType::L1","device_id":"0","dtype":"DataType::BFLOAT16","layout":"Layout::TILE","memory_config":"","shape":"Shape([4, 3, 32, 32])","tensor_id":"1"},"stacking_level":1}`},
		{3, `{"arguments":[],"connections":[2,2],"counter":3,"input_tensors":[],"node_type":"buffer","params":{"device_id":"0","layout":"INTERLEAVED","size":"24576","type":"L1"},"stacking_level":1}`},
		{11, `{"arguments":[],"connections":[10],"counter":11,"input_tensors":[],"node_type":"buffer_allocate","params":{"address":"1953396066","device_id":"0","layout":"INTERLEAVED","num_cores":"0","page_size":"2048","size":"24576","type":"L1"},"stacking_level":5}`},
		{14, `{"arguments":[],"connections":[],"counter":14,"input_tensors":[],"node_type":"circular_buffer_allocate","params":{"address":"0","core_range_set":"{[0-0 - 0-7], [1-0 - 1-3]}","device_id":"0","globally_allocated":"0","size":"4096"},"stacking_level":4}`},
		{30, `{"arguments":[],"connections":[10],"counter":30,"input_tensors":[],"node_type":"buffer_deallocate","params":{"device_id":"0","layout":"INTERLEAVED","num_cores":"0","page_size":"2048","size":"24576","type":"L1"},"stacking_level":1}`},
		{31, `{"arguments":[],"connections":[24,33],"counter":31,"duration_ns":15000,"input_tensors":[],"node_type":"function_end","params":{"name":"ttnn::add"},"stacking_level":1}`},
		{32, `{"arguments":[],"connections":[21],"counter":32,"input_tensors":[],"node_type":"buffer_deallocate","params":{"device_id":"0","layout":"INTERLEAVED","num_cores":"0","page_size":"2048","size":"24576","type":"L1"},"stacking_level":0}`},
		{33, `{"arguments":[],"connections":[],"counter":33,"duration_ns":17000,"input_tensors":[],"node_type":"capture_end","params":{},"stacking_level":0}`},
	}
	for _, c := range checks {
		got, err := json.Marshal(wire(Format2026v1, &g.Nodes[c.node]))
		devtest.Must(t, err)
		Equal(t, c.want, string(got), "node %d", c.node)
	}
}

func TestSampleIn2026v2(t *testing.T) {
	g := finish(t, recordSample(Config{})).Graph
	uses := 0
	for _, n := range g.Nodes {
		if n.Type == TensorNode {
			uses++
		}
	}
	if uses != 13 { // 2 + 1 + 2 inputs, 4 + 4 outputs
		t.Errorf("%d tensors, want 13", uses)
	}
	if got, want := g.Nodes[3].Connections, []int{2, 23}; !cmp.Equal(got, want) {
		t.Errorf("the first input's buffer is connected to %v, want %v", got, want)
	}
	got, err := json.Marshal(wire(Format2026v2, &g.Nodes[2]))
	devtest.Must(t, err)
	want := `{"arguments":[],"connections":[1],"counter":2,"input_tensors":[],"node_type":"tensor","params":{"address":1024,"buffer_type":"BufferType::L1","buffer_type_value":1,"device_id":0,"dtype":"DataType::BFLOAT16","layout":"Layout::TILE","memory_config":"","shape":"Shape([4, 3, 32, 32])","size":24576,"tensor_id":1},"stacking_level":1}`
	Equal(t, want, string(got))
}

func TestFiguresOfTheSample(t *testing.T) {
	for _, c := range []struct {
		name string
		g    *Graph
		mid  int
	}{
		{"document", readSample(t).Graph, 1},
		{"2025", finish(t, recordSample(Config{Format: Format2025})).Graph, 1},
		{"2026v1", finish(t, recordSample(Config{Format: Format2026v1})).Graph, 1},
		{"2026v2", finish(t, recordSample(Config{Format: Format2026v2})).Graph, 2}, // no node is both made inside and an output
	} {
		t.Run(c.name, func(t *testing.T) {
			want := []string{"ttnn::add", "ttnn::repeat", "ttnn::prim::repeat", "Device Operation", "create_device_tensor", "ttnn::prim::binary",
				"Device Operation", "create_device_tensor"}
			Equal(t, want, CallTrace(c.g))
			if got := PeakL1(c.g); got != 96256 {
				t.Errorf("peak of L1: %d", got)
			}
			if got := PeakAllocated(c.g); got != 49152 {
				t.Errorf("peak of what was allocated: %d", got)
			}
			if got := CircularPeak(c.g); got != 16384 {
				t.Errorf("peak of circular buffers: %d", got)
			}
			mid, out, err := CountTensors(c.g)
			if err != nil || mid != c.mid || out != 1 {
				t.Errorf("%d intermediate tensors, %d outputs, %v", mid, out, err)
			}
			rows := Table(c.g)
			if len(rows) != 24 {
				t.Fatalf("%d rows", len(rows))
			}
			first, last := rows[0], rows[len(rows)-1]
			if first.Op != "ttnn::add" || first.Event != "begin_op" || first.Circular != 0 || first.Buffers != 30720 {
				t.Errorf("first row: %+v", first)
			}
			if last.Circular != 16384 || last.Buffers != 30720 {
				t.Errorf("last row: %+v", last)
			}
		})
	}
	g := readSample(t).Graph
	connections, kinds := 0, map[NodeType]int{}
	for _, n := range g.Nodes {
		kinds[n.Type]++
		connections += len(n.Connections)
	}
	if connections != 60 {
		t.Errorf("%d connections", connections)
	}
	want := map[NodeType]int{CaptureStart: 1, CaptureEnd: 1, FunctionStart: 8, FunctionEnd: 8, TensorNode: 4, BufferNode: 4,
		BufferAllocate: 2, BufferDeallocate: 2, CircularAllocate: 4}
	Equal(t, want, kinds)
	if out, err := OutputTensors(g); err != nil || !cmp.Equal(out, []int{24}) {
		t.Errorf("outputs: %v, %v", out, err)
	}
}

func TestReportRoundTrip(t *testing.T) {
	for _, format := range []Format{Format2025, Format2026v1, Format2026v2} {
		r := recordSample(Config{Format: format, OperationBuffers: true})
		r.Device(Device{ID: 0, Arch: "wormhole_b0"})
		p := finish(t, r)
		p.ClusterDescriptor = "arch: [wormhole_b0]\n"
		p.Metadata.Captured = p.Metadata.Captured.UTC()
		var b bytes.Buffer
		devtest.Must(t, p.Encode(&b))
		first := bytes.Clone(b.Bytes())
		q, err := Decode(&b, Limits{})
		devtest.Must(t, err)
		if q.Graph.Format != format {
			t.Errorf("format %v is read as %v", format, q.Graph.Format)
		}
		var again bytes.Buffer
		devtest.Must(t, q.Encode(&again))
		Equal(t, string(first), again.String(), "format %v", format)
	}
}
