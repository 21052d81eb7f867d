package graph

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

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
