package view

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/ops/graph"
)

func get(t testing.TB, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func handler(t testing.TB, r *graph.Report) http.Handler {
	t.Helper()
	h, err := New("report.json", r)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// wellFormed fails the test unless every picture of a page is XML.
func wellFormed(t testing.TB, page string) {
	t.Helper()
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1) {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("a picture isn't XML: %v", err)
			}
		}
	}
}

func sample(t testing.TB) *graph.Report {
	t.Helper()
	text, err := os.ReadFile("../testdata/sample.json")
	if err != nil {
		t.Fatal(err)
	}
	r, err := graph.Decode(bytes.NewReader(text), graph.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The page of TT-NN's sample has its functions, its peak, its buffers and circular buffers with their tooltips.
func TestOverview(t *testing.T) {
	h := handler(t, sample(t))
	code, page := get(t, h, "/plain")
	if code != http.StatusOK {
		t.Fatalf("%d: %s", code, page)
	}
	wellFormed(t, page)
	for _, want := range []string{
		"ttnn::prim::binary", "94 KiB", "L1: addresses over time", "24 KiB at", "{[(x=0,y=0) - (x=7,y=7)]}", "tensor  ttnn.Shape([4, 3, 32, 32])",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page doesn't say %q", want)
		}
	}
	if strings.Contains(page, "<script") || regexp.MustCompile(`(src|href)="(https?:)?//`).MatchString(page) {
		t.Error("the page needs a script or something from elsewhere")
	}
	for _, path := range []string{"/report.json", "/graph.svg"} {
		if code, _ := get(t, h, path); code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, _ := get(t, h, "/nothing"); code != http.StatusNotFound {
		t.Errorf("a page that isn't there: %d", code)
	}
	if code, page := get(t, h, "/?core=99,99"); code != http.StatusNotFound || !strings.Contains(page, "core 99,99: no device of this report has it") {
		t.Errorf("a core that no device has: %d", code)
	}
	if code, page := get(t, h, "/?core=a"); code != http.StatusBadRequest || !strings.Contains(page, "want x,y") {
		t.Errorf("a core that is none: %d", code)
	}
}

// The page of a core shows the buffers with pages there, and its circular buffers, but none of other cores.
func TestOneCore(t *testing.T) {
	r := graph.NewRecorder(graph.Config{BufferPages: true})
	b := &graph.Buffer{ID: 1, Type: graph.L1, Size: 4096, PageSize: 2048, Address: 1024, Pages: func() []graph.Page {
		return []graph.Page{{Address: 1024, PageAddr: 1024, PageSize: 2048, CoreX: 0}, {Address: 1024, PageAddr: 1024, PageSize: 2048, CoreX: 1}}
	}}
	r.Begin("ttnn::add")
	r.Allocate(b)
	r.AllocateCircular(graph.CircularBuffer{Size: 512, Address: 8192, Cores: []graph.CoreRange{{X0: 1, X1: 1}, {X0: 3, X1: 3}}})
	r.End()
	p, err := r.Finish()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, c := range []core{{0, 0}, {1, 0}, {2, 0}} {
		m := newAddresses(p, graph.L1, &c)
		got[m.Name] = len(m.Rects)
	}
	if d := cmp.Diff(map[string]int{"L1 of core 0,0": 1, "L1 of core 1,0": 2, "L1 of core 2,0": 0}, got); d != "" {
		t.Error(d)
	}
	var most []int64
	for x := range int64(4) {
		most = append(most, newCoreChart(p, &core{x, 0}).Most)
	}
	if d := cmp.Diff([]int64{2048, 2048, 0, 512}, most); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"0,0", "1,0", "3,0"}, cores(p)); d != "" {
		t.Error(d)
	}
	p.PagesByAddress = nil // a report of an older writer has the pages of the end only
	if m := newAddresses(p, graph.L1, &core{1, 0}); len(m.Rects) != 2 {
		t.Errorf("with the pages of the end: %+v", m)
	}
	_, page := get(t, handler(t, p), "/?core=1,0")
	if !strings.Contains(page, "<option selected>1,0</option>") {
		t.Error("the core isn't selected")
	}
}

