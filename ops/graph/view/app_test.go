package view

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops/graph"
)

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
	p, err := r.Finish()
	devtest.Must(t, err)
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
		f, err := os.Open("../testdata/tt-metal/" + name + ".json")
		devtest.Must(t, err)
		defer f.Close()
		r, err := graph.Decode(f, graph.Limits{})
		devtest.Must(t, err)
		var page bytes.Buffer
		devtest.Must(t, HTML(&page, name, r))
		if regexp.MustCompile(`(?i)(\bsrc|href)="(https?:)?//|@import|sourceMappingURL`).Match(page.Bytes()) {
			t.Errorf("%s: the page needs something from elsewhere", name)
		}
		m := document(t, page.String())
		got := facts{Ops: len(m.Ops), Tensors: len(m.Tensors), Buffers: len(m.Buffers)}
		for _, c := range m.Chips {
			got.L1, got.DRAM = max(got.L1, slices.Max(c.L1)), max(got.DRAM, slices.Max(c.DRAM))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
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
	if m.Cores != [2]int{8, 8} || m.Devices[0].L1 != 1395424 {
		t.Errorf("cores %v of %d B", m.Cores, m.Devices[0].L1)
	}
	var add *op
	for i := range m.Ops {
		if m.Ops[i].Name == "ttnn::add" {
			add = &m.Ops[i]
			break
		}
	}
	if add == nil || len(add.In) != 2 || len(add.Out) != 1 || add.L1Peak < add.L1After || len(add.Stack) == 0 ||
		!strings.Contains(add.Stack[0], "app_test.go") {
		t.Errorf("an add: %+v", add)
	}
	if f := m.Sources[add.Source]; !strings.HasSuffix(f.Path, "app_test.go") || len(f.Lines) != 9 ||
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
	p, err := r.Finish()
	devtest.Must(t, err)
	var page bytes.Buffer
	devtest.Must(t, HTML(&page, bad, p))
	if n := strings.Count(page.String(), "<script"); n != 4 {
		t.Errorf("%d scripts, want the report and three", n)
	}
	if m := document(t, page.String()); m.Ops[0].Name != bad {
		t.Errorf("%q", m.Ops[0].Name)
	}
}
