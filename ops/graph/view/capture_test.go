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
	"math"
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
	b, err := json.Marshal(m)
	devtest.Must(t, err)
	if _, err := t.to.Write(append(b, 0)); err != nil {
		t.Fatal(err)
	}
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
	if got := t.eval(expression); got != want {
		t.Errorf("%s: %q, want %q", expression, got, want)
	}
}

// mouse moves, presses or releases the mouse at a place in an element, given as fractions of its
// size.
func (t *tab) mouse(kind, selector string, x, y float64) {
	t.Helper()
	var r [4]float64
	if err := json.Unmarshal([]byte(t.eval("(() => { const e = document.querySelector("+quoted(selector)+
		"); e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect(); return JSON.stringify([r.left, r.top, r.width, r.height]); })()")), &r); err != nil {
		t.Fatal(err)
	}
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
	if err := json.Unmarshal([]byte(t.eval("(() => { const r = document.querySelector("+quoted(selector)+
		").getBoundingClientRect(); return JSON.stringify([r.left + r.width / 2, r.top + r.height / 2]); })()")), &at); err != nil {
		t.Fatal(err)
	}
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

func openReport(t *testing.T, r *graph.Report) *tab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(file)
	devtest.Must(t, err)
	devtest.Must(t, HTML(f, "report.json", r))
	devtest.Must(t, f.Close())
	return openTab(t, "file://"+file)
}

