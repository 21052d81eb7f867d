//go:build long || hours

package view

import (
	"context"
	"errors"
	"testing"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/ops"
	"github.com/reprise-tt/reprise/ops/graph"
	"github.com/reprise-tt/reprise/sim"
)

type emulated struct {
	*ops.Device
	*testing.T
	ctx context.Context
	dev *reprise.Device
}

func openEmulated(t *testing.T) *emulated {
	t.Helper()
	e := &emulated{T: t, ctx: t.Context()}
	var err error
	e.dev, err = reprise.Open(e.ctx, sim.Blackhole())
	e.must(err)
	e.Device = ops.New(e.dev)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(e.ctx)
		e.must(errors.Join(e.Release(ctx), e.dev.Close(ctx)))
	})
	return e
}

func (e *emulated) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func (e *emulated) ok(x *ops.Tensor, err error) *ops.Tensor {
	e.Helper()
	e.must(err)
	return x
}

func (e *emulated) empty(where allocator.Kind, shape ...int) *ops.Tensor {
	e.Helper()
	return e.ok(e.Empty(e.ctx, ops.Spec{Shape: shape, DType: ops.BFloat16, Layout: ops.Tile, Memory: ops.Interleaved(where)}))
}

func (e *emulated) free(xs ...*ops.Tensor) {
	e.Helper()
	for _, x := range xs {
		e.must(e.Deallocate(x))
	}
}

// captured returns the capture of so many blocks of a transformer without dispatch.
func captured(t *testing.T, layers int) *graph.Report {
	e := openEmulated(t)
	const width, heads, headWidth, hidden, positions = 128, 2, 64, 192, 64
	dram := func(shape ...int) *ops.Tensor { return e.empty(allocator.DRAM, shape...) }
	cos, sin := dram(positions, headWidth), dram(positions, headWidth)
	type weights struct{ norm1, qkv, project, norm2, gate, up, down, keys, values *ops.Tensor }
	model := make([]weights, layers)
	for i := range model {
		model[i] = weights{dram(1, width), dram(width, (heads+2)*headWidth), dram(heads*headWidth, width), dram(1, width), dram(width, hidden),
			dram(width, hidden), dram(hidden, width),
			dram(1, 1, positions, headWidth), dram(1, 1, positions, headWidth)}
	}
	x := e.empty(allocator.L1, 1, 1, 1, width)
	c := e.BeginCapture(graph.Config{Mode: graph.NoDispatch, StackTraces: true, BufferPages: true})
	for _, w := range model {
		n := e.ok(e.RMSNorm(e.ctx, x, w.norm1, 1e-5))
		qkv := e.ok(e.Linear(e.ctx, n, w.qkv, nil))
		split, err := e.SplitHeads(e.ctx, qkv, heads, 1)
		e.must(err)
		e.free(n, qkv)
		q, k := e.ok(e.RotaryEmbedding(e.ctx, split.Q, cos, sin, 0)), e.ok(e.RotaryEmbedding(e.ctx, split.K, cos, sin, 0))
		e.must(errors.Join(e.UpdateCache(e.ctx, w.keys, k, 0), e.UpdateCache(e.ctx, w.values, split.V, 0)))
		rows := e.ok(e.ScaledDotProductAttentionDecode(e.ctx, q, w.keys, w.values, 0, ops.Attention{}))
		a := e.ok(e.Linear(e.ctx, e.ok(e.ConcatHeads(e.ctx, rows)), w.project, nil))
		s := e.ok(e.Add(e.ctx, x, a))
		e.free(split.Q, split.K, split.V, q, k, rows, a, x)
		h := e.ok(e.RMSNorm(e.ctx, s, w.norm2, 1e-5))
		gate, up := e.ok(e.Linear(e.ctx, h, w.gate, nil, ops.WithActivation(ops.SiLU))), e.ok(e.Linear(e.ctx, h, w.up, nil))
		inner := e.ok(e.Multiply(e.ctx, gate, up))
		x = e.ok(e.Add(e.ctx, s, e.ok(e.Linear(e.ctx, inner, w.down, nil))))
		e.free(s, h, gate, up, inner)
	}
	r, err := c.End()
	e.must(err)
	return r
}

func TestClickThroughACapture(t *testing.T) {
	b := openReport(t, captured(t, 24))
	rows := "document.querySelectorAll('#main tbody tr').length"
	b.wait("document.querySelector('#ops')")
	b.is(rows, "408") // seventeen in each block
	b.shot("capture-ops")
	b.eval("(() => { const s = document.getElementById('search'); s.value = 'qkv'; s.dispatchEvent(new Event('input')); })()")
	b.is(rows, "24")
	b.click("#ops tbody a")
	b.wait("document.body.dataset.page === 'op'")
	b.is("document.querySelectorAll('table.plain')[1].querySelectorAll('td a[href^=\"#/tensor/\"]').length", "3")
	b.is("document.getElementById('stack').textContent.includes('capture_test.go')", "true")
	b.is("document.querySelector('#source .this').textContent.includes('e.SplitHeads(')", "true")
	b.shot("capture-op")

	b.visit("#/flow")
	b.wait("document.querySelectorAll('#flow .op').length === 408")
	b.is("document.querySelectorAll('#flow .edge text').length", "526") // 22 in each block, and 20 in the first, whose row is a source
	b.is("document.querySelector('#flow svg > g').getBBox().width < 1500", "true")
	b.is("(() => { const v = document.getElementById('flow').getBoundingClientRect(), r = document.querySelector('#flow .op').getBoundingClientRect(); return v.left < r.left && r.right < v.right && v.top < r.top && r.bottom < v.bottom; })()", "true")
	b.shot("capture-flow")

	b.visit("#/memory")
	b.wait("document.querySelectorAll('.uplot canvas').length === 3")
	b.is("document.getElementById('l1').getAttribute('aria-description')", "capacity 1.40 MiB, off the scale")
	b.is("document.getElementById('dram').innerText", "The capture allocated nothing in DRAM.")
	b.shot("capture-memory")
}

