package ops_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/kernels"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

func programsOf(t *testing.T, r *graph.Report) []string {
	t.Helper()
	var out []string
	for _, p := range r.Programs {
		name := "?"
		if p.Function >= 0 {
			name = r.Graph.Nodes[p.Function].Name()
		}
		s := name + " " + p.Name
		if p.Trace != "" {
			s += " " + p.Trace + string(rune('0'+p.Replay))
		}
		if p.Start >= p.End || p.HostEnd < p.HostStart {
			t.Errorf("%s: it ran from %d to %d, its call from %v to %v", s, p.Start, p.End, p.HostStart, p.HostEnd)
		}
		out = append(out, s)
	}
	if !slices.IsSortedFunc(r.Programs, func(a, b graph.ProgramRun) int { return int(int64(a.Start - b.Start)) }) {
		t.Error("the programs aren't in the order of their starts")
	}
	return out
}

func TestTimesInGraphs(t *testing.T) {
	b := open(t, sim.Blackhole(), ops.WithID(3))
	x := b.put(normal([4]int{1, 1, 32, 32}, ops.BFloat16, 1), ops.Tile, dram)
	out := b.ok(b.Add(b.ctx, x, x))
	b.ok(b.Relu(b.ctx, x, ops.Into(out)))
	q := b.dev.Queue(0)
	b.must(q.Wait(b.ctx))

	c := b.BeginCapture(graph.Config{})
	b.ok(b.Add(b.ctx, x, x, ops.Into(out)))
	tr := b.capture("two", func(ctx context.Context) error {
		_, err := b.Relu(ctx, x, ops.Into(out))
		_, again := b.Add(ctx, x, x, ops.Into(out))
		return errors.Join(err, again)
	})
	loop, err := q.Capture(b.ctx, "loop", func(ctx context.Context, r *reprise.Recorder) error {
		return b.Record(ctx, r, func(ctx context.Context) error {
			return r.Loop(3, func() error { return failure(b.Relu(ctx, x, ops.Into(out))) })
		})
	})
	b.must(err)
	b.must(tr.Replay(b.ctx))
	b.must(loop.Replay(b.ctx))
	b.must(tr.Replay(b.ctx))
	b.ok(b.Relu(b.ctx, x, ops.Into(out)))
	b.must(b.Wait(b.ctx))
	r := b.report(c)

	add, relu := "BinaryNgDeviceOperation binary", "UnaryDeviceOperation relu"
	want := []string{add, relu + " two1", add + " two1", "reprise::replay  loop1", "reprise::replay  loop1", "reprise::replay  loop1",
		relu + " two2", add + " two2", relu}
	equal(t, want, programsOf(t, r), "programs")
	var file bytes.Buffer
	b.must(r.Encode(&file))
	again := value(graph.Decode(&file, graph.Limits{}))(b)
	equal(t, r.Programs, again.Programs, "programs of the file")
	if mhz := again.ClockMHz(3); mhz < 200 || mhz > 2000 || again.Devices[0].ClockMHz != mhz {
		t.Errorf("the clock is %v MHz, and %v MHz is written", mhz, again.Devices[0].ClockMHz)
	}
	times := again.DeviceTimes()
	calls := again.Graph.Calls()
	top := map[string]int{}
	for _, call := range calls {
		if call.Depth == 0 {
			top[call.Name] += times[call.Start].Programs
		}
	}
	equal(t, map[string]int{"ttnn::add": 3, "ttnn::relu": 3, "reprise::replay": 3}, nonzero(top), "programs by operation")
	var tree strings.Builder
	b.must(again.PrintTree(&tree))
	if !strings.Contains(tree.String(), ", device ") || !strings.Contains(tree.String(), " in 2 programs\n") {
		t.Errorf("the tree has no times of the device:\n%s", tree.String())
	}
	b.must(tr.Release(b.ctx))
	b.must(loop.Release(b.ctx))
}

func nonzero(m map[string]int) map[string]int {
	for k, v := range m {
		if v == 0 {
			delete(m, k)
		}
	}
	return m
}

