package visualizer

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/reprise-tt/reprise/ops/graph"
)

// ErrArch is in errors about an architecture that has no devices for reports.
var ErrArch = errors.New("unknown architecture")

// standard are devices as TT-NN describes them, by architecture: a Wormhole with 8 by 8 compute cores (test_graph_report.py), and
// a Blackhole p150b as in the captures under graph_l1_traces: 110 cores, 8 channels of DRAM, circular buffers from 111616 on.
var standard = map[string]graph.Device{
	"wormhole": {GridX: 8, GridY: 8, ComputeX: 8, ComputeY: 8, WorkerL1Size: 1499136, L1Banks: 64, L1BankSize: 1395424, FirstCircularBuffer: 103712,
		DRAMChannels: 12, Arch: "wormhole_b0"},
	"blackhole": {GridX: 11, GridY: 10, ComputeX: 11, ComputeY: 10, WorkerL1Size: 1572864, L1Banks: 110, L1BankSize: 1461248, FirstCircularBuffer: 111616,
		DRAMChannels: 8, Arch: "blackhole"},
}

// checkArch returns an error unless there are devices of an architecture.
func checkArch(name string) error {
	if _, ok := standard[name]; name != "" && !ok {
		return fmt.Errorf("%w %q: want %v", ErrArch, name, slices.Sorted(maps.Keys(standard)))
	}
	return nil
}

// describe adds the devices that a report names, as those of an architecture, if the report describes none.
func describe(r *graph.Report, arch string) {
	d, ok := standard[arch]
	if !ok || len(r.Devices) > 0 {
		return
	}
	d.FirstL1Bank = d.FirstCircularBuffer
	d.Derive()
	ids, _ := named(r.Graph)
	if len(ids) == 0 { // nodes of 2025 name none: their buffers are of device 0
		ids = []int64{0}
	}
	for _, id := range ids {
		d.ID = id
		r.Devices = append(r.Devices, d)
	}
}

// named returns the numbers of the devices that nodes name, in order, without those that are second numbers, and the first ones of
// these: TT-NN's captures of what ran have buffers under the number of a mesh and programs under that of its chip. Here as in
// [graph.PerCore] the only device with buffers alone and the only one with programs alone are one. A mesh of several chips stays
// a device of its own.
func named(g *graph.Graph) (ids []int64, second map[int64]int64) {
	all, programs, buffers := map[int64]bool{}, map[int64]bool{}, map[int64]bool{}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		id, ok := n.Params.Int(graph.ParamDeviceID)
		if !ok {
			continue
		}
		all[id] = true
		switch n.Type {
		case graph.CircularAllocate, graph.DataflowAllocate, graph.ScratchpadAllocate:
			programs[id] = true
		case graph.BufferAllocate:
			buffers[id] = true
		}
	}
	second = map[int64]int64{}
	if len(programs) == 1 && len(buffers) == 1 {
		for chip := range programs {
			for mesh := range buffers {
				if mesh != chip {
					second[mesh] = chip
					delete(all, mesh)
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(all)), second
}