func TestClickThroughLoopsAndTraces(t *testing.T) {
	e := openEmulated(t)
	x, out := e.empty(allocator.DRAM, 1, 1, 32, 32), e.empty(allocator.DRAM, 1, 1, 32, 32)
	state, err := e.dev.NewBuffer(reprise.BufferConfig{Kind: allocator.DRAM, Size: 64, Name: "state"})
	e.must(err)
	within := e.ctx // or that of a capture
	add := func() error { _, err := e.Add(within, x, x, ops.Into(out)); return err }
	capture := func(name string, f func(r *reprise.Recorder) error) *reprise.Trace {
		tr, err := e.dev.Queue(0).Capture(e.ctx, name, func(ctx context.Context, r *reprise.Recorder) error {
			return e.Record(ctx, r, func(ctx context.Context) error { within = ctx; return f(r) })
		})
		e.must(err)
		return tr
	}
	e.must(add()) // loads the program
	inner := capture("inner", func(*reprise.Recorder) error { return add() })
	cond := reprise.Cond{Buffer: state, Offset: 4, Is: cq.Equal, Value: 1}
	c := e.BeginCapture(graph.Config{})
	outer := capture("outer", func(r *reprise.Recorder) error {
		return errors.Join(
			r.Loop(5, func() error { return errors.Join(add(), r.While(cond, 9, add)) }),
			r.If(cond, add, func() error { return r.Call(inner) }),
		)
	})
	r, err := c.End()
	e.must(err)
	e.must(errors.Join(outer.Release(e.ctx), inner.Release(e.ctx), state.Release()))
	b := openReport(t, r)
	b.wait("document.querySelector('#ops')")
	b.is("[...document.querySelectorAll('#ops tbody td:nth-child(2)')].map(e => e.textContent).join(', ')",
		"⟳ loop of 5, ttnn::add, ⟳ while state[4] == 1, at most 9, ttnn::add, ⟳ if state[4] == 1, ⟳ then, ttnn::add, ⟳ otherwise, ⟳ call inner")
	b.shot("groups-ops")

	b.visit("#/flow")
	groups := "[...document.querySelectorAll('#flow .group')].map(e => e.querySelector('text').firstChild.textContent).sort().join(', ')"
	b.is(groups, "− ⟳ if state[4] == 1, − ⟳ loop of 5, − ⟳ otherwise, − ⟳ then, − ⟳ while state[4] == 1, at most 9")
	boxes := "[...document.querySelectorAll('#flow .op')].map(e => e.querySelector('text').textContent).sort().join(', ')"
	b.is(boxes, "add, add, add, ⟳ call inner")
	// A group is inside of another one or beside it, with all its operations, and no operation is
	// in one of which it is no part.
	b.is(`(() => {
		const r = JSON.parse(document.getElementById('report').textContent), part = (op, of) => op === of || op >= 0 && part(r.ops[op].parent, of);
		const groups = [...document.querySelectorAll('#flow .group')], all = groups.concat([...document.querySelectorAll('#flow .op')]), box = e => e.querySelector('rect').getBoundingClientRect();
		const wrong = [];
		for (const g of groups) for (const e of all) {
			if (e === g || part(+g.dataset.op, +e.dataset.op)) continue;
			const a = box(g), b = box(e), inside = a.left < b.left && b.right < a.right && a.top < b.top && b.bottom < a.bottom, apart = b.right < a.left || a.right < b.left || b.bottom < a.top || a.bottom < b.top;
			if (part(+e.dataset.op, +g.dataset.op) ? !inside : !apart) wrong.push(e.dataset.op + ' and ' + g.dataset.op);
		}
		return wrong.join();
	})()`, "")
	b.shot("groups-flow")
	b.click("#flow .group.loop[data-op='0'] text.more") // closes it
	b.wait(groups + " === '− ⟳ if state[4] == 1, − ⟳ otherwise, − ⟳ then'")
	b.is(boxes, "add, ⟳ call inner, ⟳ loop of 5")
	b.shot("groups-flow-closed")
	b.click("#flow .op[data-op='0'] text.more")
	b.wait("document.querySelectorAll('#flow .group').length === 5")

	b.visit("#/memory")
	b.wait("document.querySelectorAll('#functions canvas').length === 1")
	b.shot("groups-memory")
}
