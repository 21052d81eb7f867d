package ops_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

// These are tt-metal's tests of graph capture, with their values where they don't depend on how an
// operation is built.

func isPlanned(err error) bool { return errors.Is(err, ops.ErrPlanned) }

func (b *bench) report(c interface{ End() (*graph.Report, error) }) *graph.Report {
	b.Helper()
	r := value(c.End())(b)
	return r
}

func only(g *graph.Graph, t graph.NodeType) (out []graph.Node) {
	for _, n := range g.Nodes {
		if n.Type == t {
			out = append(out, n)
		}
	}
	return out
}

// BufferTest
func TestUpstreamBuffers(t *testing.T) {
	b := open(t, sim.Wormhole())
	for name, mode := range modes {
		c := b.BeginCapture(graph.Config{Mode: mode})
		var made []*ops.Tensor
		for _, n := range []int{1, 1, 32} {
			made = append(made, b.ok(b.Empty(b.ctx, ops.Spec{Shape: []int{n, 1, 32, 32}, DType: ops.BFloat16, Layout: ops.Tile,
				Memory: l1})))
		}
		for _, x := range made {
			b.must(b.Deallocate(x))
		}
		g := b.report(c).Graph
		var sizes []int64
		seen := map[int]bool{}
		for _, n := range only(g, graph.BufferAllocate) {
			if len(n.Connections) != 1 || seen[n.Connections[0]] {
				t.Errorf("%s: an allocation of %v", name, n.Connections)
				continue
			}
			seen[n.Connections[0]] = true
			size, _ := g.Nodes[n.Connections[0]].Params.Int(graph.ParamSize)
			sizes = append(sizes, size)
		}
		equal(t, []int64{2048, 2048, 65536}, sizes, name)
		expect.Equal(t, len(only(g, graph.BufferDeallocate)), 3, "%s: deallocations", name)
	}
}

// ScopedGraphCapture
func TestUpstreamNestedCaptures(t *testing.T) {
	b := open(t, sim.Wormhole())
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			run := func(broken bool) (outer, inner *graph.Graph) {
				first := b.BeginCapture(graph.Config{Format: graph.Format2026v1, Mode: mode})
				x := b.zeros(l1, 1, 1, 32, 32)
				second := b.BeginCapture(graph.Config{Format: graph.Format2026v1, Mode: mode})
				fails(t, failure(first.End()), ops.ErrNotCapturing, "the end of the outer one first")
				if broken {
					fails(t, failure(b.Concat(b.ctx, []*ops.Tensor{x, x}, 7)), ops.ErrShape, "an impossible concat")
				}
				sum := b.ok(b.Add(b.ctx, x, x))
				inner = b.report(second).Graph
				b.must(b.Deallocate(sum))
				b.must(b.Deallocate(x))
				outer = b.report(first).Graph
				fails(t, failure(first.End()), ops.ErrNotCapturing, "the end of a capture that has ended")
				return outer, inner
			}
			add := []string{"ttnn::add", "ttnn::prim::binary_ng", "BinaryNgDeviceOperation", "tt::tt_metal::create_device_tensor"}
			make := []string{"ttnn::to_device", "tt::tt_metal::create_device_tensor"}
			outer, inner := run(false)
			equal(t, add, graph.CallTrace(inner))
			equal(t, slices.Concat(make, add), graph.CallTrace(outer))
			failed, _ := run(true)
			equal(t, slices.Concat(make, []string{"ttnn::concat"}, add), graph.CallTrace(failed))
			errs := only(failed, graph.ErrorNode)
			if len(errs) != 1 || errs[0].Params["error_operation"] != "ttnn::concat" || errs[0].Params["error_type"] != "exception" {
				t.Errorf("errors: %+v", errs)
			}
			again, _ := run(false)
			equal(t, skeleton(outer), skeleton(again))
		})
	}
}

