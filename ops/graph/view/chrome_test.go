//go:build long || hours

package view

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops/graph"
)

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
	// The browser ends when it is asked to: processes of its own that outlive it write to its
	// profile. Some may nevertheless.
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
