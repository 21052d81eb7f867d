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
	ids := map[int64]bool{}
	for i := range r.Graph.Nodes {
		if id, ok := r.Graph.Nodes[i].Params.Int(graph.ParamDeviceID); ok {
			ids[id] = true
		}
	}
	if len(ids) == 0 { // nodes of 2025 name none: their buffers are of device 0
		ids[0] = true
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		d.ID = id
		r.Devices = append(r.Devices, d)
	}
}