func TestTimesAmongOthers(t *testing.T) {
	b := openWith(t, sim.Blackhole(), []reprise.Option{reprise.WithQueues(2)})
	x := b.put(normal([4]int{1, 1, 32, 32}, ops.BFloat16, 1), ops.Tile, dram)
	out := b.ok(b.Add(b.ctx, x, x))
	const cores = 256 // at least one page for each
	word := value(b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * cores, PageSize: 64}))(b)
	b.must(b.dev.Queue(1).Write(b.ctx, word, 0, make([]byte, 64*cores)))
	image := value(kernels.Prebuilt(b.dev.Arch(), kernels.Spin))(b)
	spin, err := b.dev.Load(b.ctx, &reprise.Program{Name: "spin", Kernels: []reprise.Kernel{{Image: image, Processor: chip.BRISC,
		Cores: []chip.Range{chip.Single(1, 1)}, Args: func(chip.Core) []uint32 { return []uint32{word.Addr(), 1} }}}})
	b.must(err)
	tr := b.capture("before", func(ctx context.Context) error { return failure(b.Add(ctx, x, x, ops.Into(out))) })
	b.must(b.dev.Queue(0).Run(b.ctx, spin))
	b.ok(b.Add(b.ctx, x, x, ops.Into(out))) // it runs when the capture has begun
	queued := b.dev.NewEvent("queued", reprise.Timed())
	b.must(b.dev.Queue(0).Record(b.ctx, queued))
	outer := b.BeginCapture(graph.Config{})
	b.must(tr.Replay(b.ctx))
	inner := b.BeginCapture(graph.Config{})
	b.must(b.dev.Queue(1).Write(b.ctx, word, 0, bytes.Repeat([]byte{1, 0, 0, 0}, 16*cores)))
	b.must(tr.Debug().Step(b.ctx, nil)) // programs of no call
	b.ok(b.Add(b.ctx, x, x, ops.Into(out)))
	b.must(b.Wait(b.ctx))
	began, ok := queued.DeviceTime()
	for i, c := range []*ops.Capture{inner, outer} {
		r := b.report(c)
		if first := r.Programs[0].Start; !ok || first < began {
			t.Errorf("a program of the capture began at %d, before %d", first, began)
		}
		want := []string{"reprise::replay binary before1", "BinaryNgDeviceOperation binary"}[1-i:]
		equal(t, want, programsOf(t, r), "capture %d", i)
	}
	b.must(tr.Release(b.ctx))
}

func TestPerformanceReport(t *testing.T) {
	b := open(t, sim.Wormhole())
	in := dram
	x := b.put(normal([4]int{1, 1, 64, 96}, ops.BFloat16, 1), ops.Tile, in)
	y := b.put(normal([4]int{1, 1, 96, 40}, ops.BFloat16, 2), ops.Tile, in)
	c := b.BeginCapture(graph.Config{StackTraces: true, OperationBuffers: true})
	product := b.ok(b.Matmul(b.ctx, x, y))
	b.ok(b.Relu(b.ctx, product))
	b.must(b.Wait(b.ctx))
	r := b.report(c)

	var out bytes.Buffer
	b.must(r.WritePerformance(&out))
	records := value(csv.NewReader(&out).ReadAll())(b)
	rows := make([]map[string]string, len(records)-1)
	for i, record := range records[1:] {
		rows[i] = map[string]string{}
		for k, v := range record {
			if v != "" {
				rows[i][records[0][k]] = v
			}
		}
		for _, column := range []string{"DEVICE KERNEL DURATION [ns]", "HOST START TS", "HOST END TS", "HOST DURATION [ns]",
			"DEVICE FW START CYCLE", "DEVICE FW END CYCLE",
			"OP TO OP LATENCY [ns]", "OP TO OP LATENCY BR/NRISC START [ns]", "DEVICE FW DURATION [ns]", "ATTRIBUTES", "CORE COUNT"} {
			if rows[i][column] == "" {
				t.Errorf("row %d has no %s", i, column)
			}
			delete(rows[i], column)
		}
	}
	tensor := func(row map[string]string, name, y, x string) {
		for k, v := range map[string]string{"W_PAD[LOGICAL]": "1[1]", "Z_PAD[LOGICAL]": "1[1]", "Y_PAD[LOGICAL]": y, "X_PAD[LOGICAL]": x,
			"LAYOUT": "TILE", "DATATYPE": "BFLOAT16", "MEMORY": "DEV_0_DRAM_INTERLEAVED"} {
			row[name+"_"+k] = v
		}
	}
	want := []map[string]string{
		{"OP CODE": "MatmulDeviceOperation", "OP TYPE": "tt_dnn_device", "GLOBAL CALL COUNT": "1", "DEVICE ID": "0", "DEVICE ARCH": "wormhole_b0",
			"MATH FIDELITY":               "HiFi4",
			"AVAILABLE WORKER CORE COUNT": rows[0]["AVAILABLE WORKER CORE COUNT"]},
		{"OP CODE": "UnaryDeviceOperation", "OP TYPE": "tt_dnn_device", "GLOBAL CALL COUNT": "2", "DEVICE ID": "0", "DEVICE ARCH": "wormhole_b0",
			"AVAILABLE WORKER CORE COUNT": rows[0]["AVAILABLE WORKER CORE COUNT"]},
	}
	tensor(want[0], "INPUT_0", "64[64]", "96[96]")
	tensor(want[0], "INPUT_1", "96[96]", "64[40]")
	tensor(want[0], "OUTPUT_0", "64[64]", "64[40]")
	tensor(want[1], "INPUT_0", "64[64]", "64[40]")
	tensor(want[1], "OUTPUT_0", "64[64]", "64[40]")
	equal(t, want, rows)
}

