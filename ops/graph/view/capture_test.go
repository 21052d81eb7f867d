//go:build long || hours

package view

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise"
	"github.com/reprise-tt/reprise/allocator"
	"github.com/reprise-tt/reprise/dispatch/cq"
	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
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
	b := openReport(t, captured(t, 24), nil)
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
	b := openReport(t, r, nil)
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

var shots = flag.String("shots", "", "a folder to which the tests in a browser put pictures of the pages, to be looked at")

func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium: apt-get install chromium")
	return ""
}

// tab is a page in a headless browser, driven by Chrome's DevTools protocol over a pair of pipes.
type tab struct {
	testing.TB
	to      *os.File
	from    *bufio.Reader
	next    int
	session string
}

type reply struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (t *tab) read() reply {
	t.Helper()
	b, err := t.from.ReadBytes(0)
	devtest.Must(t, err)
	var r reply
	devtest.Must(t, json.Unmarshal(bytes.TrimSuffix(b, []byte{0}), &r))
	return r
}

func (t *tab) call(method string, params map[string]any, out any) {
	t.Helper()
	t.next++
	m := map[string]any{"id": t.next, "method": method}
	if params != nil {
		m["params"] = params
	}
	if t.session != "" {
		m["sessionId"] = t.session
	}
	b := expect.Value(json.Marshal(m))(t)
	expect.Value(t.to.Write(append(b, 0)))(t)
	for {
		r := t.read()
		if r.ID != t.next {
			continue
		}
		if r.Error != nil {
			t.Fatalf("%s: %s", method, r.Error.Message)
		}
		if out != nil {
			devtest.Must(t, json.Unmarshal(r.Result, out))
		}
		return
	}
}

func (t *tab) eval(expression string) string {
	t.Helper()
	var r struct {
		Result    struct{ Value any }
		Exception *struct {
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	t.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if r.Exception != nil {
		t.Fatalf("%s: %s", expression, r.Exception.Exception.Description)
	}
	return fmt.Sprint(r.Result.Value)
}

func (t *tab) wait(expression string) {
	t.Helper()
	if got := t.eval(`new Promise(done => { const end = Date.now() + 60000; (function look() {
		if (` + expression + `) done(true); else if (Date.now() > end) done(document.getElementById('main').innerText.slice(0, 500)); else requestAnimationFrame(look); })(); })`); got != "true" {
		t.Fatalf("it never was that %s: %s", expression, got)
	}
}

func (t *tab) click(selector string) {
	t.Helper()
	t.wait("document.querySelector(" + quoted(selector) + ")")
	t.eval("document.querySelector(" + quoted(selector) + ").dispatchEvent(new MouseEvent('click', {bubbles: true}))")
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // strings always encode
	return string(b)
}

func (t *tab) visit(hash string) {
	t.Helper()
	t.eval("location.hash = " + quoted(hash))
	t.wait("document.body.dataset.page === " + quoted(strings.Split(strings.TrimPrefix(hash, "#/"), "/")[0]))
}

func (t *tab) is(expression, want string) {
	t.Helper()
	expect.Equal(t, t.eval(expression), want, "%s", expression)
}

// mouse moves, presses or releases the mouse at a place in an element, given as fractions of its
// size.
func (t *tab) mouse(kind, selector string, x, y float64) {
	t.Helper()
	var r [4]float64
	expect.Must(t, json.Unmarshal([]byte(t.eval("(() => { const e = document.querySelector("+quoted(selector)+
		"); e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); return JSON.stringify([r.left, r.top, r.width, r.height]); })()")), &r))
	p := map[string]any{"type": kind, "x": r[0] + x*r[2], "y": r[1] + y*r[3]}
	if kind != "mouseMoved" {
		p["button"], p["clickCount"] = "left", 1
	} else {
		p["buttons"] = 1
	}
	t.call("Input.dispatchMouseEvent", p, nil)
}

func (t *tab) wheel(selector string, by float64) {
	t.Helper()
	t.mouse("mouseMoved", selector, .5, .5)
	var at [2]float64
	expect.Must(t, json.Unmarshal([]byte(t.eval("(() => { const r = document.querySelector("+quoted(selector)+
		").getBoundingClientRect(); return JSON.stringify([r.left + r.width / 2, r.top + r.height / 2]); })()")), &at))
	t.call("Input.dispatchMouseEvent", map[string]any{"type": "mouseWheel", "x": at[0], "y": at[1], "deltaX": 0, "deltaY": by}, nil)
}

func (t *tab) shot(name string) {
	t.Helper()
	if *shots == "" {
		return
	}
	t.eval("scrollTo(0, 0)")
	t.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
	var r struct{ Data string }
	t.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": 1400, "height": 1400, "scale": 1}}, &r)
	b, err := base64.StdEncoding.DecodeString(r.Data)
	devtest.Must(t, err)
	devtest.Must(t, os.WriteFile(filepath.Join(*shots, name+".png"), b, 0o666))
}

func openTab(t *testing.T, url string) *tab {
	t.Helper()
	chromium := browser(t)
	in, to, err := os.Pipe()
	devtest.Must(t, err)
	from, out, err := os.Pipe()
	devtest.Must(t, err)
	// The browser is asked to end, since its child processes outlive a killed one and write to its
	// profile. Some do so all the same.
	profile, err := os.MkdirTemp("", "profile")
	devtest.Must(t, err)
	t.Cleanup(func() {
		for range 100 {
			if err = os.RemoveAll(profile); err == nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Error(err)
	})
	c := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--hide-scrollbars",
		"--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir="+profile, "--window-size=1400,1000", "--remote-debugging-pipe",
		"about:blank")
	c.ExtraFiles = []*os.File{in, out} // descriptors 3 and 4
	c.WaitDelay = 10 * time.Second
	devtest.Must(t, c.Start())
	_, _ = in.Close(), out.Close()
	b := &tab{TB: t, to: to, from: bufio.NewReader(from)}
	t.Cleanup(func() {
		_, _ = to.Write(append([]byte(`{"id":1000000,"method":"Browser.close"}`), 0))
		kill := time.AfterFunc(10*time.Second, func() { _ = c.Process.Kill() })
		defer kill.Stop()
		_ = c.Wait()
		_, _ = to.Close(), from.Close()
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	b.session = session.SessionID
	b.call("Page.enable", nil, nil)
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	for b.read().Method != "Page.loadEventFired" {
	}
	b.wait("document.body && document.body.dataset.page")
	return b
}

func openReport(t *testing.T, r *graph.Report, findings json.RawMessage) *tab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	f := expect.Value(os.Create(file))(t)
	devtest.Must(t, HTML(f, "report.json", r, findings))
	devtest.Must(t, f.Close())
	return openTab(t, "file://"+file)
}
