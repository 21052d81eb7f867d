package graph

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
)

func TestFreeOfAnOlderBufferDoesNotUnderflow(t *testing.T) {
	r := NewRecorder(Config{})
	r.Deallocate(l1(1, 32768, 0))
	r.Allocate(l1(2, 2048, 0))
	g := finish(t, r).Graph
	if PeakL1(g) != 2048 || PeakAllocated(g) != 2048 || PerCore(g, 1) != (CoreUse{L1: 2048, Total: 2048}) {
		t.Errorf("%d, %d, %+v", PeakL1(g), PeakAllocated(g), PerCore(g, 1))
	}
}

func TestFreeOfAnOlderBufferLeavesPeaks(t *testing.T) {
	for _, kind := range []BufferType{DRAM, L1} {
		r := NewRecorder(Config{})
		buffer := func(id uint64, size int64) *Buffer { return &Buffer{ID: id, Type: kind, Size: size, PageSize: size} }
		first := buffer(2, 1000)
		r.Allocate(first)
		r.Deallocate(buffer(1, 500))
		r.Allocate(buffer(3, 1000))
		r.Deallocate(first)
		r.Allocate(buffer(4, 500))
		g := finish(t, r).Graph
		expect.Equal(t, PeakAllocated(g), 2000, "%v: peak of what was allocated", kind)
		want, core := DRAMUse{Peak: 2000, Allocated: 2500, Freed: 1500}, int64(0)
		if kind == L1 {
			want, core = DRAMUse{}, 2000
		}
		Equal(t, want, DRAMUsage(g), "%v", kind)
		expect.Equal(t, PerCore(g, 1).L1, core, "%v: per core", kind)
		// TT-NN's figure subtracts the older buffer, which it never added.
		if got := PeakL1(g); kind == L1 && got != 1500 {
			t.Errorf("peak of L1: %d", got)
		}
	}
}

func TestParseCores(t *testing.T) {
	for in, want := range map[string][]CoreRange{
		"{[(x=0,y=0) - (x=0,y=7)], [(x=1,y=0) - (x=1,y=3)]}": {{0, 0, 0, 7}, {1, 0, 1, 3}},
		"{[0-0 - 7-7]}": {{0, 0, 7, 7}},
		`[{"start":{"x":0,"y":0},"end":{"x":3,"y":0}}]`: {{0, 0, 3, 0}},
		"{}": nil, "": nil, "[": nil, "{[99999999999999999999-0 - 1-1]}": nil,
	} {
		Equal(t, want, ParseCores(in), in)
		Equal(t, want, ParseCores(FormatCores(want)), "%s, written and read", in)
	}
}

func TestFunctionWithoutEnd(t *testing.T) {
	r := NewRecorder(Config{Format: Format2026v1})
	r.Begin("ttnn::matmul")
	r.Begin("inner")
	Equal(t, []string{"ttnn::matmul", "inner"}, r.Open())
	p := finish(t, r)
	expect.Fails(t, expect.ErrOf(OutputTensors(p.Graph)), ErrNoFunctions, "outputs")
	if c := p.Graph.Calls(); len(c) != 2 || c[0].End != -1 || c[1].Parent != 0 {
		t.Errorf("%+v", c)
	}
}

func TestRecorderRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*Recorder)
		want error
	}{
		{"an end of nothing", func(r *Recorder) { r.End() }, ErrUnbalanced},
		{"more than its nodes", func(r *Recorder) {
			for range 10 {
				r.Error("a", "b", "c")
			}
		}, ErrTooLarge},
		{"an event after the end", func(r *Recorder) { _, _ = r.Finish(); r.Begin("late") }, ErrFinished},
	} {
		r := NewRecorder(Config{MaxNodes: 5})
		c.do(r)
		p, err := r.Finish()
		if !errors.Is(err, c.want) || strings.Count(err.Error(), "graph: ") != 1 {
			t.Errorf("%s: %v", c.name, err)
		}
		if n := p.Graph.Nodes; n[0].Type != CaptureStart || n[len(n)-1].Type != CaptureEnd {
			t.Errorf("%s: %v", c.name, shapes(p.Graph))
		}
	}
}

