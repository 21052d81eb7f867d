package ops

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-tt/reprise/kernels/print"
	"github.com/reprise-tt/reprise/ops/graph"
)

// MeshCapture records operations on a mesh as a graph.
type MeshCapture struct{ chips []*Capture } // of each chip; chip 0's describes all

// BeginCapture starts to record operations on the mesh, as [Device.BeginCapture] does on a device.
// The graph is that of chip 0, with the buffers, circular buffers and addresses of tensors of all
// chips, but without operations of other chips alone.
func (m *Mesh) BeginCapture(cfg graph.Config) *MeshCapture {
	c := &MeshCapture{}
	var first *graph.Recorder
	for i, d := range m.chips {
		c.chips = append(c.chips, d.captures.start(cfg, &d.mu, first))
		if i == 0 {
			first = c.chips[0].rec
		} else {
			first.Device(d.captures.describe())
		}
	}
	first.Cluster(m.clusterDescriptor(), m.meshMapping())
	return c
}

// inFunctions assigns programs of another chip to the functions of the same programs on chip 0, in
// order of start, or to none.
func inFunctions(runs, first []graph.ProgramRun) []graph.ProgramRun {
	for i := range runs {
		run := &runs[i]
		run.Function = -1
		at := slices.IndexFunc(first, func(o graph.ProgramRun) bool {
			return o.Name == run.Name && o.Queue == run.Queue && o.Trace == run.Trace && o.Replay == run.Replay
		})
		if at >= 0 {
			run.Function, first = first[at].Function, first[at+1:]
		}
	}
	return runs
}

// End ends the capture and returns its report, with times in cycles of each chip's own clock.
func (c *MeshCapture) End() (*graph.Report, error) {
	var r *graph.Report
	var errs []error
	var others []*graph.Report
	for i, chip := range slices.Backward(c.chips) {
		var err error
		r, err = chip.End()
		errs = append(errs, err)
		if i > 0 && r != nil {
			others = append(others, r)
		}
	}
	if r != nil {
		first := r.Programs
		for _, o := range slices.Backward(others) {
			r.Programs = append(r.Programs, inFunctions(o.Programs, first)...)
			r.Zones = append(r.Zones, o.Zones...)
		}
	}
	return r, errors.Join(errs...)
}

// Record returns [Capture.Record] of a chip, as a handler for print.Listen on that chip. Chips
// count from 0, by rows; the handler of another number is nil.
func (c *MeshCapture) Record(chip int) print.Handler {
	if chip < 0 || chip >= len(c.chips) {
		return nil
	}
	return c.chips[chip].Record
}

// clusterDescriptor returns the chips of the mesh and the links between them as YAML, with the keys
// of tt-umd's cluster descriptor that the vendor's visualizer reads.
func (m *Mesh) clusterDescriptor() string {
	chips, number := m.m.Chips(), map[int]int{} // by index in the graph of the machine
	for i, c := range chips {
		number[m.m.InGraph(c)] = i
	}
	text := m.section("arch", func(i int) string { return fmt.Sprintf("%d: %s", i, archName(m.chips[i].dev.Arch())) }) +
		m.meshMapping() +
		m.section("chip_unique_ids", func(i int) string { return fmt.Sprintf("%d: %d", i, i+1) }) +
		m.section("chips_with_mmio", func(i int) string {
			if chips[i].Remote {
				return ""
			}
			return fmt.Sprintf("- %d: %d", i, i)
		})
	links := ""
	if g := m.m.Graph(); g != nil {
		for _, l := range g.Links {
			i, ok := number[l.A.Chip]
			k, too := number[l.B.Chip]
			if ok && too {
				links += fmt.Sprintf("\n  - [{chip: %d, chan: %d}, {chip: %d, chan: %d}]", i, l.A.Channel, k, l.B.Channel)
			}
		}
	}
	return text + "ethernet_connections:" + cmp.Or(links, " []") + "\n"
}

// section returns a key of YAML with a line for each chip, but for empty ones.
func (m *Mesh) section(name string, line func(i int) string) string {
	text := name + ":\n"
	for i := range m.chips {
		if s := line(i); s != "" {
			text += "  " + s + "\n"
		}
	}
	return text
}

func (m *Mesh) meshMapping() string {
	chips := m.m.Chips()
	return m.section("chips", func(i int) string { return fmt.Sprintf("%d: %s", i, place(chips[i].Coord)) })
}

// place returns a mesh coordinate as a YAML list: column, row, rack 0, shelf 0.
func place(coord []int) string {
	yx := append([]int{0, 0}, coord...)
	return fmt.Sprintf("[%d, %d, 0, 0]", yx[len(yx)-1], yx[len(yx)-2])
}
