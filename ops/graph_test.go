package ops_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

var modes = map[string]graph.Mode{"normal": graph.Normal, "no dispatch": graph.NoDispatch}

func eight() kmd.Target { return sim.Wormhole(sim.Harvesting(chip.Harvesting{Tensix: 0b1})) }

func (b *bench) zeros(m ops.MemoryConfig, shape ...int) *ops.Tensor {
	b.Helper()
	n := 1
	for _, d := range shape {
		n *= d
	}
	return b.ok(b.ToDevice(b.ctx, &ops.Host{Shape: shape, DType: ops.BFloat16, Data: make([]byte, 2*n)}, ops.Tile, m))
}

func sample(b *bench, cfg graph.Config) *graph.Graph {
	b.Helper()
	x, y := b.zeros(l1, 4, 3, 32, 32), b.zeros(l1, 1, 3, 32, 32)
	c := b.BeginCapture(cfg)
	sum := b.ok(b.Add(b.ctx, x, y))
	b.must(b.Deallocate(sum))
	r := b.report(c)
	b.must(b.Deallocate(x))
	b.must(b.Deallocate(y))
	return r.Graph
}

func document(t *testing.T) *graph.Graph {
	t.Helper()
	text, err := os.ReadFile("graph/testdata/sample.json")
	devtest.Must(t, err)
	r, err := graph.Decode(bytes.NewReader(text), graph.Limits{})
	devtest.Must(t, err)
	for _, n := range r.Graph.Nodes {
		delete(n.Params, graph.ParamAddress)
	}
	return r.Graph
}

func TestSampleOperation(t *testing.T) {
	want, err := json.MarshalIndent(document(t), "", " ")
	devtest.Must(t, err)
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			g := sample(open(t, eight(), ops.WithSeparateRepeat()), graph.Config{Format: graph.Format2025, Mode: mode})
			for i := range g.Nodes {
				delete(g.Nodes[i].Params, graph.ParamAddress)
			}
			got, err := json.MarshalIndent(g, "", " ")
			devtest.Must(t, err)
			equal(t, string(want), string(got))
		})
	}
}

func without(g *graph.Graph, t graph.NodeType) *graph.Graph {
	place := map[int]int{}
	for _, n := range g.Nodes {
		if n.Type != t {
			place[n.Counter] = len(place)
		}
	}
	move := func(in []int) []int {
		out := []int{}
		for _, c := range in {
			if to, ok := place[c]; ok {
				out = append(out, to)
			}
		}
		return out
	}
	out := &graph.Graph{Format: g.Format}
	for _, n := range g.Nodes {
		if n.Type != t {
			n.Counter, n.Connections, n.InputTensors = place[n.Counter], move(n.Connections), move(n.InputTensors)
			out.Nodes = append(out.Nodes, n)
		}
	}
	return out
}

type node struct {
	Type graph.NodeType
	To   []int
}

func skeleton(g *graph.Graph) []node {
	out := make([]node, len(g.Nodes))
	for i, n := range g.Nodes {
		out[i] = node{n.Type, append([]int{}, n.Connections...)}
	}
	return out
}

