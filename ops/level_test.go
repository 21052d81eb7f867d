package ops_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

// levels returns the levelized graph of what f runs.
func (b *bench) levels(cfg graph.Config, level int, f func()) []graph.Vertex {
	b.Helper()
	c := b.BeginCapture(cfg)
	f()
	vs, err := graph.Levelize(b.report(c).Graph, level)
	b.must(err)
	return vs
}

func at(t *testing.T, vs []graph.Vertex, name string) graph.Vertex {
	t.Helper()
	i := slices.IndexFunc(vs, func(v graph.Vertex) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("no %s among %+v", name, vs)
	}
	return vs[i]
}

func names(vs []graph.Vertex, of []int) []string {
	var out []string
	for _, i := range of {
		out = append(out, vs[i].Name)
	}
	return out
}

// SimpleBinaryOp: an add of a tensor to itself is two vertices at level 1; its inner functions are more at level 2.
func TestUpstreamLevelsOfAdd(t *testing.T) {
	b := open(t, sim.Wormhole())
	a := b.zeros(ops.Interleaved(allocator.L1), 64, 128)
	one := b.levels(graph.Config{Format: graph.Format2026v1}, 1, func() { b.ok(b.Add(b.ctx, a, a)) })
	if len(one) != 2 || one[1].Name != "ttnn::add" || !cmp.Equal(one[1].In, []int{0, 0}) || !cmp.Equal(one[0].Out, []int{1}) || !cmp.Equal(one[1].OutputShape, []string{"Shape([64, 128])"}) {
		t.Errorf("%+v", one)
	}
	two := b.levels(graph.Config{Format: graph.Format2026v1}, 2, func() { b.ok(b.Add(b.ctx, a, a)) })
	inner := at(t, two, "ttnn::prim::binary_ng")
	if len(two) != 3 || !cmp.Equal(two[0].Out, []int{1, 2}) || !cmp.Equal(two[1].Internals, []int{2}) || !cmp.Equal(inner.In, []int{0, 0}) || len(inner.Out) != 0 {
		t.Errorf("%+v", two)
	}
	made := b.levels(graph.Config{Format: graph.Format2026v1}, 1, func() {
		x := b.ok(b.Empty(b.ctx, a.Spec()))
		b.ok(b.Add(b.ctx, x, x))
	})
	if !slices.ContainsFunc(made, func(v graph.Vertex) bool { return v.Name == "ttnn::empty" }) {
		t.Errorf("an operand that was made in the capture: %+v", made)
	}
}

// OutputLayoutInfo, MultiplyAndAddTest: a result is connected to its consumer, whose arguments describe it.
func TestUpstreamChainOfOperations(t *testing.T) {
	b := open(t, sim.Wormhole())
	l1 := ops.Interleaved(allocator.L1)
	x, y, z := b.zeros(l1, 16, 32, 64), b.zeros(l1, 16, 32, 64), b.zeros(l1, 16, 32, 64)
	vs := b.levels(graph.Config{Format: graph.Format2026v1, Mode: graph.NoDispatch}, 1, func() {
		product := b.ok(b.Multiply(b.ctx, y, z))
		b.ok(b.Add(b.ctx, x, product))
	})
	if len(vs) != 5 {
		t.Errorf("%d vertices, want 5", len(vs))
	}
	tensor := func(x *ops.Tensor) string { return "tensor[" + text(x.ID()) + "]" }
	if d := cmp.Diff([]string{tensor(y), tensor(z)}, names(vs, at(t, vs, "ttnn::multiply").In)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{tensor(x), "ttnn::multiply"}, names(vs, at(t, vs, "ttnn::add").In)); d != "" {
		t.Error(d)
	}
	// The output info is the first argument of the consumer, which is its first operand, as in upstream.
	info := at(t, vs, "ttnn::multiply").OutputInfo
	if len(info) != 1 || !strings.Contains(info[0], "buffer_type=BufferType::L1") || !strings.Contains(info[0], "logical_shape=Shape([16, 32, 64])") {
		t.Errorf("output info %q", info)
	}
	if info := at(t, vs, "ttnn::add").OutputInfo; len(info) != 0 {
		t.Errorf("output info of the last one: %q", info)
	}
	wire, err := json.Marshal(vs)
	b.must(err)
	var back []map[string]any
	b.must(json.Unmarshal(wire, &back))
	for _, key := range []string{"counter", "stacking_level", "name", "arguments", "in_edges", "out_edges", "internals", "output_info", "output_shape"} {
		if _, ok := back[0][key]; !ok {
			t.Errorf("no %s in JSON", key)
		}
	}
	if back[0]["counter"] != 0. || back[0]["stacking_level"] != 1. {
		t.Errorf("the first vertex: %v", back[0])
	}
}

// test_graph_capture: how a capture begins and ends, that it can be printed and drawn, and how arguments are spelled.
func TestUpstreamPython(t *testing.T) {
	b := open(t, sim.Wormhole())
	l1 := ops.Interleaved(allocator.L1)
	x, y := b.zeros(l1, 1, 1, 32, 64), b.zeros(l1, 1, 1, 32, 64)
	c := b.BeginCapture(graph.Config{Format: graph.Format2026v1})
	b.must(b.Deallocate(b.ok(b.Add(b.ctx, x, y))))
	g := b.report(c).Graph
	n := len(g.Nodes)
	if g.Nodes[0].Type != graph.CaptureStart || g.Nodes[1].Type != graph.FunctionStart || g.Nodes[n-2].Type != graph.BufferDeallocate || g.Nodes[n-1].Type != graph.CaptureEnd {
		t.Errorf("%v", skeleton(g))
	}
	var printed, drawn bytes.Buffer
	b.must(g.Print(&printed))
	b.must(g.SVG(&drawn))
	if !strings.HasPrefix(printed.String(), "Capture Start\nBegin: ttnn::add\n") || !strings.HasSuffix(drawn.String(), "</svg>\n") {
		t.Errorf("printed as\n%s", printed.String())
	}
	made := g.Nodes[slices.IndexFunc(g.Nodes, func(n graph.Node) bool { return n.Name() == "tt::tt_metal::create_device_tensor" })]
	want := []string{"Shape([1, 1, 32, 64])", "DataType::BFLOAT16", "Layout::TILE", "0",
		"MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED,buffer_type=BufferType::L1,shard_spec=std::nullopt,nd_shard_spec=std::nullopt,created_with_nd_shard_spec=0)"}
	if d := cmp.Diff(want, made.Arguments); d != "" {
		t.Error(d)
	}
	if first := g.Nodes[1].Arguments[0]; !strings.HasPrefix(first, "Tensor(") {
		t.Errorf("an operand is spelled %q", first)
	}
}