func TestClickThroughAReport(t *testing.T) {
	b := openReport(t, transformer(t, 24))
	rows := "document.querySelectorAll('#main tbody tr').length"

	// Operations: 24 layers of nine, 23 that nothing takes, an embedding, the last product and the
	// loop.
	b.wait("document.querySelector('#ops')")
	b.is(rows, fmt.Sprint(24*9+23+3))
	b.shot("app-ops")
	b.eval("(() => { const s = document.getElementById('search'); s.value = 'gelu 4096'; s.dispatchEvent(new Event('input')); })()")
	b.is(rows, "24")
	b.is("document.getElementById('count').textContent.startsWith('24 of ')", "true")
	b.eval("(() => { const s = document.getElementById('search'); s.value = ''; s.dispatchEvent(new Event('input')); document.getElementById('nested').click(); })()")
	b.is(rows, b.eval("JSON.parse(document.getElementById('report').textContent).ops.length"))
	b.click("#ops th:nth-child(6)") // by the peak of L1, the largest first
	b.is("(() => { const v = [...document.querySelectorAll('#ops tbody tr td:nth-child(6)')].map(c => parseFloat(c.textContent)); return v.every((x, i) => i === 0 || v[i - 1] >= x); })()", "true")
	b.eval("document.getElementById('nested').click()")

	// An operation, its tensor, and back to who made it.
	b.eval("[...document.querySelectorAll('#ops a')].find(a => a.textContent === 'ttnn::add').click()")
	b.wait("document.body.dataset.page === 'op'")
	b.is("document.querySelector('h2').textContent", "ttnn::add")
	b.is("document.getElementById('stack').textContent.includes('view_test.go')", "true")
	b.is("document.getElementById('args').textContent.startsWith('0: Tensor(')", "true")
	b.is("document.querySelector('#source .this').textContent.includes('r.Begin(')", "true")
	// It keeps its result, 16 KiB of each core; the circular buffers are those of the program
	// before.
	b.is("[...document.querySelectorAll('.tile')].map(e => e.innerText.replace('\\n', ' ')).slice(1).join(', ')",
		"L1 before 608 KiB, L1 at its peak 624 KiB, L1 after 624 KiB")
	b.shot("app-op")
	b.click("table.plain a")
	b.wait("document.body.dataset.page === 'tensor'")
	const under = "(h => [...[...document.querySelectorAll('h3')].find(e => e.textContent === h).nextElementSibling.querySelectorAll('a')].map(a => a.textContent).join(' '))"
	b.is(under+"('Made by')", "ttnn::add ttnn::prim::add tt::tt_metal::create_device_tensor")
	b.is(under+"('Taken by')", "ttnn::layer_norm ttnn::prim::layer_norm ttnn::add ttnn::prim::add")
	b.is("document.getElementById('main').innerText.includes('1×1×512×1024')", "true")
	b.shot("app-tensor")

	b.visit("#/tensors")
	b.is("document.querySelectorAll('#tensors tbody tr').length > 300", "true")
	b.visit("#/tensor/99999")
	b.is("document.getElementById('main').innerText", "There is no tensor 99999 in this report.")

	// Over time: functions, memory in use and addresses, late deallocations in a list. The axis has
	// units, and what is zoomed by dragging in one plot is so in all.
	b.visit("#/memory")
	b.wait("document.querySelectorAll('.uplot canvas').length === 5")
	b.is("document.getElementById('l1').getAttribute('aria-description')", "capacity 1.33 MiB")
	b.is("document.getElementById('dram').getAttribute('aria-description')", "capacity 12 GiB, off the scale")
	b.is("document.querySelectorAll('#late tbody tr').length", "24")
	const label = "document.getElementById('l1-addresses').getAttribute('aria-label')"
	b.is("/ from 0 ms to [0-9.]+ ms$/.test("+label+")", "true")
	b.mouse("mouseMoved", "#l1-addresses .u-over", .5, .93)
	b.shot("app-memory")
	whole := b.eval(label)
	b.mouse("mousePressed", "#functions .u-over", .4, .5)
	b.mouse("mouseMoved", "#functions .u-over", .45, .5)
	b.mouse("mouseReleased", "#functions .u-over", .45, .5)
	b.wait(label + " !== " + quoted(whole))
	b.is("document.body.dataset.page", "memory")
	b.shot("app-memory-zoomed")
	b.mouse("mouseMoved", "#functions .u-over", .5, .05)
	b.is("/^[0-9.]+ ms \\(event \\d+\\)|^ttnn::|^loop/.test(document.getElementById('where').textContent)", "true")
	b.mouse("mouseMoved", "#l1-addresses .u-over", .12, .93)
	b.is("/^CB [0-9.]+ KiB at 0x/.test(document.getElementById('where').textContent)", "true")
	b.mouse("mousePressed", "#l1-addresses .u-over", .12, .93)
	b.mouse("mouseReleased", "#l1-addresses .u-over", .12, .93)
	b.wait("['op', 'tensor'].includes(document.body.dataset.page)")
	b.visit("#/memory")
	b.eval("(() => { const s = document.getElementById('axis'); s.value = 'events'; s.dispatchEvent(new Event('change')); })()")
	b.wait(label + " && !/ms/.test(" + label + ")")

	// Cores: all of them, and what is on one.
	b.visit("#/cores")
	b.is("document.querySelectorAll('#grid rect.core').length", "64")
	b.click("#grid [data-core='1,0']")
	b.is("document.querySelector('#core h3').textContent.startsWith('Core 1,0: ')", "true")
	b.is("document.querySelectorAll('#oncore tbody tr').length > 100", "true")
	b.wait("document.querySelectorAll('#oncore-addresses canvas').length === 1")
	b.shot("app-cores")
	b.visit("#/core/99,99")
	b.is("document.getElementById('main').innerText", "There is no core 99,99 (the grid has 8 by 8) in this report.")

	// Data flow: a loop around it, edges that skip operations, an operation that opens, and levels.
	b.visit("#/flow")
	b.wait("document.querySelectorAll('#flow .op').length === 218")
	b.is("document.querySelectorAll('#flow .group.loop').length", "1")
	b.is("document.querySelectorAll('#flow .edge.skip').length >= 47", "true")
	b.is(`(() => { // no edge crosses the box of an operation that it doesn't join
		const boxes = [...document.querySelectorAll('#flow .op rect')].map(r => r.getBoundingClientRect());
		let hits = 0;
		for (const p of document.querySelectorAll('#flow .edge.skip path')) {
			const m = p.getScreenCTM(), n = p.getTotalLength();
			for (let k = .15; k < .85; k += .05) {
				const q = p.getPointAtLength(n * k).matrixTransform(m);
				if (boxes.some(b => b.left + 2 < q.x && q.x < b.right - 2 && b.top + 2 < q.y && q.y < b.bottom - 2)) hits++;
			}
		}
		return hits;
	})()`, "0")
	// A model is a column, not a diagonal, and begins where the page begins.
	b.is("document.querySelector('#flow svg > g').getBBox().width < 1400", "true")
	b.is("(() => { const v = document.getElementById('flow').getBoundingClientRect(), r = document.querySelector('#flow .op').getBoundingClientRect(); return v.left < r.left && r.right < v.right && v.top < r.top && r.bottom < v.bottom; })()", "true")
	b.shot("app-flow")
	// What is before a loop or after it is drawn outside of it.
	b.is(`(() => {
		const f = document.querySelector('#flow .group.loop rect').getBoundingClientRect(), ops = [...document.querySelectorAll('#flow .op rect')].map(e => e.getBoundingClientRect());
		return ops.filter(o => o.bottom < f.top || o.top > f.bottom).length;
	})()`, "2")
	// Edges between operations have shapes.
	b.is("(() => { const shapes = [...document.querySelectorAll('#flow .edge text')].map(e => e.textContent); return [shapes.length, shapes.every(s => /^\\d+(×\\d+)+$/.test(s)), shapes.filter(s => s === '1×1×512×3072').length, shapes.filter(s => s === '1×1×512×4096').length].join(); })()", "265,true,24,24") // eleven in each layer, and the last product's
	// A source is right above what takes it.
	b.is(`(() => {
		const r = JSON.parse(document.getElementById('report').textContent), far = [0, 0];
		for (const s of document.querySelectorAll('#flow .src')) {
			const at = s.querySelector('rect').getBoundingClientRect(), k = at.height / 24;
			const near = r.tensors[s.dataset.tensor].takers.map(o => document.querySelector('#flow .op[data-op="' + o + '"] rect')).filter(Boolean).map(e => e.getBoundingClientRect()).map(o => [(o.top - at.bottom) / k, Math.abs(o.left + o.width / 2 - at.left - at.width / 2) / k]);
			if (near.length !== 1) return 'a source of ' + near.length + ' operations';
			if (near[0][0] <= 0) return 'a source below its operation';
			near[0].forEach((d, i) => { far[i] = Math.max(far[i], d); });
		}
		return far[0] < 80 && far[1] < 168 ? 'beside' : far.join(); // less than a rank and the loop's title, less than a box
	})()`, "beside")
	// The wheel zooms around the mouse, and dragging moves.
	const place = "(() => { const m = document.querySelector('#flow svg > g').transform.baseVal.consolidate().matrix, v = document.getElementById('flow'); return JSON.stringify([m.a, m.e, m.f, v.clientWidth, v.clientHeight]); })()"
	moved := func(do func()) (before, after [5]float64) {
		old := b.eval(place)
		do()
		b.wait(place + " !== " + quoted(old))
		devtest.Must(t, errors.Join(json.Unmarshal([]byte(old), &before), json.Unmarshal([]byte(b.eval(place)), &after)))
		return before, after
	}
	was, is := moved(func() { b.wheel("#flow", -200) })
	for i, side := range was[3:] { // what is in the middle stays there
		if d := (side/2-was[1+i])/was[0] - (side/2-is[1+i])/is[0]; is[0] < 1.2*was[0] || math.Abs(d) > 2 {
			t.Errorf("the wheel: %v, then %v", was, is)
		}
	}
	was, is = moved(func() {
		b.mouse("mousePressed", "#flow", .5, .5)
		b.mouse("mouseMoved", "#flow", .6, .7)
		b.mouse("mouseReleased", "#flow", .6, .7)
	})
	if is[0] != was[0] || math.Abs(is[1]-was[1]-.1*was[3]) > 2 || math.Abs(is[2]-was[2]-.2*was[4]) > 2 {
		t.Errorf("dragged: %v, then %v", was, is)
	}
	b.shot("app-flow-zoomed")
	b.click("#fit")
	b.click("#flow .op.inner text.more")
	b.wait("document.querySelectorAll('#flow .group').length === 2")
	b.shot("app-flow-open")
	b.eval("(() => { const s = document.getElementById('level'); s.value = '2'; s.dispatchEvent(new Event('change')); })()")
	b.wait("document.querySelectorAll('#flow .group').length > 200")
	b.shot("app-flow-level-2")
}

