package graph

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/devtest"
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
		if got := PeakAllocated(g); got != 2000 {
			t.Errorf("%v: peak of what was allocated: %d", kind, got)
		}
		want, core := DRAMUse{Peak: 2000, Allocated: 2500, Freed: 1500}, int64(0)
		if kind == L1 {
			want, core = DRAMUse{}, 2000
		}
		Equal(t, want, DRAMUsage(g), "%v", kind)
		if got := PerCore(g, 1).L1; got != core {
			t.Errorf("%v: per core %d", kind, got)
		}
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
	if _, err := OutputTensors(p.Graph); !errors.Is(err, ErrNoFunctions) {
		t.Errorf("outputs: %v", err)
	}
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
			if err := write(&out); err != nil {
				t.Error(err)
			}
		}
		if n := strings.Count(out.String(), "{\n  label="); n != len(g.Calls()) {
			t.Errorf("%d frames for %d calls", n, len(g.Calls()))
		}
		out.Reset()
		if err := g.SVG(&out); err != nil {
			t.Error(err)
		}
		for d := xml.NewDecoder(&out); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("the picture isn't XML: %v", err)
			}
		}
		out.Reset()
		devtest.Must(t, p.Encode(&out))
		if _, err := Decode(&out, Limits{}); err != nil {
			t.Errorf("what was written isn't read: %v", err)
		}
	})
}
