package view

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-tt/reprise/ops/graph"
)

// chip is a chip and its bytes in use after each change.
type chip struct {
	ID      int64   `json:"id"`
	Devices []int64 `json:"devices"`         // numbers of its buffers' devices
	Place   string  `json:"place,omitempty"` // in the mesh
	At      []int   `json:"at"`              // events
	Buffers []int64 `json:"buffers"`         // in L1, on the fullest core
	L1      []int64 `json:"l1"`              // all of L1, on the fullest core, with programs
	DRAM    []int64 `json:"dram"`            // in all banks
}

// chips lists the chips. Usually buffers and programs have the numbers of chips. TT-NN gives a mesh
// and its buffers a number of their own: these are on all chips with programs.
func (m *modeler) chips() []chip {
	buffers, programs := map[int64]bool{}, map[int64]bool{}
	for i := range m.Buffers {
		if b := &m.Buffers[i]; b.ofProgram() {
			programs[b.Device] = true
		} else {
			buffers[b.Device] = true
		}
	}
	var mesh []int64 // devices with buffers alone, beside chips with programs alone
	if slices.ContainsFunc(slices.Collect(maps.Keys(programs)), func(d int64) bool { return !buffers[d] }) {
		for _, d := range slices.Sorted(maps.Keys(buffers)) {
			if !programs[d] {
				mesh = append(mesh, d)
			}
		}
	}
	ids := map[int64]bool{}
	for _, d := range m.Devices {
		ids[d.ID] = true
	}
	maps.Copy(ids, programs)
	maps.Copy(ids, buffers)
	maps.DeleteFunc(ids, func(d int64, _ bool) bool { return slices.Contains(mesh, d) })
	if len(ids) == 0 {
		ids[0] = true
	}
	places := placesOf(m.r.MeshMapping)
	var out []chip
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		c := chip{ID: id, Devices: []int64{id}, Place: places[id]}
		if programs[id] && !buffers[id] {
			c.Devices = append(c.Devices, mesh...)
		}
		out = append(out, c)
	}
	return out
}

// placesOf reads the chips' places in the mesh, such as "(1, 0)", from a report's YAML: lines of a
// number and a list that begins with two values.
func placesOf(mapping string) map[int64]string {
	out := map[int64]string{}
	for line := range strings.Lines(mapping) {
		id, place, ok := strings.Cut(strings.TrimSpace(line), ":")
		n, err := strconv.ParseInt(id, 10, 64)
		values := strings.Split(strings.Trim(strings.TrimSpace(place), "[]"), ",")
		if ok && err == nil && len(values) >= 2 {
			out[n] = "(" + strings.TrimSpace(values[0]) + ", " + strings.TrimSpace(values[1]) + ")"
		}
	}
	return out
}

// programKinds are the kinds of a program's memory, by the nodes that allocate it.
var programKinds = map[graph.NodeType]string{
	graph.CircularAllocate: "CB", graph.DataflowAllocate: "DFB", graph.ScratchpadAllocate: "scratchpad",
}

func (b *buffer) ofProgram() bool { return b.Kind == "CB" || b.Kind == "DFB" || b.Kind == "scratchpad" }

func (m *modeler) use(c *chip) {
	change := make([]int64, len(m.g.Nodes)+1)
	for i := range m.Buffers {
		if b := &m.Buffers[i]; b.inDRAM() && slices.Contains(c.Devices, b.Device) {
			change[b.From] += b.Size
			change[b.To] -= b.Size
		}
	}
	var now, last [3]int64 // buffers in L1, all of L1, DRAM
	for i, u := range m.coreUses(c.Devices) {
		now = [3]int64{u.L1, u.Total, now[2] + change[i]}
		if i == 0 || now != last {
			c.At, c.Buffers, c.L1, c.DRAM = append(c.At, i), append(c.Buffers, now[0]), append(c.L1, now[1]), append(c.DRAM, now[2])
		}
		last = now
	}
	if len(c.At) == 0 {
		c.At, c.Buffers, c.L1, c.DRAM = []int{0}, []int64{0}, []int64{0}, []int64{0}
	}
}

// coreUses returns the L1 in use after each node, as [graph.CoreUses] counts it.
func (m *modeler) coreUses(devices []int64) []graph.CoreUse {
	var out []graph.CoreUse
	var last graph.CoreUse
	until := func(node int) { out = append(out, slices.Repeat([]graph.CoreUse{last}, node-len(out))...) }
	graph.CoreUses(m.g, m.coreCount(), devices, func(i int, now graph.CoreUse) { until(i); last = now })
	until(len(m.g.Nodes))
	return out
}

func (m *modeler) coreCount() int { return max(m.Cores[0]*m.Cores[1], 1) }

func (m *modeler) memory() {
	programs := map[int64][]int{} // buffers of the running program by device
	for i, n := range m.g.All() {
		device, _ := n.Params.Int(graph.ParamDeviceID)
		switch n.Type {
		case graph.BufferAllocate:
			m.allocated(i)
		case graph.BufferDeallocate:
			if b := m.g.First(n, graph.BufferNode); b != nil {
				if k, ok := m.byNode[b.Counter]; ok && m.Buffers[k].To == len(m.g.Nodes) {
					m.Buffers[k].To = i
				}
			}
		case graph.CircularAllocate, graph.DataflowAllocate, graph.ScratchpadAllocate:
			m.ofProgram(i)
			programs[device] = append(programs[device], len(m.Buffers)-1)
		case graph.CircularDeallocate:
			of := programs[device]
			if len(of) == 0 { // a mesh has another number than its chips
				for _, p := range programs {
					of = append(of, p...)
				}
				clear(programs)
			}
			for _, k := range of {
				m.Buffers[k].To = i
			}
			delete(programs, device)
		}
	}
	m.Chips = m.chips()
	for i := range m.Chips {
		m.use(&m.Chips[i])
	}
	m.ofOperations(m.coreUses(nil))
}
