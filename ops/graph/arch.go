package graph

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrArch is in errors about an architecture without standard devices.
var ErrArch = errors.New("unknown architecture")

// standard are devices as TT-NN describes them, by architecture: a Wormhole with 8 by 8 compute
// cores (test_graph_report.py), and a Blackhole p150b (captures under graph_l1_traces).
var standard = map[string]Device{
	"wormhole": {GridX: 8, GridY: 8, ComputeX: 8, ComputeY: 8, WorkerL1Size: 1499136, L1Banks: 64, L1BankSize: 1395424,
		FirstCircularBuffer: 103712,
		DRAMChannels:        12, DRAMSizePerChannel: 1 << 30, Arch: "wormhole_b0"},
	"blackhole": {GridX: 11, GridY: 10, ComputeX: 11, ComputeY: 10, WorkerL1Size: 1572864, L1Banks: 110, L1BankSize: 1461248,
		FirstCircularBuffer: 111616,
		DRAMChannels:        8, DRAMSizePerChannel: 0xFF000000, Arch: "blackhole"},
}

// CheckArch returns an error with [ErrArch] unless [Report.Describe] takes an architecture.
func CheckArch(arch string) error {
	if _, ok := standard[arch]; arch != "" && !ok {
		return fmt.Errorf("graph: %w %q: want one of %v", ErrArch, arch, slices.Sorted(maps.Keys(standard)))
	}
	return nil
}

// Describe adds the devices that the nodes name, of an architecture (wormhole, blackhole, or empty
// for none), to a report without devices, such as a list of nodes alone. Errors wrap [ErrArch].
func (r *Report) Describe(arch string) error {
	if err := CheckArch(arch); err != nil {
		return err
	}
	if arch == "" || len(r.Devices) > 0 {
		return nil
	}
	d := standard[arch]
	d.FirstL1Bank = d.FirstCircularBuffer
	d.Derive()
	ids, _ := r.Graph.DeviceIDs()
	if len(ids) == 0 { // nodes of 2025 name none: their buffers are of device 0
		ids = []int64{0}
	}
	for _, id := range ids {
		d.ID = id
		r.Devices = append(r.Devices, d)
	}
	return nil
}

// defaultCores is a Wormhole's number of cores, TT-NN's default as well.
const defaultCores = 64

// Cores returns how many cores interleaved buffers are spread over: those of the devices' grid, or
// 64 without devices.
func (r *Report) Cores() int {
	var most int64
	for _, d := range r.Devices {
		if d.GridX > 0 && d.GridY > 0 && d.GridX <= maxSide && d.GridY <= maxSide {
			most = max(most, d.GridX*d.GridY)
		}
	}
	return cmp.Or(int(most), defaultCores)
}

// maxSide limits the sides of a grid of cores; chips have smaller ones.
const maxSide = 64

// DeviceIDs returns the numbers of the devices that nodes name, in order. TT-NN's captures of what
// ran have buffers under the number of a mesh and programs under its chip's. So the only device
// with buffers alone and the only one with programs alone are taken as one, as in [PerCore]: second
// maps the first number to the other, and ids leaves the first out.
func (g *Graph) DeviceIDs() (ids []int64, second map[int64]int64) {
	all, programs, buffers := map[int64]bool{}, map[int64]bool{}, map[int64]bool{}
	for _, n := range g.All() {
		id, ok := n.Params.Int(ParamDeviceID)
		if !ok {
			continue
		}
		all[id] = true
		switch n.Type {
		case CircularAllocate, DataflowAllocate, ScratchpadAllocate:
			programs[id] = true
		case BufferAllocate:
			buffers[id] = true
		}
	}
	second = map[int64]int64{}
	if len(programs) == 1 && len(buffers) == 1 {
		chip, mesh := slices.Collect(maps.Keys(programs))[0], slices.Collect(maps.Keys(buffers))[0]
		if mesh != chip {
			second[mesh] = chip
			delete(all, mesh)
		}
	}
	return slices.Sorted(maps.Keys(all)), second
}
