package ops_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kmd"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/ops/graph/visualizer"
	"github.com/reprise-tt/reprise/ops/safetensors"
	"github.com/reprise-tt/reprise/sim"
	"github.com/reprise-tt/reprise/tracebuf"
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
	text := value(os.ReadFile("graph/testdata/sample.json"))(t)
	r := value(graph.Decode(bytes.NewReader(text), graph.Limits{}))(t)
	for _, n := range r.Graph.Nodes {
		delete(n.Params, graph.ParamAddress)
	}
	return r.Graph
}

func TestSampleOperation(t *testing.T) {
	want := value(json.MarshalIndent(document(t), "", " "))(t)
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			g := sample(open(t, eight(), ops.WithSeparateRepeat()), graph.Config{Format: graph.Format2025, Mode: mode})
			for i := range g.Nodes {
				delete(g.Nodes[i].Params, graph.ParamAddress)
			}
			got := value(json.MarshalIndent(g, "", " "))(t)
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
	h := b.toHost(sum)
	if h.Data != nil || ops.Values[uint32](h) != nil {
		t.Errorf("data of what never ran: %v", h.Data)
	}
	huge := b.ok(b.Empty(b.ctx, ops.Spec{Shape: []int{1 << 20, 1 << 15}, DType: ops.Float32, Memory: l1}))
	expect.Equal(t, huge.Address(), 0, "a tensor that doesn't fit is at")
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
		expect.Equal(t, of(c.g, c.name), c.want, "%s", c.name)
	}
}

func TestControlFlowInGraphs(t *testing.T) {
	b := open(t, sim.Blackhole())
	x := b.put(normal([4]int{1, 1, 32, 32}, ops.BFloat16, 1), ops.Tile, dram)
	out := b.ok(b.Add(b.ctx, x, x))
	state := value(b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Name: "state"}))(b)
	var within context.Context // of the capture
	add := func() error { return failure(b.Add(within, x, x, ops.Into(out))) }
	q := b.dev.Queue(0)
	capture := func(name string, f func(r *reprise.Recorder) error) *reprise.Trace {
		tr, err := q.Capture(b.ctx, name, func(ctx context.Context, r *reprise.Recorder) error {
			return b.Record(ctx, r, func(ctx context.Context) error { within = ctx; return f(r) })
		})
		b.must(err)
		return tr
	}
	inner := capture("inner", func(*reprise.Recorder) error { return add() })
	cond := reprise.Cond{Buffer: state, Offset: 4, Is: cq.Equal, Value: 1}

	c := b.BeginCapture(graph.Config{})
	tr := capture("outer", func(r *reprise.Recorder) error {
		return errors.Join(
			r.Loop(5, func() error { return errors.Join(add(), r.While(cond, 9, add)) }),
			r.If(cond, add, func() error { return r.Call(inner) }),
			r.Switch(state, 0, add, add),
		)
	})
	report := b.report(c)

	var got []string
	for _, f := range report.Graph.Calls() {
		if strings.HasPrefix(f.Name, graph.ControlPrefix) || f.Name == "ttnn::add" {
			got = append(got, fmt.Sprintf("%d %s", f.Depth, f.Name))
		}
		if f.End < 0 {
			t.Errorf("%s didn't end", f.Name)
		}
	}
	want := []string{
		"0 control::loop of 5", "1 ttnn::add", "1 control::while state[4] == 1, at most 9", "2 ttnn::add",
		"0 control::if state[4] == 1", "1 control::then", "2 ttnn::add", "1 control::otherwise", "2 control::call inner",
		"0 control::switch of state", "1 control::body 0", "2 ttnn::add", "1 control::body 1", "2 ttnn::add",
	}
	equal(t, want, got, "functions")
	var file, dot bytes.Buffer
	b.must(report.Encode(&file))
	again := value(graph.Decode(bytes.NewReader(file.Bytes()), graph.Limits{}))(b)
	equal(t, report.Graph.Calls(), again.Graph.Calls(), "the report read again")
	b.must(report.Graph.Dot(&dot))
	if !strings.Contains(dot.String(), `label="control::while state[4] == 1, at most 9"`) {
		t.Error("the loop has no frame in the picture")
	}
	path := filepath.Join(t.TempDir(), "report.json")
	b.must(os.WriteFile(path, file.Bytes(), 0o600))
	sum := value(visualizer.Import(b.ctx, filepath.Join(t.TempDir(), "db.sqlite"), []string{path}, visualizer.Options{}))(b)
	if sum.Operations != 5 || sum.Errors != 0 || len(sum.Warnings) != 0 || !strings.HasPrefix(report.ClusterDescriptor, "arch:\n  0: ") {
		t.Errorf("the visualizer gets %+v, want 5 operations", sum)
	}
	b.must(errors.Join(tr.Release(b.ctx), inner.Release(b.ctx), state.Release()))
}

