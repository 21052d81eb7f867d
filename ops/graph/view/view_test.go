package view

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
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
	h, err := New("report.json", r, nil)
	devtest.Must(t, err)
	return h
}

func read(t testing.TB, path string) *graph.Report {
	t.Helper()
	text := expect.Value(os.ReadFile("../testdata/" + path))(t)
	r := expect.Value(graph.Decode(bytes.NewReader(text), graph.Limits{}))(t)
	return r
}

func finish(t testing.TB, r *graph.Recorder) *graph.Report {
	t.Helper()
	p, err := r.Finish()
	devtest.Must(t, err)
	return p
}

func TestHandler(t *testing.T) {
	h := handler(t, read(t, "sample.json"))
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
	p := finish(t, r)
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
	p := finish(t, r)
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

// transformer returns the report of so many layers on 8 by 8 cores. The sum of a layer is freed two
// operations late.
func transformer(t testing.TB, layers int) *graph.Report {
	t.Helper()
	now := time.Unix(1_800_000_000, 0)
	r := graph.NewRecorder(graph.Config{StackTraces: true, BufferPages: true,
		Now: func() time.Time { now = now.Add(15 * time.Microsecond); return now }})
	d := graph.Device{GridX: 8, GridY: 8, ComputeX: 8, ComputeY: 8, WorkerL1Size: 1499136, L1Banks: 64, L1BankSize: 1395424,
		FirstCircularBuffer: 103712,
		DRAMChannels:        12, DRAMSizePerChannel: 1 << 30, Arch: "wormhole_b0"}
	d.Derive()
	r.Device(d)
	next := uint64(0)
	tensor := func(kind graph.BufferType, shape ...int) *graph.Tensor {
		next++
		size := int64(2)
		for _, n := range shape {
			size *= int64(n)
		}
		cores := int64(64)
		if kind == graph.DRAM {
			cores = 12
		}
		b := &graph.Buffer{ID: next, Type: kind, Size: size, PageSize: 2048, Address: 0x100000 + next%40*0x2000,
			MaxPerBank: (size/2048 + cores - 1) / cores * 2048}
		return &graph.Tensor{ID: next, Shape: shape, DType: "DataType::BFLOAT16", Layout: "Layout::TILE", Size: size, Buffer: b,
			MemoryConfig: "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED)"}
	}
	run := func(name string, out *graph.Tensor, in ...*graph.Tensor) *graph.Tensor {
		args := []graph.Arg{}
		for _, x := range in {
			args = append(args, graph.Arg{Text: "Tensor(logical_shape=" + x.DType + ")", Tensors: []*graph.Tensor{x}})
		}
		r.Begin("ttnn::"+name, args...)
		r.Begin("ttnn::prim::"+name, args...)
		r.Begin("tt::tt_metal::create_device_tensor")
		r.Allocate(out.Buffer)
		r.End(out)
		r.Program(0)
		r.AllocateCircular(graph.CircularBuffer{Size: 131072, Address: 103712, Cores: []graph.CoreRange{{X1: 7, Y1: 5}}})
		r.AllocateCircular(graph.CircularBuffer{Size: 65536, Address: 103712 + 131072, Cores: []graph.CoreRange{{X1: 3, Y1: 3}}})
		r.End(out)
		r.End(out)
		return out
	}
	free := func(ts ...*graph.Tensor) {
		for _, x := range ts {
			r.Deallocate(x.Buffer)
		}
	}
	l1 := func() *graph.Tensor { return tensor(graph.L1, 1, 1, 512, 1024) }
	x := run("embedding", l1(), tensor(graph.DRAM, 1, 1, 50257, 1024))
	var old *graph.Tensor
	r.Begin(graph.ControlPrefix + "loop of 1")
	for range layers {
		n := run("layer_norm", l1(), x, tensor(graph.DRAM, 1, 1, 1, 1024))
		if old != nil {
			run("tick", l1())
			free(old)
		}
		qkv := run("linear", tensor(graph.L1, 1, 1, 512, 3072), n, tensor(graph.DRAM, 1, 1, 1024, 3072))
		free(n)
		a := run("attention", l1(), qkv)
		free(qkv)
		o := run("linear", l1(), a, tensor(graph.DRAM, 1, 1, 1024, 1024))
		free(a)
		s := run("add", l1(), x, o)
		free(o)
		m := run("layer_norm", l1(), s, tensor(graph.DRAM, 1, 1, 1, 1024))
		h := run("gelu", tensor(graph.L1, 1, 1, 512, 4096), m, tensor(graph.DRAM, 1, 1, 1024, 4096))
		free(m)
		f := run("linear", l1(), h, tensor(graph.DRAM, 1, 1, 4096, 1024))
		free(h)
		y := run("add", l1(), s, f)
		free(f, s)
		old, x = x, y
	}
	r.End()
	run("linear", tensor(graph.DRAM, 1, 1, 512, 50257), x)
	p := finish(t, r)
	return p
}

func document(t testing.TB, page string) model {
	t.Helper()
	_, text, ok := strings.Cut(page, `<script type="application/json" id="report">`)
	if !ok {
		t.Fatal("no report in the page")
	}
	text, _, _ = strings.Cut(text, "</script>")
	var m model
	devtest.Must(t, json.Unmarshal([]byte(text), &m))
	return m
}

func TestHTMLOfCaptures(t *testing.T) {
	type facts struct {
		Ops, Tensors, Buffers int
		L1, DRAM              int64
	}
	for name, want := range map[string]facts{
		"matmul_planned":       {4, 2, 4, 806912, 0},
		"matmul_run":           {4, 2, 5, 806912, 22528},
		"sharded_add":          {4, 3, 4, 32768, 0},
		"sharded_add_in_place": {2, 2, 3, 0, 0},
		"conv2d":               {38, 28, 34, 125536, 2138112},
	} {
		r := read(t, "tt-metal/"+name+".json")
		var page bytes.Buffer
		devtest.Must(t, HTML(&page, name, r, nil))
		if regexp.MustCompile(`(?i)(\bsrc|href)="(https?:)?//|@import|sourceMappingURL`).Match(page.Bytes()) {
			t.Errorf("%s: the page needs something from elsewhere", name)
		}
		m := document(t, page.String())
		got := facts{Ops: len(m.Ops), Tensors: len(m.Tensors), Buffers: len(m.Buffers)}
		for _, c := range m.Chips {
			got.L1, got.DRAM = max(got.L1, slices.Max(c.L1)), max(got.DRAM, slices.Max(c.DRAM))
		}
		expect.NoDiff(t, got, want, "%s", name)
	}
}

func TestModelOfTransformer(t *testing.T) {
	p := transformer(t, 2)
	m := newModel("report.json", p)
	late := map[int]int{}
	for _, b := range m.Buffers {
		if b.Late > 0 {
			late[b.Late]++
		}
	}
	if len(late) == 0 {
		t.Errorf("no late deallocation")
	}
	expect.Equal(t, m.Cores, [2]int{8, 8}, "m.Cores")
	expect.Equal(t, m.Devices[0].L1, 1395424, "m.Devices[0].L1")
	var add *op
	for i := range m.Ops {
		if m.Ops[i].Name == "ttnn::add" {
			add = &m.Ops[i]
			break
		}
	}
	if add == nil || len(add.In) != 2 || len(add.Out) != 1 || add.L1Peak < add.L1After || len(add.Stack) == 0 ||
		!strings.Contains(add.Stack[0], "view_test.go") {
		t.Errorf("an add: %+v", add)
	}
	if f := m.Sources[add.Source]; !strings.HasSuffix(f.Path, "view_test.go") || len(f.Lines) != 9 ||
		!strings.Contains(f.Lines[f.Line-f.First], `r.Begin("ttnn::"+name`) {
		t.Errorf("its source: %+v", f)
	}
	if o := m.Ops[add.Parent]; !o.Group || o.Name != "loop of 1" {
		t.Errorf("around it: %+v", o)
	}
}

func TestReportIsNoMarkup(t *testing.T) {
	r := graph.NewRecorder(graph.Config{})
	const bad = "</script><script>alert(1)</script><!--"
	r.Begin(bad)
	r.Error(bad, bad, bad)
	r.End()
	p := finish(t, r)
	var page bytes.Buffer
	devtest.Must(t, HTML(&page, bad, p, nil))
	expect.Equal(t, strings.Count(page.String(), "<script"), 4, "scripts, which are the report and three")
	if m := document(t, page.String()); m.Ops[0].Name != bad {
		t.Errorf("%q", m.Ops[0].Name)
	}
}

func TestModelHasDeviceTimes(t *testing.T) {
	r := graph.NewRecorder(graph.Config{})
	r.Device(graph.Device{ID: 2, ClockMHz: 500})
	r.Begin("ttnn::relu")
	r.Begin("Unary")
	function := r.Function()
	r.End()
	r.End()
	r.Begin("ttnn::empty")
	r.End()
	r.SetPrograms([]graph.ProgramRun{{Function: function, Device: 2, Start: 1000, End: 1250}, {Function: function, Device: 2, Start: 2000,
		End: 2100}})
	report := finish(t, r)
	m := newModel("timed", report)
	for i, want := range []int64{700, 700, 0} {
		expect.Equal(t, m.Ops[i].Device, want, "%s ran", m.Ops[i].Name)
	}
}

func TestChipsOfAMesh(t *testing.T) {
	for name, c := range map[string]struct {
		buffers, programs map[int]int64 // sizes by device
		want              map[int64][]int64
	}{
		"a number for each chip": {map[int]int64{0: 4096, 1: 2048}, map[int]int64{0: 512, 1: 1024},
			map[int64][]int64{0: {4608, 4096}, 1: {3072, 2048}}},
		"one for the mesh": {map[int]int64{7: 4096}, map[int]int64{0: 512, 1: 1024}, map[int64][]int64{0: {4608, 4096}, 1: {5120, 4096}}},
		"no programs":      {map[int]int64{7: 4096}, nil, map[int64][]int64{0: {0, 0}, 1: {0, 0}, 7: {4096, 4096}}},
	} {
		r := graph.NewRecorder(graph.Config{})
		for d := range int64(2) {
			r.Device(graph.Device{ID: d})
		}
		r.Begin("ttnn::all_reduce")
		id := uint64(0)
		for d, size := range c.buffers {
			id++
			r.Allocate(&graph.Buffer{ID: id, Device: d, Type: graph.L1, Size: size, MaxPerBank: size})
			id++
			r.Allocate(&graph.Buffer{ID: id, Device: d, Type: graph.DRAM, Size: size})
		}
		for d, size := range c.programs {
			r.AllocateCircular(graph.CircularBuffer{Device: d, Size: size, Address: 1 << 16, Cores: []graph.CoreRange{{X1: 1}}})
		}
		r.End()
		p := finish(t, r)
		p.MeshMapping = "chips:\n  0: [0, 0, 0, 0]\n  1: [1, 0, 0, 0]\n"
		m := newModel(name, p)
		got := map[int64][]int64{}
		for _, c := range m.Chips {
			got[c.ID] = []int64{slices.Max(c.L1), slices.Max(c.DRAM)}
		}
		expect.NoDiff(t, got, c.want, "%s: L1 and DRAM by chip", name)
		expect.Equal(t, m.Chips[1].Place, "(1, 0)", "%s: chip 1 is at", name)
	}
}