func TestClickShowsWhatLiesInBuffers(t *testing.T) {
	r := read(t, "tt-metal/sharded_add_in_place.json")
	b := openReport(t, r)
	b.is("document.querySelector('.tile b').textContent", "96 KiB")
	b.is("document.getElementById('twice').textContent", "96 KiB of it are circular buffers in buffers, counted twice")
	b.shot("in-place-ops")
}

func TestClickThroughTheDemo(t *testing.T) {
	browser(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	file, digits := filepath.Join(dir, "demo.json"), filepath.Join(dir, "digits.csv") // few, because a capture takes long
	devtest.Must(t, os.WriteFile(digits, []byte(strings.Repeat(strings.Repeat("0,5,16,3,", 16)+"0\n", 128)), 0o666))
	if out, err := exec.CommandContext(ctx, "go", "run", "../../../cmd/reprise", "demo", "--input", digits, "--batch", "32", "--graph",
		file).CombinedOutput(); err != nil {
		t.Fatalf("reprise demo: %v\n%s", err, out)
	}
	f, err := os.Open(file)
	devtest.Must(t, err)
	defer f.Close()
	r, err := graph.Decode(f, graph.Limits{})
	devtest.Must(t, err)
	b := openReport(t, r)
	b.is("[...document.querySelectorAll('#ops th')].map(h => h.textContent).includes('on the device')", "true")
	b.is("[...document.querySelectorAll('#ops tbody tr td:nth-child(6)')].filter(c => / (µs|ms)$/.test(c.textContent)).length > 3", "true")
	b.is("document.getElementById('chip')", "<nil>")
	b.shot("demo-ops")
	b.visit("#/memory")
	b.wait("document.querySelectorAll('.uplot canvas').length === 5")
	for _, id := range []string{"functions", "l1", "l1-addresses", "dram", "dram-addresses"} {
		b.is("/ from [0-9.]+ (ms|s) to [0-9.]+ (ms|s)$/.test(document.getElementById("+quoted(id)+").getAttribute('aria-label'))", "true")
	}
	b.shot("demo-memory")
	b.visit("#/flow")
	b.wait("document.querySelectorAll('#flow .op').length > 3")
	b.shot("demo-flow")
}

func TestClickThroughAMesh(t *testing.T) {
	r := graph.NewRecorder(graph.Config{})
	for d := range 4 {
		r.Device(graph.Device{ID: int64(d), Arch: "wormhole_b0", GridX: 8, GridY: 8, WorkerL1Size: 1499136, FirstCircularBuffer: 103712,
			DRAMChannels: 12, DRAMSizePerChannel: 1 << 30})
	}
	r.Begin("ttnn::all_gather")
	for d := range 4 {
		size := int64(d+1) << 16
		r.Allocate(&graph.Buffer{ID: uint64(d + 1), Device: d, Type: graph.L1, Size: 64 * size, MaxPerBank: size, PageSize: 2048,
			Address: 0x100000})
		r.AllocateCircular(graph.CircularBuffer{Device: d, Size: 4096, Address: 103712, Cores: []graph.CoreRange{{X1: d}}})
	}
	r.End()
	p := finish(t, r)
	b := openReport(t, p)
	choose := func(chip string) {
		b.eval("(() => { const s = document.getElementById('chip'); s.value = " + quoted(chip) + "; s.dispatchEvent(new Event('change')); })()")
	}
	b.visit("#/cores")
	b.is("document.querySelectorAll('#chip option').length", "4")
	b.is("document.getElementById('chip').value", "3") // its L1 is the fullest
	b.is("document.querySelector('#grid [data-core=\"3,0\"] title').textContent", "core 3,0\n260 KiB")
	choose("1")
	b.is("document.querySelector('#grid [data-core=\"1,0\"] title').textContent", "core 1,0\n132 KiB")
	b.is("document.querySelector('#grid [data-core=\"2,0\"] title').textContent", "core 2,0\n128 KiB")
	b.shot("mesh-cores")
	b.visit("#/memory")
	b.wait("document.querySelectorAll('.uplot canvas').length === 3")
	b.is("document.getElementById('chip').value", "1")
	b.shot("mesh-memory")
}
