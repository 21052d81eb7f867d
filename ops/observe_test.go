package ops_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/mesh"
	"github.com/reprise-tt/reprise/observe"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/sim"
)

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
	if _, err := b.Concat(b.ctx, nil, 0); !errors.Is(err, ops.ErrShape) {
		t.Errorf("no tensor: %v", err)
	}
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
	two, err := mesh.Open(t.Context(), mesh.Cards(m.Cards()...), mesh.Shape{2})
	devtest.Must(t, err)
	defer two.Close(t.Context())
	chips, err := ops.NewMesh(t.Context(), two, chip.Core{X: 1, Y: 1}, ops.WithObserver(h))
	devtest.Must(t, err)
	defer chips.Release(t.Context())
	x, err := chips.Empty(t.Context(), ops.Spec{Shape: []int{4, 16}, DType: ops.Int32, Memory: dram})
	devtest.Must(t, err)
	h.lines = nil
	if _, err := chips.AllReduce(t.Context(), x); err != nil {
		t.Fatal(err)
	}
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
	if _, err := b.Slice(b.ctx, x, []int{0}, []int{1}); err == nil {
		t.Error("a slice of half the dimensions")
	}
	if _, err := b.dev.NewBuffer(reprise.BufferConfig{Size: -1}); err == nil {
		t.Error("a buffer of -1 B")
	}
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
	tl, err := observe.StartTimeline(b.ctx, b.dev)
	b.must(err)
	d := ops.New(b.dev, ops.WithObserver(ops.OnTimeline(tl)))
	y, err := d.Empty(b.ctx, x.Spec())
	b.must(err)
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
	if h.lines[0] != `1 ttnn::linear from "", 5 arguments` {
		t.Errorf("%q", h.lines)
	}
	if n := len(regexp.MustCompile(`msg=run call=\d+ name=linear `).FindAllString(log.String(), -1)); n != 2 {
		t.Errorf("%d runs of linear: %s", n, log.String())
	}
}
