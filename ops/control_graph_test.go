package ops_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/ops/graph/visualizer"
	"github.com/reprise-tt/reprise/sim"
)

func TestControlFlowInGraphs(t *testing.T) {
	b := open(t, sim.Blackhole())
	x := b.put(normal([4]int{1, 1, 32, 32}, ops.BFloat16, 1), ops.Tile, dram)
	out := b.ok(b.Add(b.ctx, x, x))
	state, err := b.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Name: "state"})
	b.must(err)
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
	again, err := graph.Decode(bytes.NewReader(file.Bytes()), graph.Limits{})
	b.must(err)
	equal(t, report.Graph.Calls(), again.Graph.Calls(), "the report read again")
	b.must(report.Graph.Dot(&dot))
	if !strings.Contains(dot.String(), `label="control::while state[4] == 1, at most 9"`) {
		t.Error("the loop has no frame in the picture")
	}
	path := filepath.Join(t.TempDir(), "report.json")
	b.must(os.WriteFile(path, file.Bytes(), 0o600))
	sum, err := visualizer.Import(b.ctx, filepath.Join(t.TempDir(), "db.sqlite"), []string{path}, visualizer.Options{})
	b.must(err)
	if sum.Operations != 5 || sum.Errors != 0 || len(sum.Warnings) != 0 {
		t.Errorf("the visualizer gets %+v, want 5 operations", sum)
	}
	b.must(errors.Join(tr.Release(b.ctx), inner.Release(b.ctx), state.Release()))
}
