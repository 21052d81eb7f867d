package graph

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
	"time"
)

// PerfFile, which continues before .csv, and DeviceLogFile are the files of a performance report as
// the vendor's tools find them. ttnn-visualizer lists their folder only with a HostLogFile, which
// may be empty.
const (
	PerfFile      = "ops_perf_results_"
	DeviceLogFile = "profile_log_device.csv"
	HostLogFile   = "tracy_profile_log_host.tracy"
)

// cell is a value of a row; nil is unknown.
type cell struct {
	column string
	value  any
}

// tensorColumns are the columns of each tensor, after a prefix such as INPUT_0_.
var tensorColumns = []string{"W_PAD[LOGICAL]", "Z_PAD[LOGICAL]", "Y_PAD[LOGICAL]", "X_PAD[LOGICAL]", "LAYOUT", "DATATYPE", "MEMORY"}

// perfKey is what the runs of a row have in common.
type perfKey struct {
	device          int64
	queue, function int
	trace           string
	replay          int
	code            string
}

// perfRow is an operation of a device.
type perfRow struct {
	perfKey
	runs    []*ProgramRun // in the order of their starts
	inputs  []int
	outputs []int
	args    []string
	window  string // of a convolution: height and width
}

// WritePerformance writes the report's times as tt-metal's profiler does (ops_perf_results_*.csv),
// for tt-perf-report and ttnn-visualizer: a row for each run of an operation on a device. Durations
// are from the end of earlier programs to the end of the operation's kernels. Columns of single
// processors are from zones with tt-metal's names of kernels (BRISC-KERNEL, NCRISC-KERNEL,
// TRISC-KERNEL), and empty without. Products have the fidelity of this module's kernels, HiFi4.
func (r *Report) WritePerformance(w io.Writer) error {
	rows := r.perfRows()
	ins := 2 // tt-perf-report's minimum
	for i := range rows {
		ins = max(ins, len(rows[i].inputs))
	}
	c := csvWriter{csv.NewWriter(w)}
	var record []string
	for _, one := range newPerfState(&Report{}).cells(&perfRow{runs: []*ProgramRun{{}}}, ins) {
		record = append(record, one.column)
	}
	c.row(record...)
	state := newPerfState(r)
	for i := range rows {
		record = record[:0]
		for _, one := range state.cells(&rows[i], ins) {
			text := ""
			if one.value != nil {
				text = fmt.Sprint(one.value)
			}
			record = append(record, text)
		}
		c.row(record...)
	}
	return c.end("performance")
}

var cellText = strings.NewReplacer(",", ";", "\n", " ", "\r", " ")

// csvWriter replaces characters in cells as tt-metal does, and keeps the first error.
type csvWriter struct{ *csv.Writer }

func (c csvWriter) row(record ...string) {
	for i := range record {
		record[i] = cellText.Replace(record[i])
	}
	_ = c.Write(record)
}

func (c csvWriter) end(what string) error {
	c.Flush()
	if err := c.Error(); err != nil {
		return fmt.Errorf("graph: write %s: %w", what, err)
	}
	return nil
}

