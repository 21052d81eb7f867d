package view

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/devtest"
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
	devtest.Must(t, err)
	return h
}

func sample(t testing.TB) *graph.Report {
	t.Helper()
	text, err := os.ReadFile("../testdata/sample.json")
	devtest.Must(t, err)
	r, err := graph.Decode(bytes.NewReader(text), graph.Limits{})
	devtest.Must(t, err)
	return r
}

func TestHandler(t *testing.T) {
	h := handler(t, sample(t))
	for path, want := range map[string]string{"/": "ttnn::prim::binary", "/report.json": "ttnn::prim::binary", "/graph.svg": "<svg "} {
		if code, page := get(t, h, path); code != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("%s: %d, without %q", path, code, want)
		}
	}
	for _, path := range []string{"/nothing", "/plain", "/flow"} {
		if code, _ := get(t, h, path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func TestCoresOfBuffers(t *testing.T) {
	r := graph.NewRecorder(graph.Config{BufferPages: true})
	b := &graph.Buffer{ID: 1, Type: graph.L1, Size: 4096, PageSize: 2048, Address: 1024, Pages: func() []graph.Page {
		return []graph.Page{{Address: 1024, PageAddr: 1024, PageSize: 2048, CoreX: 0},
			{Address: 1024, PageAddr: 3072, PageSize: 1024, CoreX: 1}}
	}}
	r.Begin("ttnn::add")
	r.Allocate(b)
	r.AllocateCircular(graph.CircularBuffer{Size: 512, Address: 8192, Cores: []graph.CoreRange{{X0: 1, X1: 1}, {X0: 3, X1: 3}}})
	r.End()
	p, err := r.Finish()
	devtest.Must(t, err)
	m := newModel("report.json", p)
	got := map[string][]onCore{}
	for _, b := range m.Buffers {
		got[b.Kind] = m.Places[b.Place]
	}
	want := map[string][]onCore{"L1": {{0, 0, 0, 2048}, {1, 0, 2048, 1024}}, "CB": {{1, 0, 0, 512}, {3, 0, 0, 512}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestTimes(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	r := graph.NewRecorder(graph.Config{Now: func() time.Time { now = now.Add(time.Microsecond); return now }})
	r.Begin("outer")
	r.Begin("first")
	r.End()
	r.Begin("second")
	r.End()
	r.End()
	r.Begin("hangs")
	p, err := r.Finish()
	devtest.Must(t, err)
	m := newModel("report.json", p)
	outer, first, second, hangs := m.Ops[0], m.Ops[1], m.Ops[2], m.Ops[3]
	if first.Start < outer.Start || second.Start != first.Start+first.Took || second.Start+second.Took > outer.Start+outer.Took ||
		hangs.Start != outer.Took {
		t.Errorf("%+v", m.Ops)
	}
	if hangs.Ended || hangs.Error != "it didn't end" || second.Depth != 1 {
		t.Errorf("%+v, %+v", second, hangs)
	}
}

func FuzzPages(f *testing.F) {
	text, err := os.ReadFile("../testdata/sample.json")
	devtest.Must(f, err)
	f.Add(text)
	f.Add([]byte(`{"version":1,"graph":[{"counter":0,"node_type":"function_start","params":{"name":"</title><script>\u0000\u0002\ufffe"},"connections":[0,-4,9]},
	{"counter":1,"node_type":"buffer_allocate","params":{"size":9223372036854775807,"address":-3,"type":"L1"},"connections":[5]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := graph.Decode(bytes.NewReader(text), graph.Limits{Bytes: 1 << 16, Nodes: 300})
		if err != nil {
			return
		}
		code, page := get(t, handler(t, r), "/")
		if code != http.StatusOK || strings.Count(page, "<script") != 4 {
			t.Fatalf("%d, %d scripts", code, strings.Count(page, "<script"))
		}
		m := document(t, page)
		for _, b := range m.Buffers {
			if b.From < 0 || b.To < b.From || b.To > m.Nodes || b.Op >= len(m.Ops) || b.Place >= len(m.Places) {
				t.Errorf("a buffer out of bounds: %+v", b)
			}
		}
		for _, c := range m.Chips {
			if len(c.At) == 0 || len(c.At) != len(c.L1) || len(c.At) != len(c.DRAM) || len(c.At) != len(c.Buffers) {
				t.Errorf("curves of %d, %d, %d and %d points", len(c.At), len(c.Buffers), len(c.L1), len(c.DRAM))
			}
		}
		if len(m.Chips) == 0 {
			t.Error("no chip")
		}
	})
}
