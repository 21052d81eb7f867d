package graph_test

import (
	"bytes"
	"encoding/csv"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/reprise-tt/reprise/internal/devtest"
	"github.com/reprise-tt/reprise/ops/graph"
)

func perfTable(t *testing.T, r *graph.Report, columns ...string) [][]string {
	t.Helper()
	var b bytes.Buffer
	devtest.Must(t, r.WritePerformance(&b))
	records, err := csv.NewReader(&b).ReadAll()
	devtest.Must(t, err)
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
	if rows := perfTable(t, r, "OP CODE"); len(rows) != len(r.Programs) {
		t.Errorf("%d rows of %d programs", len(rows), len(r.Programs))
	}
	r.Graph = nil
	perfTable(t, r, "OP CODE")
	r.DeviceTimes()
}