// perfRows groups the programs of each call of a function, in the order of the host's calls.
func (r *Report) perfRows() []perfRow {
	g := cmp.Or(r.Graph, &Graph{})
	order := make([]*ProgramRun, len(r.Programs))
	for i := range r.Programs {
		order[i] = &r.Programs[i]
	}
	slices.SortStableFunc(order, func(a, b *ProgramRun) int {
		return cmp.Or(cmp.Compare(a.HostStart, b.HostStart), cmp.Compare(a.Device, b.Device), cmp.Compare(a.Queue, b.Queue),
			cmp.Compare(a.Start, b.Start))
	})
	calls := g.Calls()
	at := g.Innermost(calls)
	var rows []perfRow
	for _, p := range order {
		key := perfKey{p.Device, p.Queue, p.Function, p.Trace, p.Replay, r.opCode(p)}
		if n := len(rows); n > 0 && rows[n-1].perfKey == key {
			rows[n-1].runs = append(rows[n-1].runs, p)
			continue
		}
		row := perfRow{perfKey: key, runs: []*ProgramRun{p}}
		if f := g.At(p.Function); f != nil && f.Type == FunctionStart {
			row.args = f.Arguments
			// A device operation has the tensors and arguments of the functions around it.
			for i := at[p.Function]; i >= 0; i = calls[i].Parent {
				c := &g.Nodes[calls[i].Start]
				if len(row.inputs) == 0 && len(c.InputTensors) > 0 {
					row.args, row.inputs = c.Arguments, c.InputTensors
				}
				if c.Name() == "ttnn::conv2d" && len(c.Arguments) > 8 {
					row.window = c.Arguments[8]
				}
			}
			if end := g.At(calls[at[p.Function]].End); end != nil {
				row.outputs = g.tensors(end.Connections)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// opCode returns the name of a program's operation. The visualizer takes functions without :: for
// operations of devices, and looks for their names in the performance report.
func (r *Report) opCode(p *ProgramRun) string {
	if r.Graph != nil {
		if f := r.Graph.At(p.Function); f != nil && f.Name() != "" && !strings.Contains(f.Name(), "::") {
			return f.Name()
		}
	}
	return cmp.Or(p.Name, p.Trace, "program")
}

// perfState is the state from row to row.
type perfState struct {
	r      *Report
	calls  map[int]int
	traces map[string]int
	ends   map[[2]int64]uint64 // of the last program of a queue
	host   time.Duration       // when the last row began
	zones  []*Zone             // in the order of devices and starts
}

func newPerfState(r *Report) *perfState {
	return &perfState{r: r, calls: map[int]int{}, traces: map[string]int{}, ends: map[[2]int64]uint64{}, zones: r.sortedZones()}
}

// call returns the number of a function's first row; an unknown function gets a new one.
func (s *perfState) call(function int) int {
	n := s.calls[function]
	if n == 0 || function < 0 {
		n = len(s.calls) + 1
		s.calls[function] = n
	}
	return n
}

func (s *perfState) trace(name string) int {
	id, ok := s.traces[name]
	if !ok {
		id = len(s.traces)
		s.traces[name] = id
	}
	return id
}

// cells returns a row with columns for ins inputs. Source: tt-metal,
// tools/tracy/process_ops_logs.py, OPS_CSV_HEADER.
func (s *perfState) cells(row *perfRow, ins int) []cell {
	r, first, last := s.r, row.runs[0], row.runs[len(row.runs)-1]
	var cycles, gap uint64
	cores, kernels := 0, map[string]uint64{}
	for _, p := range row.runs {
		cycles += p.Cycles()
		cores = max(cores, p.Cores)
		if len(s.zones) > 0 {
			kernelCycles(kernels, zonesOf(s.zones, p))
		}
	}
	ns := func(cycles uint64) int64 { return r.timeOf(first.Device, cycles).Nanoseconds() }
	// The readers sort rows by this time, which all operations of a replay share.
	s.host = max(first.HostStart, s.host+1)
	host, hostEnd := s.host.Nanoseconds(), max(last.HostEnd, s.host).Nanoseconds()
	queue := [2]int64{first.Device, int64(first.Queue)}
	if before, ok := s.ends[queue]; ok && before < first.Start {
		gap = first.Start - before
	}
	s.ends[queue] = last.End
	var arch, available, usedCores, fidelity, trace, replay any
	if d := r.device(first.Device); d != nil {
		arch, available = cmp.Or(d.Arch, "wormhole_b0"), d.ComputeCores
		if cores == 0 && multiplies(row.code) {
			cores = int(d.ComputeCores)
		}
	}
	if cores > 0 {
		usedCores = cores
	}
	if first.Trace != "" {
		trace, replay = s.trace(first.Trace), first.Replay
	}
	operands := make([][]string, ins+1) // the last one is the output
	for i, t := range row.inputs {
		operands[i] = r.tensorCells(t, first.Device)
	}
	if len(row.outputs) > 0 {
		operands[ins] = r.tensorCells(row.outputs[0], first.Device)
	}
	if multiplies(row.code) {
		fidelity = "HiFi4"
		for _, i := range []int{0, 1, ins} {
			if operands[i] == nil { // tt-perf-report fails without these tensors
				memory := fmt.Sprintf("DEV_%d_L1_INTERLEAVED", first.Device)
				operands[i] = []string{"1[1]", "1[1]", "1[1]", "1[1]", "TILE", "BFLOAT16", memory}
			}
		}
	}
	out := []cell{
		{"OP CODE", row.code}, {"OP TYPE", "tt_dnn_device"}, {"GLOBAL CALL COUNT", s.call(first.Function)}, {"DEVICE ID", first.Device},
		{"DEVICE ARCH", arch}, {"ATTRIBUTES", attributes(row)}, {"MATH FIDELITY", fidelity}, {"CORE COUNT", usedCores},
		{"AVAILABLE WORKER CORE COUNT", available}, {"PARALLELIZATION STRATEGY", nil}, {"HOST START TS", host}, {"HOST END TS", hostEnd},
		{"HOST DURATION [ns]", hostEnd - host}, {"DEVICE FW START CYCLE", first.Start}, {"DEVICE FW END CYCLE", last.End},
		{"OP TO OP LATENCY [ns]", ns(gap)}, {"OP TO OP LATENCY BR/NRISC START [ns]", ns(gap)},
		// The readers divide by durations.
		{"DEVICE FW DURATION [ns]", max(ns(last.End-min(first.Start, last.End)), 1)}, {"DEVICE KERNEL DURATION [ns]", max(ns(cycles), 1)},
	}
	for _, p := range []string{"BRISC", "NCRISC", "TRISC0", "TRISC1", "TRISC2", "ERISC"} {
		one := cell{column: "DEVICE " + p + " KERNEL DURATION [ns]"}
		if n, ok := kernels[p]; ok {
			one.value = max(ns(n), 1)
		}
		out = append(out, one)
	}
	for i, values := range operands {
		prefix := fmt.Sprintf("INPUT_%d_", i)
		if i == ins {
			prefix = "OUTPUT_0_"
		}
		for k, name := range tensorColumns {
			one := cell{column: prefix + name}
			if values != nil {
				one.value = values[k]
			}
			out = append(out, one)
		}
	}
	return append(out, cell{"METAL TRACE ID", trace}, cell{"METAL TRACE REPLAY SESSION ID", replay}, cell{column: "PROGRAM HASH"},
		cell{column: "PROGRAM CACHE HIT"}, cell{column: "PM IDEAL [ns]"})
}

// multiplies reports whether tt-perf-report computes the operation's share of the peak.
func multiplies(code string) bool {
	return strings.Contains(code, "Matmul") || strings.Contains(code, "Conv2d") || strings.Contains(code, "OptimizedConvNew")
}

func attributes(row *perfRow) string {
	var list []string
	for i, a := range row.args {
		list = append(list, fmt.Sprintf("'arg_%d': '%s'", i, strings.ReplaceAll(a, "'", "")))
	}
	if strings.Contains(row.code, "Conv") {
		var h, w int
		if _, err := fmt.Sscanf(row.window, "[%d %d]", &h, &w); err != nil || h < 1 || w < 1 {
			h, w = 1, 1
		}
		list = append(list, fmt.Sprintf("'sliding_window_config': 'SlidingWindowConfig(window_hw=(%d;%d); )'", h, w))
	}
	return "{" + strings.Join(list, "; ") + "}"
}

// tensorCells returns the values of tensorColumns, or nil for a node that isn't a tensor.
func (r *Report) tensorCells(counter int, device int64) (out []string) {
	t := r.Graph.At(counter)
	if t == nil || t.Type != TensorNode {
		return nil
	}
	layout := afterColons(t.Params[ParamLayout])
	dims := [4]int64{1, 1, 1, 1}
	shape := ParseShape(t.Params[ParamShape])
	for i, n := range shape {
		dims[max(i+4-len(shape), 0)] *= max(int64(n), 1)
	}
	for i, n := range dims {
		padded := n
		if layout == "TILE" && i >= 2 && n <= math.MaxInt64-31 {
			padded = (n + 31) / 32 * 32
		}
		out = append(out, fmt.Sprintf("%d[%d]", padded, n))
	}
	memory := "INTERLEAVED"
	if _, text, ok := strings.Cut(t.Params[ParamMemoryConfig], "TensorMemoryLayout::"); ok {
		memory = text[:strings.IndexFunc(text+",", func(c rune) bool { return c != '_' && (c < 'A' || c > 'Z') })]
	}
	kind := afterColons(cmp.Or(t.Params[ParamBufferType], "DRAM"))
	return append(out, layout, afterColons(t.Params[ParamDType]), fmt.Sprintf("DEV_%d_%s_%s", device, kind, memory))
}

func afterColons(s string) string { return s[strings.LastIndex(s, ":")+1:] }

// zonesOf returns the zones within a run. sorted is in the order of devices and starts.
func zonesOf(sorted []*Zone, run *ProgramRun) (out []*Zone) {
	i, _ := slices.BinarySearchFunc(sorted, run, func(z *Zone, run *ProgramRun) int {
		return cmp.Or(cmp.Compare(z.Device, run.Device), cmp.Compare(z.Start, run.Start))
	})
	for ; i < len(sorted) && sorted[i].Device == run.Device && sorted[i].Start <= run.End; i++ {
		if z := sorted[i]; z.End <= run.End && (run.Name == "" || z.Program == "" || z.Program == run.Name) {
			out = append(out, z)
		}
	}
	return out
}

func (r *Report) sortedZones() []*Zone {
	out := make([]*Zone, len(r.Zones))
	for i := range r.Zones {
		out[i] = &r.Zones[i]
	}
	slices.SortStableFunc(out, func(a, b *Zone) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End))
	})
	return out
}

// kernelCycles adds to sums, by processor, the time of its kernels in a run: from the first start
// on any core to the last end, for zones with tt-metal's names.
func kernelCycles(sums map[string]uint64, zones []*Zone) {
	first, last := map[string]uint64{}, map[string]uint64{}
	for _, z := range zones {
		if z.Name != strings.TrimRight(z.Processor, "012")+"-KERNEL" {
			continue
		}
		if at, ok := first[z.Processor]; !ok || z.Start < at {
			first[z.Processor] = z.Start
		}
		last[z.Processor] = max(last[z.Processor], z.End)
	}
	for p, at := range first {
		sums[p] += last[p] - min(at, last[p])
	}
}

// deviceLogColumns is from tt-metal, tt_metal/impl/profiler (writeCSVHeader).
const deviceLogColumns = "PCIe slot, core_x, core_y, RISC processor type, timer_id, time[cycles since reset], data, run host ID, trace id, trace id counter, zone name, type, source line, source file, meta data"

// WriteDeviceLog writes the device log of a performance report. The vendor's tools read from it the
// first device's architecture, clock and number of cores, and the zones of kernels: a row for each
// start and each end, with the call count of the operation around it, or 0.
func (r *Report) WriteDeviceLog(w io.Writer) error {
	var d Device
	if len(r.Devices) > 0 {
		d = r.Devices[0]
	}
	_, err := fmt.Fprintf(w, "ARCH: %s, CHIP_FREQ[MHz]: %.0f, Max Compute Cores: %d\n%s\n", cmp.Or(d.Arch, "wormhole_b0"), r.ClockMHz(d.ID),
		d.ComputeCores, deviceLogColumns)
	if err != nil {
		return fmt.Errorf("graph: write device log: %w", err)
	}
	zones := r.sortedZones()
	if len(zones) == 0 {
		return nil
	}
	of, state := map[*Zone][3]string{}, newPerfState(r)
	for _, row := range r.perfRows() {
		first := row.runs[0]
		id := [3]string{num(state.call(first.Function))}
		if first.Trace != "" {
			id[1], id[2] = num(state.trace(first.Trace)), num(first.Replay)
		}
		for _, run := range row.runs {
			for _, z := range zonesOf(zones, run) {
				of[z] = id
			}
		}
	}
	type place struct {
		name, file string
		line       int
	}
	timers := map[place]int{}
	type mark struct {
		z     *Zone
		timer int
		at    uint64
		kind  string
	}
	marks := make([]mark, 0, 2*len(zones))
	for _, z := range zones {
		p := place{z.Name, z.File, z.Line}
		if timers[p] == 0 {
			timers[p] = len(timers) + 1
		}
		marks = append(marks, mark{z, timers[p], z.Start, "ZONE_START"}, mark{z, timers[p], max(z.Start, z.End), "ZONE_END"})
	}
	slices.SortStableFunc(marks, func(a, b mark) int { return cmp.Or(cmp.Compare(a.z.Device, b.z.Device), cmp.Compare(a.at, b.at)) })
	c := csvWriter{csv.NewWriter(w)}
	for _, m := range marks {
		z, id := m.z, of[m.z]
		processor := strings.ReplaceAll(z.Processor, "TRISC", "TRISC_") // as tt_metal/impl/profiler
		c.row(num(z.Device), num(z.X), num(z.Y), processor, num(m.timer), num(m.at), "0",
			cmp.Or(id[0], "0"), id[1], id[2], z.Name, m.kind, num(z.Line), path.Base(cmp.Or(z.File, "-")), "")
	}
	return c.end("device log")
}