func TestAbort(t *testing.T) {
	r := NewRecorder(Config{})
	r.Begin("a")
	r.Begin("b")
	r.Abort()
	for _, c := range finish(t, r).Graph.Calls() {
		if c.End < 0 {
			t.Errorf("%+v", c)
		}
	}
}

func TestErrorsAndStackTraces(t *testing.T) {
	for _, on := range []bool{true, false} {
		r := NewRecorder(Config{StackTraces: on})
		r.Begin("f")
		r.Error("TestError", "it is <broken>", "f")
		r.End()
		g := finish(t, r).Graph
		trace := g.Nodes[1].StackTrace
		if on != (len(trace) > 0) {
			t.Errorf("stack traces %v: %q", on, trace)
		}
		if on && (!strings.Contains(trace[0], "figures_test.go\", line ") || !strings.Contains(trace[0], "TestErrorsAndStackTraces")) {
			t.Errorf("innermost: %q", trace[0])
		}
		e := g.Nodes[2]
		if e.Level != 2 || e.Params[ParamErrorType] != "TestError" || e.Params[ParamErrorMessage] != "it is <broken>" ||
			e.Params[ParamErrorOperation] != "f" {
			t.Errorf("%+v", e)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for in, want := range map[string]string{
		``:                         "want a report's JSON object",
		`{}`:                       "version: want 1, found none",
		`{"version":2}`:            "unknown version of the report format: 2",
		`{"version":1,"graph":7}`:  "decode: want a graph that is an array of nodes, found",
		`[{"node_type":"tensor"}]`: "node 0: counter: want 0, found none",
		`[{"counter":7,"node_type":"a"},{"counter":7}]`: "node 1: counter: want at least 8, found 7",
		`[{"counter":0}]`: "node 0: node_type: want the type of a node",
		`[] 1`:            "nothing after the array of nodes",
		`{"version":1,"per_operation_buffers":{"x":[]}}`:   "per_operation_buffers of type int",
		`{"version":1,"buffer_pages_by_address":{"x":[]}}`: "buffer_pages_by_address of type uint64",
		`{"version":1,"python_io":7}`:                      "python_io: want an array of records",
		`[{"counter":0,"node_type":"tensor"}`:              "the end of the array of nodes",
		`[7]`:                                              "node 0: want a node",
	} {
		_, err := Decode(strings.NewReader(in), Limits{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "graph: ") != 1 {
			t.Errorf("%s: %v", in, err)
		}
	}
	const two = `[{"counter":0,"node_type":"a"},{"counter":1,"node_type":"a"}]`
	for _, lim := range []Limits{{Bytes: 10}, {Nodes: 1}} {
		if _, err := Decode(strings.NewReader(two), lim); !errors.Is(err, ErrTooLarge) || strings.Count(err.Error(), "graph: ") != 1 {
			t.Errorf("%+v: %v", lim, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"graph":[{"counter":0,"node_type":"function_start","connections":[9,-1,0],"input_tensors":[7],"stacking_level":1}]}`))
	f.Add([]byte(`[{"counter":0,"node_type":"tensor\u0001","params":{"name":"<\u0000\u001f\ufffe&","shape":"]]>"}}]`))
	f.Add([]byte(`[{"counter":0,"node_type":"circular_buffer_allocate","params":{"size":"9223372036854775807","core_range_set":[{"start":{},"end":{"x":9}}]}},{"counter":1,"node_type":"function_end"}]`))
	var b bytes.Buffer
	p := finish(f, recordSample(Config{}))
	devtest.Must(f, p.Encode(&b))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := Decode(bytes.NewReader(in), Limits{Bytes: 1 << 20, Nodes: 1000})
		if err != nil {
			return
		}
		g := p.Graph
		CallTrace(g)
		DRAMUsage(g)
		Durations(g)
		Table(g)
		Levelized(g, 2)
		_, _, _ = CountTensors(g)
		_, _ = Outputs(g, 64)
		if PeakL1(g) < 0 || PeakAllocated(g) < 0 || PerCore(g, 64).Total < 0 {
			t.Error("less than nothing is in use")
		}
		var out bytes.Buffer
		if err := g.DotFlow(&out, 3); err != nil {
			t.Error(err)
		}
		out.Reset()
		for _, write := range []func(io.Writer) error{g.Print, (&Report{Graph: g}).PrintTree, g.Dot} {
			expect.Fails(t, write(&out), nil, "write(&out)")
		}
		expect.Equal(t, strings.Count(out.String(), "{\n  label="), len(g.Calls()), "frames of calls")
		out.Reset()
		expect.Fails(t, g.SVG(&out), nil, "g.SVG(&out)")
		for d := xml.NewDecoder(&out); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("the picture isn't XML: %v", err)
			}
		}
		out.Reset()
		devtest.Must(t, p.Encode(&out))
		expect.Fails(t, expect.ErrOf(Decode(&out, Limits{})), nil, "what was written isn't read")
	})
}

func read(t testing.TB, name string) *Report {
	t.Helper()
	f := expect.Value(os.Open("testdata/" + name + ".json"))(t)
	defer f.Close()
	r, err := Decode(f, Limits{})
	devtest.Must(t, err)
	return r
}

// The peaks of TT-NN's captures are those that the README beside them says, in bytes:
// https://github.com/tenstorrent/tt-metal/blob/8458ac2a57ab176546f9df3181370bf1f102753e/tests/ttnn/unit_tests/base_functionality/graph_l1_traces/README.md.
func TestPeaksOfCaptures(t *testing.T) {
	type figures struct {
		Core                         CoreUse
		Peak, InBuffers, DRAM, Nodes int64
	}
	for name, want := range map[string]figures{
		"matmul_planned":       {CoreUse{Circular: 786432, L1: 20480, Total: 806912}, 2883584, 0, 0, 22},
		"matmul_run":           {CoreUse{Circular: 786432, L1: 20480, Total: 806912}, 2883584, 0, 22528, 24},
		"sharded_add":          {CoreUse{L1: 32768, Total: 32768}, 2195456, 98304, 0, 23},
		"sharded_add_in_place": {CoreUse{}, 98304, 98304, 0, 16},
		"conv2d":               {CoreUse{Circular: 77888, L1: 47648, Total: 125536}, 5040224, 68116, 2138112, 186},
	} {
		g := read(t, "tt-metal/"+name).Graph
		got := figures{PerCore(g, 110), PeakL1(g), PeakL1InBuffers(g), DRAMUsage(g).Peak, int64(len(g.Nodes))}
		Equal(t, want, got, name)
		expect.Equal(t, g.Format, Format2026v3, "%s: format", name)
		var text strings.Builder
		if err := g.Print(&text); err != nil || !strings.Contains(text.String(), "Capture End") {
			t.Errorf("%s: printed %q, %v", name, text.String(), err)
		}
	}
}

// The figures that TT-NN's tests of dataflow buffers and scratchpads expect, each of the nodes that
// they make:
// https://github.com/tenstorrent/tt-metal/blob/04f2614d9ec8509b6ef1a2a3b6f61ed08f70a7ea/tests/ttnn/unit_tests/base_functionality/test_graph_trace_utils.py.
func TestFiguresOfProgramMemory(t *testing.T) {
	type node struct {
		kind  NodeType
		size  int
		more  string // the parameter of its kind
		cores string
	}
	const one = `[{"start":{"x":0,"y":0},"end":{"x":0,"y":0}}]`
	cb := func(size int) node { return node{CircularAllocate, size, `"globally_allocated":"0"`, one} }
	dfb := func(size int) node { return node{DataflowAllocate, size, `"borrows_memory":"0"`, one} }
	scratchpad := func(size int) node { return node{ScratchpadAllocate, size, `"address":"0"`, one} }
	program := []node{cb(1024), dfb(2048), scratchpad(512)}
	for name, c := range map[string]struct {
		nodes []node
		want  CoreUse
		l1    int64 // of extract_peak_L1_memory_usage
	}{
		"ttnn.repeat without codegen, captured": {[]node{dfb(384), dfb(384)}, CoreUse{Dataflow: 768, Total: 768}, 768},
		"each kind by itself":                   {program, CoreUse{Circular: 1024, Dataflow: 2048, Scratchpad: 512, Total: 3584}, 3584},
		"one in a tensor's memory": {[]node{{DataflowAllocate, 4096, `"borrows_memory":"1"`, one}, dfb(256)},
			CoreUse{Dataflow: 256, Total: 256}, 256},
		"two programs": {append(append(slices.Clone(program), node{kind: CircularDeallocate}), program...),
			CoreUse{Circular: 1024, Dataflow: 2048, Scratchpad: 512, Total: 3584}, 3584},
		"no circular buffer": {[]node{dfb(2048), scratchpad(512)}, CoreUse{Dataflow: 2048, Scratchpad: 512, Total: 2560},
			2560},
		"on disjoint cores": {[]node{
			{CircularAllocate, 1024, `"globally_allocated":"0"`,
				`[{"start":{"x":0,"y":0},"end":{"x":0,"y":0}},{"start":{"x":3,"y":0},"end":{"x":3,"y":0}}]`},
			{CircularAllocate, 2048, `"globally_allocated":"0"`, `[{"start":{"x":1,"y":0},"end":{"x":2,"y":0}}]`},
			{CircularAllocate, 512, `"globally_allocated":"0"`, `[{"start":{"x":0,"y":0},"end":{"x":3,"y":0}}]`},
		}, CoreUse{Circular: 2560, Total: 2560}, 3584},
	} {
		var text []string
		for i, n := range c.nodes {
			params := "{}"
			if n.kind != CircularDeallocate {
				params = fmt.Sprintf(`{"size":"%d","core_range_set":%s,"device_id":"0",%s}`, n.size, n.cores, n.more)
			}
			text = append(text, fmt.Sprintf(`{"counter":%d,"node_type":%q,"params":%s,"connections":[]}`, i, n.kind, params))
		}
		r, err := Decode(strings.NewReader("["+strings.Join(text, ",")+"]"), Limits{})
		devtest.Must(t, err)
		Equal(t, c.want, PerCore(r.Graph, 64), name)
		expect.Equal(t, PeakL1(r.Graph), c.l1, "%s: peak of L1", name)
	}
}

// In TT-NN's captures without dispatch all tensors are at address 0.
func TestDeallocationsTakeTheirTensors(t *testing.T) {
	for name, want := range map[string][]string{
		"matmul_planned":       {"5"},
		"matmul_run":           {"5"},
		"sharded_add":          {"11"},
		"sharded_add_in_place": nil,
		"conv2d":               {"7", "29", "30", "31", "32", "11", "24", "none", "39", "35", "37", "17", "22", "41"},
		// one that shares its buffer frees nothing
	} {
		g := read(t, "tt-metal/"+name).Graph
		calls := g.Calls()
		all := g.Operands(calls)
		var got []string
		for i, c := range calls {
			if c.Name != "Tensor::deallocate" {
				continue
			}
			if len(all[i].In) == 0 {
				got = append(got, "none")
			}
			for _, n := range all[i].In {
				got = append(got, g.Nodes[n].Params[ParamTensorID])
			}
		}
		Equal(t, want, got, name)
	}
}

func TestPeaksOfTwoChips(t *testing.T) {
	r := NewRecorder(Config{})
	on := func(device int, id uint64, size int64) *Buffer {
		return &Buffer{ID: id, Device: device, Type: L1, Size: size, PageSize: size}
	}
	circular := func(device int, size int64) {
		r.Program(device)
		r.AllocateCircular(CircularBuffer{Device: device, Size: size, Cores: []CoreRange{{}}})
	}
	r.Allocate(on(0, 1, 1000))
	r.Allocate(on(1, 2, 5000))
	circular(0, 3000)
	circular(1, 500)
	circular(0, 100)
	for range 2 { // of a mesh that its first chip names
		r.Program(0)
		r.AllocateCircular(CircularBuffer{Device: 2, Size: 2900})
	}
	g := finish(t, r).Graph
	Equal(t, CoreUse{Circular: 3000, L1: 5000, Total: 5500}, PerCore(g, 1))
	expect.Equal(t, PeakL1(g), 9000, "peak of L1")
}

func TestDotFlow(t *testing.T) {
	g := read(t, "tt-metal/conv2d").Graph
	var text strings.Builder
	devtest.Must(t, g.DotFlow(&text, 2))
	for _, want := range []string{`label="ttnn.conv2d"; style=filled`, `[label="HaloDeviceOperation"]`, `v6 -> v13 [label="1×1×16384×32"]`,
		`"tensor 3" [label="tensor 3\nShape([1, 1, 1, 64])", shape=ellipse`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %s in\n%s", want, text.String())
		}
	}
	expect.Equal(t, strings.Count(text.String(), "{"), strings.Count(text.String(), "}"), "frames open")
	expect.Error(t, g.DotFlow(&text, 0))
}

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
	got := expect.Value(json.Marshal(finish(t, recordSample(Config{Format: Format2025})).Graph))(t)
	var g, w bytes.Buffer
	want := expect.Value(os.ReadFile("testdata/sample.json"))(t)
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
	if d := cmp.Diff(shapes(read(t, "sample").Graph), shapes(g)); d != "" {
		t.Fatal(d)
	}
	sameNodes(t, "testdata/2026v1.jsonl", Format2026v1, g)
}

// sameNodes compares nodes with the lines of a file, each a node in its format.
func sameNodes(t *testing.T, path string, f Format, g *Graph) {
	t.Helper()
	text := expect.Value(os.ReadFile(path))(t)
	for line := range strings.Lines(string(text)) {
		var n struct{ Counter int }
		devtest.Must(t, json.Unmarshal([]byte(line), &n))
		got := expect.Value(json.Marshal(wire(f, &g.Nodes[n.Counter])))(t)
		Equal(t, strings.TrimSpace(line), string(got))
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
	sameNodes(t, "testdata/2026v2.jsonl", Format2026v2, g)
}

func TestFiguresOfTheSample(t *testing.T) {
	for _, c := range []struct {
		name string
		g    *Graph
		mid  int
	}{
		{"document", read(t, "sample").Graph, 1},
		{"2025", finish(t, recordSample(Config{Format: Format2025})).Graph, 1},
		{"2026v1", finish(t, recordSample(Config{Format: Format2026v1})).Graph, 1},
		{"2026v2", finish(t, recordSample(Config{Format: Format2026v2})).Graph, 2}, // no node is both made inside and an output
	} {
		t.Run(c.name, func(t *testing.T) {
			want := []string{"ttnn::add", "ttnn::repeat", "ttnn::prim::repeat", "Device Operation", "create_device_tensor", "ttnn::prim::binary",
				"Device Operation", "create_device_tensor"}
			Equal(t, want, CallTrace(c.g))
			expect.Equal(t, PeakL1(c.g), 96256, "peak of L1")
			expect.Equal(t, PeakAllocated(c.g), 49152, "peak of what was allocated")
			expect.Equal(t, CircularPeak(c.g), 16384, "peak of circular buffers")
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
	g := read(t, "sample").Graph
	connections, kinds := 0, map[NodeType]int{}
	for _, n := range g.Nodes {
		kinds[n.Type]++
		connections += len(n.Connections)
	}
	expect.Equal(t, connections, 60, "connections")
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
		expect.Equal(t, q.Graph.Format, format, "format")
		var again bytes.Buffer
		devtest.Must(t, q.Encode(&again))
		Equal(t, string(first), again.String(), "format %v", format)
	}
}
