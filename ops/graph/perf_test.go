package graph_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/internal/expect"
	"github.com/reprise-tt/reprise/ops/graph"
)

func perfTable(t *testing.T, r *graph.Report, columns ...string) [][]string {
	t.Helper()
	var b bytes.Buffer
	devtest.Must(t, r.WritePerformance(&b))
	records := expect.Value(csv.NewReader(&b).ReadAll())(t)
	var out [][]string
	for _, record := range records[1:] {
		var row []string
		for _, column := range columns {
			at := -1
			for i, name := range records[0] {
				if name == column {
					at = i
				}
			}
			if at < 0 {
				t.Fatalf("there is no column %s", column)
			}
			row = append(row, record[at])
		}
		out = append(out, row)
	}
	return out
}

func timed() *graph.Report {
	r := graph.NewRecorder(graph.Config{})
	r.Device(graph.Device{ID: 4, ComputeCores: 56, Arch: "blackhole", ClockMHz: 500})
	in := &graph.Tensor{ID: 1, Shape: []int{2, 30, 30, 8}, DType: "DataType::BFLOAT16", Layout: "Layout::ROW_MAJOR",
		MemoryConfig: "MemoryConfig(memory_layout=TensorMemoryLayout::HEIGHT_SHARDED,buffer_type=BufferType::L1)",
		Buffer:       &graph.Buffer{ID: 1, Device: 4, Type: graph.L1}}
	args := []graph.Arg{{Text: "images", Tensors: []*graph.Tensor{in}}}
	for range 8 {
		args = append(args, graph.Arg{Text: "[3 5]"})
	}
	r.Begin("ttnn::conv2d", args...)
	r.Begin("Conv2dDeviceOperation")
	conv := r.Function()
	r.End()
	r.End()
	r.Begin("reprise::replay")
	replay := r.Function()
	r.End()
	run := func(f int, name, trace string, n int, start, end uint64, at time.Duration) graph.ProgramRun {
		return graph.ProgramRun{Function: f, Name: name, Device: 4, Cores: 7, Trace: trace, Replay: n, Start: start, End: end, HostStart: at,
			HostEnd: at + 5}
	}
	r.SetPrograms([]graph.ProgramRun{
		run(conv, "conv", "", 0, 1000, 1500, 10), run(conv, "conv", "", 0, 1600, 1700, 10),
		run(conv, "conv", "layer", 1, 2000, 2100, 30), run(conv, "conv", "layer", 2, 2200, 2300, 40),
		run(replay, "", "loop", 1, 3000, 3001, 50), run(replay, "", "loop", 1, 3001, 3003, 50),
	})
	report, _ := r.Finish()
	return report
}

func TestPerformanceRows(t *testing.T) {
	got := perfTable(t, timed(), "OP CODE", "GLOBAL CALL COUNT", "DEVICE KERNEL DURATION [ns]", "DEVICE FW DURATION [ns]",
		"OP TO OP LATENCY [ns]", "METAL TRACE ID", "METAL TRACE REPLAY SESSION ID", "HOST START TS", "MATH FIDELITY")
	want := [][]string{
		{"Conv2dDeviceOperation", "1", "1200", "1400", "0", "", "", "10", "HiFi4"},
		{"Conv2dDeviceOperation", "1", "200", "200", "600", "0", "1", "30", "HiFi4"},
		{"Conv2dDeviceOperation", "1", "200", "200", "200", "0", "2", "40", "HiFi4"},
		{"loop", "2", "6", "6", "1400", "1", "1", "50", ""},
	}
	graph.Equal(t, want, got)
	// tt-perf-report works out a convolution from these.
	got = perfTable(t, timed(), "INPUT_0_W_PAD[LOGICAL]", "INPUT_0_X_PAD[LOGICAL]", "INPUT_0_MEMORY", "INPUT_1_X_PAD[LOGICAL]",
		"OUTPUT_0_MEMORY")[:1]
	graph.Equal(t, [][]string{{"2[2]", "8[8]", "DEV_4_L1_HEIGHT_SHARDED", "1[1]", "DEV_4_L1_INTERLEAVED"}}, got)
	if a := perfTable(t, timed(), "ATTRIBUTES")[0][0]; !strings.Contains(a, "window_hw=(3;5); ") {
		t.Errorf("the attributes have no window of 3 by 5: %s", a)
	}
}

