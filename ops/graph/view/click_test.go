//go:build long

package view

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tab is a page in a headless browser, which is driven by Chrome's DevTools protocol over a pair of pipes.
type tab struct {
	testing.TB
	to      *os.File
	from    *bufio.Reader
	next    int
	session string
}

// reply is an answer, or an event without an id.
type reply struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// read returns the next message.
func (t *tab) read() reply {
	t.Helper()
	b, err := t.from.ReadBytes(0)
	if err != nil {
		t.Fatal(err)
	}
	var r reply
	if err := json.Unmarshal(bytes.TrimSuffix(b, []byte{0}), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// call sends a command and decodes its result into out, unless out is nil.
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
	if err != nil {
		t.Fatal(err)
	}
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
			if err := json.Unmarshal(r.Result, out); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
}

// eval returns what an expression of the page is, as text.
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

// wait waits until an expression is true.
func (t *tab) wait(expression string) {
	t.Helper()
	if got := t.eval(`new Promise(done => { const end = Date.now() + 60000; (function look() {
		if (` + expression + `) done(true); else if (Date.now() > end) done(document.getElementById('main').innerText.slice(0, 500)); else requestAnimationFrame(look); })(); })`); got != "true" {
		t.Fatalf("it never was that %s: %s", expression, got)
	}
}

// click clicks the first element of a selector.
func (t *tab) click(selector string) {
	t.Helper()
	t.wait("document.querySelector(" + quoted(selector) + ")")
	t.eval("document.querySelector(" + quoted(selector) + ").dispatchEvent(new MouseEvent('click', {bubbles: true}))")
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // strings always encode
	return string(b)
}

// visit goes to a page of the report.
func (t *tab) visit(hash string) {
	t.Helper()
	t.eval("location.hash = " + quoted(hash))
	t.wait("document.body.dataset.page === " + quoted(strings.Split(strings.TrimPrefix(hash, "#/"), "/")[0]))
}

// shot keeps a picture of the page, if pictures are wanted.
func (t *tab) shot(name string) {
	t.Helper()
	if *shots == "" {
		return
	}
	t.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
	var r struct{ Data string }
	t.call("Page.captureScreenshot", map[string]any{"format": "png"}, &r)
	b, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), b, 0o666); err != nil {
		t.Fatal(err)
	}
}

// openTab opens a page in a headless browser that can reach no host.
func openTab(t *testing.T, url string) *tab {
	t.Helper()
	chromium := browser(t)
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--host-resolver-rules=MAP * ~NOTFOUND", "--user-data-dir="+filepath.Join(t.TempDir(), "profile"), "--window-size=1400,1000", "--remote-debugging-pipe", "about:blank")
	c.ExtraFiles = []*os.File{in, out} // descriptors 3 and 4
	c.WaitDelay = 10 * time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = in.Close(), out.Close()
	b := &tab{TB: t, to: to, from: bufio.NewReader(from)}
	t.Cleanup(func() {
		_, _ = to.Write(append([]byte(`{"id":1000000,"method":"Browser.close"}`), 0))
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

// A report of 24 layers as a file on disk: a browser searches and sorts its operations, goes to an operation, its tensor, its
// memory, a core, and through the data flow.
func TestClickThroughAReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := HTML(f, "report.json", transformer(t, 24)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	b := openTab(t, "file://"+file)
	is := func(expression, want string) {
		t.Helper()
		if got := b.eval(expression); got != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
	rows := "document.querySelectorAll('#main tbody tr').length"

	// Operations: 24 layers of nine, 23 that nothing takes, an embedding, the last product and the loop.
	b.wait("document.querySelector('#ops')")
	is(rows, fmt.Sprint(24*9+23+3))
	b.shot("app-ops")
	b.eval("(() => { const s = document.getElementById('search'); s.value = 'gelu 4096'; s.dispatchEvent(new Event('input')); })()")
	is(rows, "24")
	is("document.getElementById('count').textContent.startsWith('24 of ')", "true")
	b.eval("(() => { const s = document.getElementById('search'); s.value = ''; s.dispatchEvent(new Event('input')); document.getElementById('nested').click(); })()")
	is(rows, b.eval("JSON.parse(document.getElementById('report').textContent).ops.length"))
	b.click("#ops th:nth-child(6)") // by the peak of L1, the largest first
	is("(() => { const v = [...document.querySelectorAll('#ops tbody tr td:nth-child(6)')].map(c => parseFloat(c.textContent)); return v.every((x, i) => i === 0 || v[i - 1] >= x); })()", "true")
	b.eval("document.getElementById('nested').click()")

	// An operation, its tensor, and back to who made it.
	b.eval("[...document.querySelectorAll('#ops a')].find(a => a.textContent === 'ttnn::add').click()")
	b.wait("document.body.dataset.page === 'op'")
	is("document.querySelector('h2').textContent", "ttnn::add")
	is("document.getElementById('stack').textContent.includes('app_test.go')", "true")
	is("document.getElementById('args').textContent.startsWith('0: Tensor(')", "true")
	is("document.querySelector('#source .this').textContent.includes('r.Begin(')", "true")
	b.shot("app-op")
	b.click("table.plain a")
	b.wait("document.body.dataset.page === 'tensor'")
	is("document.getElementById('main').innerText.includes('1×1×512×1024')", "true")
	b.shot("app-tensor")

	b.visit("#/tensors")
	is("document.querySelectorAll('#tensors tbody tr').length > 300", "true")
	b.visit("#/tensor/99999")
	is("document.getElementById('main').innerText", "There is no tensor 99999 in this report.")

	// Memory: two plots on scales of their own, late deallocations in a list, zoom by dragging.
	b.visit("#/memory")
	b.wait("document.querySelectorAll('.uplot canvas').length === 2")
	is("document.querySelectorAll('#late tbody tr').length", "24")
	b.shot("app-memory")

	// Cores: all of them, and what is on one.
	b.visit("#/cores")
	is("document.querySelectorAll('#grid rect.core').length", "64")
	b.click("#grid [data-core='1,0']")
	is("document.querySelector('#core h3').textContent.startsWith('Core 1,0: ')", "true")
	is("document.querySelectorAll('#oncore tbody tr').length > 100", "true")
	b.shot("app-cores")
	b.visit("#/core/99,99")
	is("document.getElementById('main').innerText", "There is no core 99,99 (the grid has 8 by 8) in this report.")

	// Data flow: a loop around it, edges that skip operations, an operation that opens, and levels.
	b.visit("#/flow")
	b.wait("document.querySelectorAll('#flow .op').length === 218")
	is("document.querySelectorAll('#flow .group.loop').length", "1")
	is("document.querySelectorAll('#flow .edge.skip').length >= 47", "true")
	is(`(() => { // no edge crosses the box of an operation that it doesn't join
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
	is("document.querySelector('#flow svg > g').getBBox().width < 1400", "true")
	is("(() => { const v = document.getElementById('flow').getBoundingClientRect(), r = document.querySelector('#flow .op').getBoundingClientRect(); return v.left < r.left && r.right < v.right && v.top < r.top && r.bottom < v.bottom; })()", "true")
	b.shot("app-flow")
	b.click("#flow .op.inner text.more")
	b.wait("document.querySelectorAll('#flow .group').length === 2")
	b.shot("app-flow-open")
	b.eval("(() => { const s = document.getElementById('level'); s.value = '2'; s.dispatchEvent(new Event('change')); })()")
	b.wait("document.querySelectorAll('#flow .group').length > 200")
	b.shot("app-flow-level-2")
}
