package graph

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise/internal/devtest"
)

func capture(t *testing.T, name string) *Report {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "tt-metal", name+".json"))
	devtest.Must(t, err)
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
		g := capture(t, name).Graph
		got := figures{PerCore(g, 110), PeakL1(g), PeakL1InBuffers(g), DRAMUsage(g).Peak, int64(len(g.Nodes))}
		Equal(t, want, got, name)
		if g.Format != Format2026v3 {
			t.Errorf("%s: format %v", name, g.Format)
		}
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
		if got := PeakL1(r.Graph); got != c.l1 {
			t.Errorf("%s: peak of L1 %d, want %d", name, got, c.l1)
		}
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
		g := capture(t, name).Graph
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
	g := finish(t, r).Graph
	Equal(t, CoreUse{Circular: 3000, L1: 5000, Total: 5500}, PerCore(g, 1))
	if got := PeakL1(g); got != 9000 {
		t.Errorf("peak of L1: %d", got)
	}
}

func TestDotFlow(t *testing.T) {
	g := capture(t, "conv2d").Graph
	var text strings.Builder
	devtest.Must(t, g.DotFlow(&text, 2))
	for _, want := range []string{`label="ttnn.conv2d"; style=filled`, `[label="HaloDeviceOperation"]`, `v6 -> v13 [label="1×1×16384×32"]`,
		`"tensor 3" [label="tensor 3\nShape([1, 1, 1, 64])", shape=ellipse`} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %s in\n%s", want, text.String())
		}
	}
	if n := strings.Count(text.String(), "{"); n != strings.Count(text.String(), "}") {
		t.Errorf("%d frames open", n)
	}
	if err := g.DotFlow(&text, 0); err == nil {
		t.Error("level 0 is none")
	}
}