func TestDeviceLog(t *testing.T) {
	var b strings.Builder
	devtest.Must(t, timed().WriteDeviceLog(&b))
	if first, _, _ := strings.Cut(b.String(), "\n"); first != "ARCH: blackhole, CHIP_FREQ[MHz]: 500, Max Compute Cores: 56" {
		t.Errorf("the log begins with %s", first)
	}
}

func TestPerformanceOfNonsense(t *testing.T) {
	g := &graph.Graph{Nodes: []graph.Node{{Type: graph.FunctionEnd},
		{Counter: 1, Type: graph.FunctionStart, Params: graph.Params{graph.ParamName: "Matmul"}, InputTensors: []int{-1, 99, 0}}}}
	r := &graph.Report{Graph: g, Devices: []graph.Device{{ID: 0, ClockMHz: 1e-300}}}
	for _, f := range []int{-5, 0, 1, math.MaxInt} {
		r.Programs = append(r.Programs, graph.ProgramRun{Function: f, Device: int64(f), Start: 9, End: 3, HostStart: -1,
			HostEnd: math.MinInt64},
			graph.ProgramRun{Function: f, End: math.MaxUint64})
	}
	expect.Equal(t, len(perfTable(t, r, "OP CODE")), len(r.Programs), "rows of programs")
	r.Graph = nil
	perfTable(t, r, "OP CODE")
	r.DeviceTimes()
}

func TestZones(t *testing.T) {
	r := timed()
	zone := func(processor, program, name string, line int, start, end uint64) graph.Zone {
		return graph.Zone{Device: 4, X: 18, Y: 2, Processor: processor, Program: program, Kernel: "k", Name: name, File: "kernels/a,b.c",
			Line: line, Start: start, End: end}
	}
	r.Zones = []graph.Zone{
		zone("TRISC1", "conv", "TRISC-KERNEL", 7, 2010, 2080),
		zone("BRISC", "conv", "BRISC-KERNEL", 3, 1010, 1400), zone("BRISC", "conv", "BRISC-KERNEL", 3, 1020, 1450), // of two cores
		zone("BRISC", "conv", "BRISC-KERNEL", 3, 1610, 1660), // of the same operation's other program
		zone("BRISC", "conv", "page, 1", 4, 1020, 1030),
		zone("NCRISC", "other", "NCRISC-KERNEL", 5, 1020, 1040), // not of the program that ran then
	}
	var file bytes.Buffer
	devtest.Must(t, r.Encode(&file))
	again := expect.Value(graph.Decode(&file, graph.Limits{}))(t)
	for _, r := range []*graph.Report{r, again} {
		var b strings.Builder
		devtest.Must(t, r.WriteDeviceLog(&b))
		want := []string{
			"4,18,2,BRISC,1,1010,0,1,,,BRISC-KERNEL,ZONE_START,3,a;b.c,",
			"4,18,2,BRISC,1,1020,0,1,,,BRISC-KERNEL,ZONE_START,3,a;b.c,",
			"4,18,2,NCRISC,2,1020,0,0,,,NCRISC-KERNEL,ZONE_START,5,a;b.c,",
			"4,18,2,BRISC,3,1020,0,1,,,page; 1,ZONE_START,4,a;b.c,",
			"4,18,2,BRISC,3,1030,0,1,,,page; 1,ZONE_END,4,a;b.c,",
			"4,18,2,NCRISC,2,1040,0,0,,,NCRISC-KERNEL,ZONE_END,5,a;b.c,",
			"4,18,2,BRISC,1,1400,0,1,,,BRISC-KERNEL,ZONE_END,3,a;b.c,",
			"4,18,2,BRISC,1,1450,0,1,,,BRISC-KERNEL,ZONE_END,3,a;b.c,",
			"4,18,2,BRISC,1,1610,0,1,,,BRISC-KERNEL,ZONE_START,3,a;b.c,",
			"4,18,2,BRISC,1,1660,0,1,,,BRISC-KERNEL,ZONE_END,3,a;b.c,",
			"4,18,2,TRISC_1,4,2010,0,1,0,1,TRISC-KERNEL,ZONE_START,7,a;b.c,",
			"4,18,2,TRISC_1,4,2080,0,1,0,1,TRISC-KERNEL,ZONE_END,7,a;b.c,",
		}
		got := strings.Split(strings.TrimSpace(b.String()), "\n")[2:]
		graph.Equal(t, want, got, "device log")
		rows := perfTable(t, r, "DEVICE BRISC KERNEL DURATION [ns]", "DEVICE NCRISC KERNEL DURATION [ns]",
			"DEVICE TRISC1 KERNEL DURATION [ns]")
		// A cycle takes 2 ns.
		graph.Equal(t, [][]string{{"980", "", ""}, {"", "", "140"}, {"", "", ""}, {"", "", ""}}, rows, "performance")
	}
}