type hearing struct{ lines []string }

type caller struct{}

func (h *hearing) Begin(ctx context.Context, f *ops.Function) context.Context {
	from, _ := ctx.Value(caller{}).(string)
	h.lines = append(h.lines, fmt.Sprintf("%d %s from %q, %d arguments", f.Level, f.Name, from, len(f.Args)))
	return context.WithValue(ctx, caller{}, f.Name)
}

func (h *hearing) End(ctx context.Context, f *ops.Function) {
	if ctx.Value(caller{}) != f.Name || f.End.Before(f.Start) {
		h.lines = append(h.lines, "wrong end of "+f.Name)
	}
	h.lines = append(h.lines, fmt.Sprintf("%d ends, failed %t", f.Level, f.Err != nil))
}

type calls struct{ by []string }

func (c *calls) Begin(context.Context, *reprise.Call) {}

func (c *calls) End(ctx context.Context, call *reprise.Call) {
	if name, ok := ctx.Value(caller{}).(string); ok {
		c.by = append(c.by, fmt.Sprintf("%v for %s", call.Kind, name))
	}
}

func TestObserversHearOfFunctions(t *testing.T) {
	h, c := &hearing{}, &calls{}
	b := open(t, sim.Wormhole(), ops.WithObserver(h))
	x := b.zeros(l1, 32, 32)
	b.ok(b.Relu(b.ctx, x))
	h.lines = nil
	defer b.dev.Observe(c)()
	b.ok(b.Relu(b.ctx, x))
	fails(t, failure(b.Concat(b.ctx, nil, 0)), ops.ErrShape, "no tensor")
	want := []string{
		`1 ttnn::relu from "", 1 arguments`, `2 ttnn::prim::unary from "ttnn::relu", 3 arguments`,
		`3 UnaryDeviceOperation from "ttnn::prim::unary", 2 arguments`,
		`4 tt::tt_metal::create_device_tensor from "UnaryDeviceOperation", 5 arguments`, "4 ends, failed false", "3 ends, failed false",
		"2 ends, failed false", "1 ends, failed false",
		`1 ttnn::concat from "", 2 arguments`, "1 ends, failed true",
	}
	equal(t, want, h.lines)
	if !slices.Contains(c.by, "run for UnaryDeviceOperation") {
		t.Errorf("the device's calls: %q", c.by)
	}
}

func TestObserversHearOfCollectives(t *testing.T) {
	h := &hearing{}
	m := sim.P300()
	defer m.Close()
	two := value(mesh.Open(t.Context(), mesh.Cards(m.Cards()...), mesh.Shape{2}))(t)
	defer two.Close(t.Context())
	chips := value(ops.NewMesh(t.Context(), two, chip.Core{X: 1, Y: 1}, ops.WithObserver(h)))(t)
	defer chips.Release(t.Context())
	x := value(chips.Empty(t.Context(), ops.Spec{Shape: []int{4, 16}, DType: ops.Int32, Memory: dram}))(t)
	h.lines = nil
	expect.Value(chips.AllReduce(t.Context(), x))(t)
	begun := slices.DeleteFunc(slices.Clone(h.lines), func(l string) bool { return strings.Contains(l, "ends") })
	if !strings.HasPrefix(begun[0], `1 ttnn::all_reduce from ""`) ||
		!strings.HasPrefix(begun[2], `2 ttnn::to_memory_config from "ttnn::all_reduce"`) || len(begun) != 9 {
		t.Errorf("%q", h.lines)
	}
}