// The sample's order and connections stay, except for one node before each program, which frees the
// circular buffers of the program before.
func TestSampleOperationInLaterFormats(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			b := open(t, eight(), ops.WithSeparateRepeat())
			g := sample(b, graph.Config{Format: graph.Format2026v1, Mode: mode, StackTraces: true})
			equal(t, skeleton(document(t)), skeleton(without(g, graph.CircularDeallocate)))
			g = without(g, graph.CircularDeallocate)
			for i, want := range map[int]graph.Params{
				3: {"size": "24576", "type": "L1", "layout": "INTERLEAVED", "device_id": "0"},
				11: {"size": "24576", "type": "L1", "layout": "INTERLEAVED", "device_id": "0", "page_size": "2048", "num_cores": "0",
					"address": g.Nodes[11].Params["address"]},
				14: {"size": "4096", "core_range_set": "{[0-0 - 0-7], [1-0 - 1-3]}", "globally_allocated": "0", "device_id": "0",
					"address": g.Nodes[14].Params["address"]},
				25: {"size": "4096", "core_range_set": "{[0-0 - 7-7]}", "globally_allocated": "0", "device_id": "0",
					"address": g.Nodes[25].Params["address"]},
				30: {"size": "24576", "type": "L1", "layout": "INTERLEAVED", "device_id": "0", "page_size": "2048", "num_cores": "0"},
			} {
				equal(t, want, g.Nodes[i].Params, "node %d", i)
			}
			add, first := g.Nodes[1], g.Nodes[2].Params
			if add.Level != 1 || len(add.Arguments) != 2 || !cmp.Equal(add.InputTensors, []int{2, 4}) || len(add.StackTrace) == 0 {
				t.Errorf("the operation: %+v", add)
			} else if !strings.HasSuffix(add.StackTrace[0], "ops_test.sample") ||
				!strings.Contains(add.StackTrace[0], "graph_test.go\", line ") {
				t.Errorf("it was called by %s, want the line of this test that adds", add.StackTrace[0])
			}
			if first["dtype"] != "DataType::BFLOAT16" || first["layout"] != "Layout::TILE" || first["buffer_type"] != "BufferType::L1" ||
				first["memory_config"] != l1.String() || first["address"] == "" {
				t.Errorf("the first tensor: %v", first)
			}
			if got := graph.CircularPeak(g); mode == graph.NoDispatch && got == 0 {
				t.Errorf("no circular buffers")
			}

			c := sample(b, graph.Config{Mode: mode})
			count := map[graph.NodeType]int{}
			for _, n := range c.Nodes {
				count[n.Type]++
			}
			want := map[graph.NodeType]int{
				graph.CaptureStart: 1, graph.CaptureEnd: 1, graph.FunctionStart: 8, graph.FunctionEnd: 8, graph.TensorNode: 13, graph.BufferNode: 4,
				graph.BufferAllocate: 2, graph.BufferDeallocate: 2, graph.CircularAllocate: 4, graph.CircularDeallocate: 2,
			}
			equal(t, want, count)
		})
	}
}

func TestCapturedAddressesAreReal(t *testing.T) {
	b := open(t, sim.Blackhole())
	x := b.zeros(l1, 1, 1, 64, 64)
	sharded := ops.Sharded(allocator.HeightSharded, 32, 64, chip.Range{End: chip.Core{Y: 1}})
	type place struct {
		Type    graph.NodeType
		Address int64
	}
	type seen struct {
		Places []place
		Pages  map[uint64][]graph.Page
	}
	var runs []seen
	for _, mode := range []graph.Mode{graph.NoDispatch, graph.Normal} {
		c := b.BeginCapture(graph.Config{Mode: mode, BufferPages: true, StackTraces: true})
		sum := b.ok(b.Add(b.ctx, x, x))
		parts := b.ok(b.ToMemoryConfig(b.ctx, sum, sharded))
		b.ok(b.Relu(b.ctx, parts))
		b.must(b.Deallocate(sum))
		r := b.report(c)
		s := seen{Pages: map[uint64][]graph.Page{}}
		for _, n := range r.Graph.Nodes {
			switch n.Type {
			case graph.BufferAllocate, graph.CircularAllocate:
				at, _ := n.Params.Int("address")
				if n.Params["type"] == "DRAM" {
					break // of kernels, which aren't loaded without dispatch
				}
				s.Places = append(s.Places, place{n.Type, at})
				if at == 0 {
					t.Errorf("mode %v: %s at 0", mode, n.Type)
				}
			case graph.BufferDeallocate:
				if len(n.StackTrace) == 0 || !strings.Contains(n.StackTrace[0], "graph_test.go\", line ") {
					t.Errorf("mode %v: freed by %q, want this test's line", mode, n.StackTrace)
				}
			}
		}
		for at, v := range r.PagesByAddress {
			s.Pages[at] = v[0].Pages
		}
		if got := s.Pages[uint64(sum.Address())]; len(got) != 4 || got[3].Index != 3 || got[3].CoreX == got[0].CoreX {
			t.Errorf("mode %v: pages %+v", mode, got)
		}
		runs = append(runs, s)
	}
	equal(t, runs[1], runs[0])
}

func workload(b *bench) []uint32 {
	b.Helper()
	var at []uint32
	x, y := b.zeros(l1, 2, 1, 32, 32), b.zeros(dram, 1, 1, 32, 64)
	sum := b.ok(b.Add(b.ctx, x, x))
	product := b.ok(b.Matmul(b.ctx, sum, y))
	for _, t := range []*ops.Tensor{x, y, sum, product} {
		at = append(at, t.Address())
	}
	for _, t := range []*ops.Tensor{y, x, product} {
		b.must(b.Deallocate(t))
	}
	return append(at, b.ok(b.Relu(b.ctx, sum)).Address())
}