func TestDecodeSaysWhere(t *testing.T) {
	head := "{\n  \"version\": 1,\n  \"devices\": [],\n"
	for name, tt := range map[string]struct {
		text         string
		line, column int
		says         []string
	}{
		"no value": {head + "  \"metadata\": {\"a\": ,},\n  \"graph\": []\n}\n", 4, 21,
			[]string{"decode: line 4, column 21: want", `\"a\": ,}`, "invalid character ','"}},
		"another type": {head + "  \"buffer_pages\": 7,\n  \"graph\": []\n}\n", 4, 19, []string{"line 4, column 19: want", "buffer_pages",
			"cannot unmarshal number"}},
		"a node":       {"[\n  {\"counter\": 0},\n  {\"counter\": x}\n]", 3, 15, []string{"line 3, column 15: ", "counter"}},
		"cut off":      {head, 3, 17, []string{"line 3, column 17: ", "unexpected end"}},
		"not a report": {"7", 1, 1, []string{"line 1, column 1: want a report's JSON object, found \"7\""}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := graph.Decode(strings.NewReader(tt.text), graph.Limits{})
			var f *graph.FormatError
			if !errors.As(err, &f) || f.Line != tt.line || f.Column != tt.column {
				t.Fatalf("%v, want one of line %d, column %d", err, tt.line, tt.column)
			}
			for _, s := range tt.says {
				expect.Says(t, err, nil, s)
			}
			if tt.line > 1 && strings.Contains(err.Error(), "version") {
				t.Errorf("%v shows the beginning of the file", err)
			}
		})
	}
}

type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestErrorsNameThePackageOnce(t *testing.T) {
	for name, refuse := range map[string]func() error{
		"a graph alone": func() error { return new(graph.Graph).UnmarshalJSON([]byte("7")) },
		"reading": func() error {
			_, err := graph.Decode(io.MultiReader(strings.NewReader("["), failing{}), graph.Limits{})
			return err
		},
		"no outputs":  func() error { _, err := graph.OutputTensors(&graph.Graph{}); return err },
		"no level":    func() error { return sample().DotFlow(io.Discard, 0) },
		"report":      func() error { return timed().Encode(full{}) },
		"performance": func() error { return timed().WritePerformance(full{}) },
		"device log":  func() error { return timed().WriteDeviceLog(full{}) },
	} {
		switch err := refuse(); {
		case err == nil:
			t.Errorf("%s: no error", name)
		case strings.Count(err.Error(), "graph: ") != 1 || strings.Contains(err.Error(), ": :"):
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