func TestLog(t *testing.T) {
	var text bytes.Buffer
	l := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b := open(t, sim.Wormhole(), ops.WithObserver(ops.Log(l)))
	x := b.zeros(l1, 32, 32)
	stop := b.dev.Observe(observe.Log(l))
	b.ok(b.Relu(b.ctx, x))
	expect.Error(t, expect.ErrOf(b.Slice(b.ctx, x, []int{0}, []int{1})))
	expect.Error(t, expect.ErrOf(b.dev.NewBuffer(reprise.BufferConfig{Size: -1})))
	stop()
	for _, part := range [][]string{
		{"level=INFO", "msg=ttnn::relu", "device=0", "level=1", "took="}, {"level=DEBUG", "msg=UnaryDeviceOperation", "level=3"},
		{"level=ERROR", "msg=ttnn::slice", "error="}, {"level=DEBUG", "msg=run", "name=relu", "queues=[0]"}, {"level=ERROR", "msg=allocate",
			"error="},
	} {
		if !slices.ContainsFunc(strings.Split(text.String(), "\n"), func(line string) bool {
			return !slices.ContainsFunc(part, func(p string) bool { return !strings.Contains(line, p) })
		}) {
			t.Errorf("no line with %q", part)
		}
	}
	quiet := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelError}))
	text.Reset()
	defer b.dev.Observe(observe.Log(quiet))()
	b.ok(b.Relu(b.ctx, x))
	if strings.Contains(text.String(), "msg=run") {
		t.Errorf("written although the level is higher: %s", text.String())
	}
}

func TestObserveNothing(t *testing.T) {
	b := open(t, sim.Wormhole(), ops.WithObserver(nil), ops.WithObserver(ops.Log(nil)), ops.WithObserver(ops.OnTimeline(nil)))
	defer b.dev.Observe(observe.Log(nil))()
	b.ok(b.Relu(b.ctx, b.zeros(l1, 32, 32)))
}

func TestOnTimeline(t *testing.T) {
	b := open(t, sim.Wormhole())
	x := b.zeros(l1, 32, 32)
	tl := value(observe.StartTimeline(b.ctx, b.dev))(b)
	d := ops.New(b.dev, ops.WithObserver(ops.OnTimeline(tl)))
	y := value(d.Empty(b.ctx, x.Spec()))(b)
	b.ok(d.Relu(b.ctx, y))
	b.must(tl.Stop(b.ctx))
	spans := tl.Spans()
	at := func(name string) observe.Span {
		i := slices.IndexFunc(spans, func(s observe.Span) bool { return s.Queue == -1 && s.Name == name })
		if i < 0 {
			t.Fatalf("no %s", name)
		}
		return spans[i]
	}
	op, run := at("ttnn::relu"), at("relu")
	if op.Start > run.Start || op.End < run.End {
		t.Errorf("the operation %v..%v doesn't hold the run %v..%v", op.Start, op.End, run.Start, run.End)
	}
	b.must(d.Release(b.ctx))
}

func TestNamesOfLinear(t *testing.T) {
	h := &hearing{}
	var log bytes.Buffer
	b := open(t, sim.Blackhole(), ops.WithObserver(h))
	x := b.put(normal([4]int{1, 1, 32, 32}, ops.BFloat16, 1), ops.Tile, dram)
	h.lines = nil
	defer b.dev.Observe(observe.Log(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))()
	for _, form := range []ops.MatmulForm{ops.MatmulSimple, ops.MatmulBlocked} {
		b.ok(b.Linear(b.ctx, x, x, nil, ops.WithActivation(ops.ReLU), ops.WithTransposeB(),
			ops.WithMatmulProgram(ops.MatmulProgram{Form: form})))
	}
	expect.Equal(t, h.lines[0], `1 ttnn::linear from "", 5 arguments`, "%q", h.lines)
	if n := len(regexp.MustCompile(`msg=run call=\d+ name=linear `).FindAllString(log.String(), -1)); n != 2 {
		t.Errorf("%d runs of linear: %s", n, log.String())
	}
}