// OrderOfArgs, SameTensorMultipleTimes, MatmulDifferentOrders
func TestUpstreamInputOrder(t *testing.T) {
	b := open(t, sim.Wormhole())
	x, y := b.zeros(l1, 32, 32), b.zeros(l1, 32, 32)
	for _, args := range [][2]*ops.Tensor{{x, y}, {y, x}, {x, x}} {
		c := b.BeginCapture(graph.Config{Format: graph.Format2026v1, Mode: graph.NoDispatch})
		b.ok(b.Matmul(b.ctx, args[0], args[1]))
		g := b.report(c).Graph
		var got []string
		for _, n := range g.Nodes[1].InputTensors {
			got = append(got, g.Nodes[n].Params[graph.ParamTensorID])
		}
		var want []string
		for _, a := range args {
			want = append(want, text(a.ID()))
		}
		equal(t, want, got)
		distinct := 2
		if args[0] == args[1] {
			distinct = 1
		}
		calls := g.Calls()
		in := g.Operands(calls)[0].In
		expect.Equal(t, calls[0].Name, "ttnn::matmul", "calls[0].Name")
		expect.Equal(t, len(in), distinct, "len(in)")
	}
}

func text(n uint64) string { return strconv.FormatUint(n, 10) }

func (b *bench) read(path string) *graph.Report {
	b.Helper()
	f := value(os.Open(path))(b)
	defer f.Close()
	r := value(graph.Decode(f, graph.Limits{}))(b)
	return r
}

// DurationTracking, GetReport, StackTraces, BufferPagesControl and GraphCaptureToFile
func TestUpstreamReport(t *testing.T) {
	b := open(t, sim.Wormhole())
	for name, mode := range modes {
		x := b.zeros(ops.Sharded(allocator.HeightSharded, 32, 32, chip.Grid(2, 1)), 64, 32)
		c := b.BeginCapture(graph.Config{Format: graph.Format2026v1, Mode: mode})
		b.must(b.Deallocate(b.ok(b.Relu(b.ctx, x))))
		during := c.Report()
		if during.Version != 1 || len(during.Graph.Nodes) == 0 || len(during.Devices) != 1 || during.Metadata.Captured.IsZero() ||
			during.Metadata.Total != 0 {
			t.Errorf("%s: a report of a capture under way: %+v", name, during.Metadata)
		}
		path := filepath.Join(t.TempDir(), "new", "report.json")
		r := value(c.EndToFile(path))(b)
		g := r.Graph
		expect.Equal(t, g.Nodes[0].Type, graph.CaptureStart, "%s: the first node", name)
		for _, n := range append(only(g, graph.FunctionEnd), only(g, graph.CaptureEnd)...) {
			if n.Duration <= 0 {
				t.Errorf("%s: %s took %v", name, n.Name(), n.Duration)
			}
		}
		if len(r.BufferPages) != 0 || len(g.Nodes[1].StackTrace) != 0 {
			t.Errorf("%s: pages or stack traces that nobody asked for", name)
		}
		back := b.read(path)
		equal(t, skeleton(g), skeleton(back.Graph))
		if d := back.Devices[0]; d.Arch != "wormhole_b0" || d.L1Banks != int64(b.dev.Grid().Size()) || d.WorkerL1Size == 0 ||
			d.CircularBufferLimit <= 0 {
			t.Errorf("%s: device %+v", name, d)
		}
		b.must(b.Deallocate(x))
	}
}

func TestBufferPages(t *testing.T) {
	b := open(t, sim.Wormhole())
	c := b.BeginCapture(graph.Config{BufferPages: true, OperationBuffers: true})
	x := b.zeros(ops.Sharded(allocator.HeightSharded, 32, 32, chip.Grid(2, 1)), 64, 32)
	b.zeros(dram, 32, 32)
	r := b.report(c)
	var where [][3]int64
	for _, p := range r.BufferPages {
		where = append(where, [3]int64{p.CoreX, p.CoreY, p.PageSize})
		if p.PageAddr != uint64(x.Address()) || p.BufferType != int64(graph.L1) {
			t.Errorf("%+v", p)
		}
	}
	equal(t, [][3]int64{{0, 0, 2048}, {1, 0, 2048}}, where)
	expect.Equal(t, len(r.OperationBuffers), 2, "buffers after")
	expect.Equal(t, len(r.PagesByAddress[uint64(x.Address())]), 1, "pages by address: %v", r.PagesByAddress)
}

