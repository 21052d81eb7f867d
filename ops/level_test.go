package ops_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

func (b *bench) dataFlow(cfg graph.Config, f func()) map[string][2][]string {
	b.Helper()
	c := b.BeginCapture(cfg)
	f()
	g := b.report(c).Graph
	calls := g.Calls()
	out := map[string][2][]string{}
	for i, o := range g.Operands(calls) {
		var ids [2][]string
		for k, nodes := range [][]int{o.In, o.Out} {
			for _, n := range nodes {
				ids[k] = append(ids[k], g.Nodes[n].Params[graph.ParamTensorID])
			}
		}
		out[calls[i].Name] = ids
	}
	return out
}

// SimpleBinaryOp
func TestUpstreamFlowOfAdd(t *testing.T) {
	b := open(t, sim.Wormhole())
	for name, mode := range modes {
		a := b.zeros(l1, 64, 128)
		cfg := graph.Config{Format: graph.Format2026v1, Mode: mode}
		one := b.dataFlow(cfg, func() { b.ok(b.Add(b.ctx, a, a)) })
		for _, f := range []string{"ttnn::add", "ttnn::prim::binary_ng"} {
			if d := cmp.Diff([]string{text(a.ID())}, one[f][0]); d != "" || len(one[f][1]) != 1 {
				t.Errorf("%s: %s: %s, out %v", name, f, d, one[f][1])
			}
		}
		made := b.dataFlow(cfg, func() {
			x := b.ok(b.Empty(b.ctx, a.Spec()))
			b.ok(b.Add(b.ctx, x, x))
		})
		if d := cmp.Diff(made["ttnn::empty"][1], made["ttnn::add"][0]); d != "" || len(made["ttnn::add"][0]) != 1 {
			t.Errorf("%s: an operand that was made in the capture: %v, %s", name, made, d)
		}
	}
}

// MultiplyAndAddTest
func TestUpstreamChainOfOperations(t *testing.T) {
	b := open(t, sim.Wormhole())
	x, y, z := b.zeros(l1, 16, 32, 64), b.zeros(l1, 16, 32, 64), b.zeros(l1, 16, 32, 64)
	got := b.dataFlow(graph.Config{Format: graph.Format2026v1, Mode: graph.NoDispatch}, func() {
		product := b.ok(b.Multiply(b.ctx, y, z))
		b.ok(b.Add(b.ctx, x, product))
	})
	equal(t, []string{text(y.ID()), text(z.ID())}, got["ttnn::multiply"][0])
	equal(t, []string{text(x.ID()), got["ttnn::multiply"][1][0]}, got["ttnn::add"][0])
}

func TestSeveralResultsInGraphs(t *testing.T) {
	b := open(t, sim.Blackhole())
	x := b.zeros(dram, 1, 1, 32, 128)
	var h ops.Heads
	var values, indices *ops.Tensor
	got := b.dataFlow(graph.Config{Mode: graph.NoDispatch}, func() {
		var err error
		h, err = b.SplitHeads(b.ctx, x, 2, 1)
		b.must(err)
		values, indices, err = b.TopK(b.ctx, x, 3)
		b.must(err)
	})
	for name, want := range map[string][]*ops.Tensor{"ttnn::experimental::nlp_create_qkv_heads": {h.Q, h.K, h.V},
		"ttnn::topk": {values, indices}} {
		var ids []string
		for _, r := range want {
			ids = append(ids, text(r.ID()))
		}
		equal(t, ids, got[name][1], name)
	}
}

// test_graph_capture
func TestUpstreamPython(t *testing.T) {
	b := open(t, sim.Wormhole())
	x, y := b.zeros(l1, 1, 1, 32, 64), b.zeros(l1, 1, 1, 32, 64)
	c := b.BeginCapture(graph.Config{Format: graph.Format2026v1})
	b.must(b.Deallocate(b.ok(b.Add(b.ctx, x, y))))
	g := b.report(c).Graph
	n := len(g.Nodes)
	if g.Nodes[0].Type != graph.CaptureStart || g.Nodes[1].Type != graph.FunctionStart || g.Nodes[n-2].Type != graph.BufferDeallocate ||
		g.Nodes[n-1].Type != graph.CaptureEnd {
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
	equal(t, want, made.Arguments)
	if first := g.Nodes[1].Arguments[0]; !strings.HasPrefix(first, "Tensor(") {
		t.Errorf("an operand is spelled %q", first)
	}
}