// Distant addresses are close in the picture, in order and without overlaps.
func TestUnusedAddressesAreLeftOut(t *testing.T) {
	var m addresses
	m.Height = 260
	m.place([]span{{from: 0, to: 4, low: 1 << 40, size: 2048}, {from: 1, to: 3, low: 64, size: 4096}, {from: 2, to: 4, low: 64 + 4096, size: 2048}}, 4)
	low, next, high := m.Rects[0], m.Rects[1], m.Rects[2]
	if m.Low != 64 || m.High != 1<<40+2048 || low.H < 100 || high.H < 50 || next.Y+next.H > low.Y+0.01 || high.Y+high.H > next.Y-5 || high.Y < 0 {
		t.Errorf("%+v", m)
	}
}

// All uses of a tensor are one box.
func TestUsesOfATensorAreOneBox(t *testing.T) {
	vs := []graph.Vertex{{Name: "tensor[1]"}, {Name: "tensor[1]", In: []int{2}}, {Name: "add", In: []int{0, 0}}, {Name: "add", In: []int{1}}}
	got := [][]int{}
	for _, v := range merged(vs) {
		got = append(got, v.In)
	}
	if d := cmp.Diff([][]int{{1}, {0, 0}, {0}}, got); d != "" {
		t.Error(d)
	}
}

// Functions are inside their callers, and functions that didn't end are marked.
func TestTimeline(t *testing.T) {
	r := graph.NewRecorder(graph.Config{})
	r.Begin("outer")
	r.Begin("first")
	r.End()
	r.Begin("second")
	r.End()
	r.End()
	r.Begin("hangs<&")
	p, err := r.Finish()
	if err != nil {
		t.Fatal(err)
	}
	tl := newTimeline(p.Graph)
	outer, first, second := tl.Rects[0], tl.Rects[1], tl.Rects[2]
	if first.X < outer.X || first.Y <= outer.Y || second.X < first.X || second.X+second.W > outer.X+outer.W+1 {
		t.Errorf("%+v", tl.Rects)
	}
	_, page := get(t, handler(t, p), "/plain")
	wellFormed(t, page)
	if !strings.Contains(page, "it didn&#39;t end") || strings.Contains(page, "hangs<") {
		t.Error("the page doesn't say that a function hangs, or not as text")
	}
}

// A function is below its inputs; levels count from 1.
func TestFlow(t *testing.T) {
	h := handler(t, sample(t))
	code, page := get(t, h, "/flow?level=2")
	if code != http.StatusOK || !strings.Contains(page, "ttnn::repeat") {
		t.Errorf("%d: %s", code, page)
	}
	wellFormed(t, page)
	vs := []graph.Vertex{{Name: "tensor[1]"}, {Name: "a", In: []int{0}}, {Name: "b", In: []int{1, 0, 7, -1}}}
	f := newFlow(vs)
	if len(f.Edges) != 3 || f.Boxes[1].Y <= f.Boxes[0].Y || f.Boxes[2].Y <= f.Boxes[1].Y {
		t.Errorf("%+v", f)
	}
	for _, level := range []string{"0", "x", "-1"} {
		if code, _ := get(t, h, "/flow?level="+level); code != http.StatusBadRequest {
			t.Errorf("level %s: %d", level, code)
		}
	}
}

// Every report that decodes has pages, and every picture is XML.
func FuzzPages(f *testing.F) {
	text, err := os.ReadFile("../testdata/sample.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"version":1,"graph":[{"counter":0,"node_type":"function_start","params":{"name":"</title><script>\u0000\u0002\ufffe"},"connections":[0,-4,9]},
	{"counter":1,"node_type":"buffer_allocate","params":{"size":9223372036854775807,"address":-3,"type":"L1"},"connections":[5]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := graph.Decode(bytes.NewReader(text), graph.Limits{Bytes: 1 << 16, Nodes: 300})
		if err != nil {
			return
		}
		h := handler(t, r)
		for _, path := range []string{"/plain", "/?core=0,0", "/flow", "/flow?level=3"} {
			code, page := get(t, h, path)
			if code != http.StatusOK && !(code == http.StatusNotFound && strings.Contains(path, "core")) {
				t.Errorf("%s: %d", path, code)
			}
			wellFormed(t, page)
			if strings.Contains(page, "<script") {
				t.Error("the report put a script on the page")
			}
		}
	})
}
