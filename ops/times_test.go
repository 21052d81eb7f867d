package ops_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/kernels"
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
	tr, err := b.Capture(b.ctx, "two", func(ctx context.Context) error {
		_, err := b.Relu(ctx, x, ops.Into(out))
		_, again := b.Add(ctx, x, x, ops.Into(out))
		return errors.Join(err, again)
	})
	b.must(err)
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
	again, err := graph.Decode(&file, graph.Limits{})
	b.must(err)
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
	word, err := b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.L1, Size: 64 * cores, PageSize: 64})
	b.must(err)
	b.must(b.dev.Queue(1).Write(b.ctx, word, 0, make([]byte, 64*cores)))
	image, err := kernels.Prebuilt(b.dev.Arch(), kernels.Spin)
	b.must(err)
	spin, err := b.dev.Load(b.ctx, &reprise.Program{Name: "spin", Kernels: []reprise.Kernel{{Image: image, Processor: chip.BRISC,
		Cores: []chip.Range{chip.Single(1, 1)}, Args: func(chip.Core) []uint32 { return []uint32{word.Addr(), 1} }}}})
	b.must(err)
	tr, err := b.Capture(b.ctx, "before", func(ctx context.Context) error { return failure(b.Add(ctx, x, x, ops.Into(out))) })
	b.must(err)
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