// A model may have operations with several programs and results; all its memory is free afterwards.
func TestCaptureModel(t *testing.T) {
	onBackends(t, func(b *bench) {
		x := b.zeros(dram, 1, 1, 64, 64)
		calls := 0
		model := func(ctx context.Context) ([]*ops.Tensor, error) {
			calls++
			soft, err := b.Softmax(ctx, x, 3)
			if err != nil {
				return nil, err
			}
			values, indices, err := b.TopK(ctx, soft, 32)
			if err != nil {
				return nil, err
			}
			turned, err := b.Transpose(ctx, values, 2, 3)
			return []*ops.Tensor{turned, indices}, errors.Join(err, b.Deallocate(soft), b.Deallocate(values))
		}
		first, err := model(b.ctx) // programs and scratch memory stay
		b.must(err)
		for _, t := range append(first, b.ok(b.Relu(b.ctx, x))) {
			b.must(b.Deallocate(t))
		}
		before := devtest.Allocated(b.dev)
		m := value(b.CaptureModel(b.ctx, "model", model))(b)
		for i := range 3 {
			v := make([]float32, 64*64)
			for k := range v {
				v[k] = float32((k*7 + i) % 64)
			}
			h := value(ops.NewHost([]int{1, 1, 64, 64}, ops.BFloat16, v))(b)
			b.must(b.CopyHostToDevice(b.ctx, h, x))
			b.must(m.Replay(b.ctx))
			want := value(model(b.ctx))(b)
			for k, w := range want {
				got := b.toHost(m.Outputs()[k])
				wanted := b.toHost(w)
				equal(b, wanted.Data, got.Data, fmt.Sprintf("result %d of replay %d", k, i))
				b.must(b.Deallocate(w))
			}
		}
		b.must(m.Release(b.ctx))
		calls = 0
		_, err = b.CaptureModel(b.ctx, "grows", func(ctx context.Context) ([]*ops.Tensor, error) {
			var errs []error
			for calls++; len(errs) < calls; {
				errs = append(errs, failure(b.Relu(ctx, x)))
			}
			return nil, errors.Join(errs...)
		})
		expect.Fails(b, err, reprise.ErrInCapture, "another operation in the second run")
		expect.NoDiff(b, devtest.Allocated(b.dev), before, "memory stays allocated")
	})
}

func TestQueueOfACall(t *testing.T) {
	b := openWith(t, sim.Blackhole(), []reprise.Option{reprise.WithQueues(2)})
	one := ops.OnQueue(b.ctx, 1)
	x, out := b.tensor(l1, ops.Int32, 2, 3), b.tensor(l1, ops.Int32, 2, 3)
	b.must(b.Wait(b.ctx))
	sum := b.ok(b.Add(one, x, x))
	data := make([]byte, 0, 24)
	h := &ops.Host{Data: data}
	r := value(b.StartToHost(one, sum, h))(b)
	b.must(r.Wait(b.ctx))
	if h.DType != ops.Int32 || len(h.Shape) != 2 || &h.Data[0] != &data[:1][0] {
		t.Errorf("read as %v of %v, in other memory", h.Shape, h.DType)
	}
	b.holds(sum, 0, 2, 4, 6, 8, 10)
	b.ok(b.Add(one, x, sum, ops.Into(out)))
	tr, err := b.Capture(one, "on queue 1", func(ctx context.Context) error {
		return failure(b.Add(ctx, x, sum, ops.Into(out)))
	})
	b.must(err)
	b.must(tr.Replay(b.ctx))
	b.must(b.Wait(one))
	b.holds(out, 0, 3, 6, 9, 12, 15)

	for id := range map[int]bool{-1: true, 2: true} {
		ctx := ops.OnQueue(b.ctx, id)
		_, run := b.Add(ctx, x, x)
		_, read := b.StartToHost(ctx, x, h)
		_, capture := b.Capture(ctx, "t", func(context.Context) error { return nil })
		for _, err := range []error{run, read, capture, b.Wait(ctx)} {
			expect.Fails(t, err, ops.ErrQueue, "queue %d", id)
		}
	}
}

func TestCaptureLeavesOtherCallersAlone(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.tensor(l1, ops.Int32, 2, 3)
	mine, other := b.ok(b.Add(b.ctx, x, x)), b.ok(b.Add(b.ctx, x, x))
	b.ok(b.Multiply(b.ctx, x, x))
	tr := b.capture("t", func(ctx context.Context) error {
		_, err := b.Multiply(ctx, x, x, ops.Into(mine))
		done := make(chan error)
		go func() {
			_, err := b.Multiply(b.ctx, x, x, ops.Into(other))
			done <- err
		}()
		return errors.Join(err, <-done)
	})
	b.must(b.Wait(b.ctx))
	b.holds(other, 0, 1, 4, 9, 16, 25)
	b.holds(mine, 0, 2, 4, 6, 8, 10)
	b.must(tr.Replay(b.ctx))
	b.holds(mine, 0, 1, 4, 9, 16, 25)

	var inner error
	_, err := b.Capture(b.ctx, "outer", func(ctx context.Context) error {
		_, inner = b.Capture(ctx, "inner", func(ctx context.Context) error { return nil })
		return inner
	})
	expect.Fails(t, err, reprise.ErrInCapture, "error")
	expect.Fails(t, inner, reprise.ErrInCapture, "inner")
}