// AddGraphTrace of test_graph_add. In its third case the circular buffers are in the tensors'
// shards, but count for the peak.
func TestUpstreamAddFigures(t *testing.T) {
	b := open(t, eight())
	type figures struct{ Peak, Circular, OutPerCore, L1PerCore, OutSize int64 }
	for name, c := range map[string]struct {
		memory ops.MemoryConfig
		x, y   []int
		want   figures
	}{
		"interleaved": {l1, []int{1, 3, 32, 32}, []int{1, 3, 32, 32}, figures{30720, 12288, 2048, 2048, 6144}},
		"broadcast":   {l1, []int{4, 3, 32, 32}, []int{1, 3, 32, 32}, figures{67584, 12288, 2048, 2048, 24576}},
		"sharded": {ops.Sharded(allocator.HeightSharded, 192, 1024, chip.Grid(4, 4)), []int{3, 1, 1024, 1024}, []int{3, 1, 1024, 1024},
			figures{20054016, 0, 393216, 393216, 6291456}},
	} {
		for kind, mode := range modes {
			if mode == graph.Normal && name == "sharded" && testing.Short() {
				continue
			}
			t.Run(name+" "+kind, func(t *testing.T) {
				x, y := b.zeros(c.memory, c.x...), b.zeros(c.memory, c.y...)
				for range 2 { // the second time from the program cache
					capture := b.BeginCapture(graph.Config{Mode: mode})
					sum := b.ok(b.Add(b.ctx, x, y))
					g := b.report(capture).Graph
					out := value(graph.Outputs(g, 64))(b)
					between, outputs, err := graph.CountTensors(g)
					b.must(err)
					use := graph.PerCore(g, 64)
					equal(t, c.want, figures{graph.PeakL1(g), use.Circular, out[0].PerCore, use.L1, out[0].Size})
					if len(out) != 1 || between != 0 || outputs != 1 {
						t.Errorf("%d outputs, %d tensors in between and %d at the end", len(out), between, outputs)
					}
					want := []string{"ttnn::add", "ttnn::prim::binary_ng", "BinaryNgDeviceOperation", "tt::tt_metal::create_device_tensor"}
					equal(t, want, graph.CallTrace(g))
					for _, n := range only(g, graph.CircularAllocate) {
						expect.Equal(t, n.Params["globally_allocated"] == "1", name == "sharded", "a circular buffer of %v", n.Params)
					}
					if mode == graph.Normal {
						b.must(b.Deallocate(sum))
					}
				}
				b.must(b.Deallocate(x))
				b.must(b.Deallocate(y))
			})
		}
	}
}

func TestOthersAreCaptured(t *testing.T) {
	b := open(t, sim.Wormhole())
	c := b.BeginCapture(graph.Config{})
	image := value(kernels.Prebuilt(b.dev.Arch(), kernels.Blank))(b)
	on := []chip.Range{chip.Grid(2, 1)}
	x, err := b.dev.Load(b.ctx, &reprise.Program{
		Name: "nothing", Kernels: []reprise.Kernel{{Name: "blank", Image: image, Cores: on}},
		CircularBuffers: []reprise.CircularBuffer{{Index: 3, Cores: on, PageSize: 64, Pages: 4}},
	})
	b.must(err)
	buf := value(b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 128, PageSize: 64, Name: "numbers"}))(b)
	q := b.dev.Queue(0)
	b.must(q.Write(b.ctx, buf, 0, make([]byte, 128)))
	b.must(q.Run(b.ctx, x))
	b.must(q.Wait(b.ctx))
	b.must(buf.Release())
	g := b.report(c).Graph
	equal(t, []string{"reprise::write", "reprise::run", "nothing", "reprise::queue_wait"}, graph.CallTrace(g))
	cbs := only(g, graph.CircularAllocate)
	if len(cbs) != 1 || cbs[0].Params["size"] != "256" || cbs[0].Params["address"] != text(uint64(x.CircularBuffers()[0].Addr)) {
		t.Errorf("circular buffers: %+v", cbs)
	}
	if a, f := only(g, graph.BufferAllocate), only(g, graph.BufferDeallocate); len(a) != 1 || len(f) != 1 ||
		a[0].Params["address"] != text(uint64(buf.Addr())) || a[0].Params["type"] != "DRAM" {
		t.Errorf("allocations %+v, deallocations %+v", a, f)
	}
}