func TestCaptureChangesNothing(t *testing.T) {
	state := func(b *bench) []uint64 {
		return []uint64{b.dev.MemoryFingerprint(allocator.DRAM), b.dev.MemoryFingerprint(allocator.L1), uint64(b.ProgramCacheEntries())}
	}
	plain := open(t, sim.Wormhole())
	want := [][]uint32{workload(plain), workload(plain)}
	b := open(t, sim.Wormhole())
	before := state(b)
	for range 2 {
		c := b.BeginCapture(graph.Config{Mode: graph.NoDispatch, BufferPages: true, OperationBuffers: true, StackTraces: true})
		equal(t, want[0], workload(b), "addresses without dispatch")
		if _, err := c.End(); err != nil {
			t.Error(err)
		}
		equal(t, before, state(b), "a capture without dispatch left something")
	}
	c := b.BeginCapture(graph.Config{BufferPages: true, OperationBuffers: true, StackTraces: true})
	got := [][]uint32{workload(b)}
	b.report(c)
	got = append(got, workload(b))
	equal(t, want, got)
	equal(t, state(plain), state(b))
}

func TestPlannedTensors(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.tensor(dram, ops.UInt32, 2)
	c := b.BeginCapture(graph.Config{Mode: graph.NoDispatch})
	sum := b.ok(b.Add(b.ctx, x, x))
	if sum.Buffer() != nil {
		t.Error("it has memory")
	}
	h, err := b.ToHost(b.ctx, sum)
	b.must(err)
	if h.Data != nil || ops.Values[uint32](h) != nil {
		t.Errorf("data of what never ran: %v", h.Data)
	}
	huge := b.ok(b.Empty(b.ctx, ops.Spec{Shape: []int{1 << 20, 1 << 15}, DType: ops.Float32, Memory: l1}))
	if huge.Address() != 0 {
		t.Errorf("a tensor that doesn't fit is at %#x", huge.Address())
	}
	b.must(b.Deallocate(x))
	b.report(c)
	for _, tensor := range []*ops.Tensor{sum, huge} {
		if _, err := b.Relu(b.ctx, tensor); !isPlanned(err) {
			t.Errorf("%v, want %v", err, ops.ErrPlanned)
		}
	}
	again := b.BeginCapture(graph.Config{Mode: graph.NoDispatch})
	if _, err := b.Relu(b.ctx, sum); !isPlanned(err) {
		t.Errorf("in another capture: %v, want %v", err, ops.ErrPlanned)
	}
	b.report(again)
	b.holds(x, 0, 1)
}

func TestDetailsOfCaptures(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.zeros(l1, 32, 32)
	out := b.ok(b.Add(b.ctx, x, x))
	all := []graph.Details{graph.DetailStackTraces, graph.DetailBufferPages, graph.DetailDurations}
	states := func(has func(graph.Details) bool) (on []bool) {
		for _, d := range all {
			on = append(on, has(d))
		}
		return on
	}
	first := b.BeginCapture(graph.Config{BufferPages: true})
	b.ok(b.Add(b.ctx, x, x, ops.Into(out)))
	b.SetDetails(graph.DetailStackTraces, true)
	b.SetDetails(graph.DetailDurations, false)
	second := b.BeginCapture(graph.Config{})
	equal(t, [][]bool{{true, false, false}, {true, true, false}, {true, false, false}}, [][]bool{states(b.HasDetails), states(first.Has),
		states(second.Has)}, "switched for the device")
	b.ok(b.Relu(b.ctx, x, ops.Into(out)))
	second.Set(graph.DetailBufferPages, true)
	second.Set(graph.DetailStackTraces, false)
	equal(t, []bool{false, true, false}, states(second.Has), "switched for one capture")
	b.ok(b.Exp(b.ctx, x, ops.Into(out)))
	inner, outer := b.report(second), b.report(first)
	b.SetDetails(graph.DetailStackTraces, false)
	if inner.BufferPages == nil || outer.BufferPages == nil {
		t.Error("a report has no pages of buffers")
	}
	type recorded struct{ stack, duration bool }
	of := func(g *graph.Graph, name string) (r recorded) {
		for _, c := range g.Calls() {
			if c.Name == name {
				r = recorded{g.Nodes[c.Start].StackTrace != nil, g.Nodes[c.End].Duration != 0}
			}
		}
		return r
	}
	for _, c := range []struct {
		g    *graph.Graph
		name string
		want recorded
	}{
		{outer.Graph, "ttnn::add", recorded{false, true}},
		{outer.Graph, "ttnn::relu", recorded{true, false}},
		{inner.Graph, "ttnn::relu", recorded{true, false}},
		{inner.Graph, "ttnn::exp", recorded{false, false}},
	} {
		if got := of(c.g, c.name); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