func TestMissingQueue(t *testing.T) {
	b := open(t, sim.Blackhole(), ops.WithQueue(7))
	h := value(ops.NewHost([]int{1, 32}, ops.BFloat16, make([]float32, 32)))(b)
	fails(t, failure(b.ToDevice(b.ctx, h, ops.Tile, dram)), ops.ErrQueue)
	equal(t, "host tensor: [1 32] DataType::BFLOAT16, 64 bytes", fmt.Sprint(h))
}

// A file with tensors is a model: inputs and results by name, weights from a safetensors file.
func TestLoadedModel(t *testing.T) {
	onBackends(t, func(b *bench) {
		host := func(rows, cols, seed int) *ops.Host {
			v := make([]float32, rows*cols)
			for i := range v {
				v[i] = float32((i*seed)%17 - 8)
			}
			h := value(ops.NewHost([]int{rows, cols}, ops.BFloat16, v))(b)
			return h
		}
		device := func(h *ops.Host) *ops.Tensor { return b.ok(b.ToDevice(b.ctx, h, ops.Tile, dram)) }
		cores := chip.Grid(2, 1)
		w := device(host(40, 64, 5))
		x := b.ok(b.ToDevice(b.ctx, host(32, 40, 3), ops.Tile, ops.Sharded(allocator.WidthSharded, 32, 32, cores)))
		m, err := b.CaptureModel(b.ctx, "product", func(ctx context.Context) ([]*ops.Tensor, error) {
			in, err := b.ToMemoryConfig(ctx, x, dram)
			if err != nil {
				return nil, err
			}
			y, err := b.Matmul(ctx, in, w)
			return []*ops.Tensor{y}, err
		})
		b.must(err)
		y := m.Outputs()[0]
		var saved bytes.Buffer
		b.must(m.Replay(b.ctx))
		b.must(m.Save(b.ctx, &saved, reprise.WithData(w.Buffer(), x.Buffer()), reprise.WithResults(y.Buffer())))
		other := host(32, 40, 7)
		b.must(b.CopyHostToDevice(b.ctx, other, x))
		b.must(m.Replay(b.ctx))
		want := b.toHost(y)

		file := value(tracebuf.Decode(&saved))(b)
		for i := range file.Image.Buffers {
			u := &file.Image.Buffers[i]
			for name, of := range map[string]*ops.Tensor{"w": w, "x": x, "y": y} {
				if u.Addr == uint64(of.Address()) {
					u.Name, u.Tensor = name, &tracebuf.Tensor{Shape: of.Shape(), DType: "BFLOAT16", Tiles: true, Input: name == "x"}
				}
			}
		}
		// PyTorch has the weights of a linear layer in the other order.
		var weights bytes.Buffer
		turned := value(ops.NewHost([]int{64, 40}, ops.Float32, transposed(ops.Values[float32](host(40, 64, 5)), 40)))(b)
		b.must(safetensors.Write(&weights, map[string]*ops.Host{"linear": turned, "unused": host(32, 40, 9)}, nil))
		from := value(safetensors.NewFile(bytes.NewReader(weights.Bytes()), int64(weights.Len())))(b)
		if n := from.Refer(file); n != 1 || len(file.Data) != 1 {
			b.Fatalf("%d weights are in the safetensors file, %d contents in the trace's", n, len(file.Data))
		}
		saved.Reset()
		b.must(tracebuf.Encode(&saved, file))
		b.must(m.Release(b.ctx))
		b.must(b.Deallocate(w))
		b.must(b.Deallocate(x))

		trace := value(b.dev.LoadTrace(b.ctx, &saved))(b)
		loaded := value(b.LoadedModel(trace))(b)
		expect.NoDiff(b, [][]string{loaded.Inputs(), loaded.Results(), loaded.Missing()}, [][]string{{"x"}, {"y"}, {"linear"}},
			"inputs, results and weights")
		b.must(loaded.LoadWeights(b.ctx, from.Tensor))
		in := value(loaded.Tensor("x"))(b)
		b.must(b.CopyHostToDevice(b.ctx, other, in))
		b.must(loaded.Replay(b.ctx))
		got := b.toHost(loaded.Outputs()[0])
		equal(b, want.Data, got.Data, "the loaded model's result")
		fails(b, failure(loaded.Tensor("z")), ops.ErrNoTensor, "a tensor that isn't there")
		small := func(string) (*ops.Host, error) { return host(2, 2, 1), nil }
		fails(b, loaded.LoadWeights(b.ctx, small), ops.ErrShape, "a weight of another shape")
		b.must(loaded.Release(b.ctx))
	})
}

func transposed(v []float32, rows int) []float32 {
	out, cols := make([]float32, len(v)), len(v)/rows
	for i, x := range v {
		out[i%cols*rows+i/cols] = x
	}
	return out
}