type gate struct{ begun, let chan struct{} }

func (g gate) Begin(context.Context, *reprise.Call) {
	g.begun <- struct{}{}
	<-g.let
}

func (g gate) End(context.Context, *reprise.Call) {}

func TestOverlappingCallsOfOthers(t *testing.T) {
	dev := value(reprise.Open(t.Context(), sim.Wormhole(), reprise.WithQueues(2)))(t)
	defer dev.Close(t.Context())
	b := &bench{TB: t, ctx: t.Context(), dev: dev, Device: ops.New(dev)}
	var bufs [2]*reprise.Buffer
	for i, name := range []string{"first", "second"} {
		bufs[i] = value(dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, PageSize: 64, Name: name}))(b)
	}
	for _, order := range [][2]int{{0, 1}, {1, 0}} {
		c := b.BeginCapture(graph.Config{})
		var gates, over [2]chan struct{}
		errs := make(chan error, 2)
		for i := range gates {
			g := gate{make(chan struct{}), make(chan struct{})}
			gates[i], over[i] = g.let, make(chan struct{})
			stop := dev.Observe(g)
			go func() {
				defer close(over[i])
				errs <- dev.Queue(i).Write(t.Context(), bufs[i], 0, make([]byte, 64))
			}()
			<-g.begun
			stop() // for later calls
		}
		for _, i := range order {
			close(gates[i])
			<-over[i]
			b.must(<-errs)
		}
		r := b.report(c)
		var got []string
		for _, a := range graph.Arguments(r.Graph) {
			got = append(got, fmt.Sprint(a.Name, a.Arguments))
		}
		slices.Sort(got)
		equal(t, []string{"reprise::write[first 64]", "reprise::write[second 64]"}, got, "ended in the order %v", order)
		for _, call := range r.Graph.Calls() {
			if call.End < 0 {
				t.Errorf("ended in the order %v: %s has no end", order, call.Name)
			}
		}
	}
}

func TestHangIsCaptured(t *testing.T) {
	ctx := t.Context()
	dev := value(reprise.Open(ctx, sim.Wormhole(), reprise.WithHangTimeout(time.Second)))(t)
	defer func() { _ = dev.Close(ctx) }() // a kernel that never ends may make this fail
	b := &bench{TB: t, ctx: ctx, dev: dev, Device: ops.New(dev, ops.WithBlocking())}
	x := b.zeros(l1, 1, 1, 32, 32)
	word := value(dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64, Name: "word"}))(b)
	b.must(dev.Queue(0).Write(ctx, word, 0, make([]byte, 64)))
	image := value(kernels.Prebuilt(dev.Arch(), kernels.Spin))(b)
	spin, err := dev.Load(ctx, &reprise.Program{Name: "forever", Kernels: []reprise.Kernel{{
		Name: "wait", Image: image, Processor: chip.TRISC1, Cores: []chip.Range{chip.Single(2, 1)},
		Args: func(chip.Core) []uint32 { return []uint32{word.Addr(), 1} },
	}}})
	b.must(err)
	b.ok(b.Relu(ctx, x)) // so that its program is loaded before the other one hangs
	b.must(dev.Queue(0).Run(ctx, spin))
	c := b.BeginCapture(graph.Config{Format: graph.Format2026v1})
	_, err = b.Relu(ctx, x)
	var h *dispatch.HangError
	if !errors.As(err, &h) {
		t.Fatalf("%v, want a *HangError", err)
	}
	equal(t, []string{"ttnn::relu"}, c.Open())
	path := filepath.Join(t.TempDir(), "hang.json")
	r := value(c.EndToFile(path))(b)
	errs := only(r.Graph, graph.ErrorNode)
	if len(errs) != 1 || errs[0].Params["error_type"] != "hang" || errs[0].Params["error_operation"] != "ttnn::relu" {
		t.Errorf("%+v", errs)
	}
	calls := r.Graph.Calls()
	if len(calls) == 0 || calls[0].End != -1 {
		t.Errorf("the operation has an end: %+v", calls)
	}
	equal(t, skeleton(r.Graph), skeleton(b.read(path).Graph))
}

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
