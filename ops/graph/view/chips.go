package view

import (
	"cmp"
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
	apart := false
	for d := range programs {
		apart = apart || !buffers[d]
	}
	for d := range buffers {
		if apart && !programs[d] {
			mesh = append(mesh, d)
		}
	}
	slices.Sort(mesh)
	places := placesOf(m.r.MeshMapping)
	seen := map[int64]bool{}
	out := []chip{}
	add := func(id int64) {
		if seen[id] || slices.Contains(mesh, id) {
			return
		}
		seen[id] = true
		c := chip{ID: id, Devices: []int64{id}, Place: places[id]}
		if programs[id] && !buffers[id] {
			c.Devices = append(c.Devices, mesh...)
		}
		out = append(out, c)
	}
	for _, d := range m.Devices {
		add(d.ID)
	}
	for d := range programs {
		add(d)
	}
	for d := range buffers {
		add(d)
	}
	if len(out) == 0 {
		add(0)
	}
	slices.SortFunc(out, func(a, b chip) int { return cmp.Compare(a.ID, b.ID) })
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

func (b *buffer) ofProgram() bool { return b.Kind == "CB" || b.Kind == "DFB" || b.Kind == "scratchpad" }

func (m *modeler) use(c *chip) {
	change := make([]int64, len(m.g.Nodes)+1)
	for i := range m.Buffers {
		if b := &m.Buffers[i]; b.inDRAM() && slices.Contains(c.Devices, b.Device) {
			change[b.From] += b.Size
			change[b.To] -= b.Size
		}
	}
	events := map[int]graph.CoreUse{}
	graph.CoreUses(m.g, m.coreCount(), c.Devices, func(i int, now graph.CoreUse) { events[i] = now })
	var now, last [3]int64 // buffers in L1, all of L1, DRAM
	for i := range m.g.Nodes {
		now[2] += change[i]
		if u, ok := events[i]; ok {
			now[0], now[1] = u.L1, u.Total
		}
		if i == 0 || now != last {
			c.At, c.Buffers, c.L1, c.DRAM = append(c.At, i), append(c.Buffers, now[0]), append(c.L1, now[1]), append(c.DRAM, now[2])
		}
		last = now
	}
	if len(c.At) == 0 {
		c.At, c.Buffers, c.L1, c.DRAM = []int{0}, []int64{0}, []int64{0}, []int64{0}
	}
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
	after := make([]int64, len(m.g.Nodes))
	graph.CoreUses(m.g, m.coreCount(), nil, func(i int, now graph.CoreUse) { after[i] = now.Total + 1 })
	for i := range after { // unchanged nodes repeat the value before
		if after[i] == 0 {
			after[i] = 1
			if i > 0 {
				after[i] = after[i-1]
			}
		}
	}
	for i := range after {
		after[i]--
	}
	m.ofOperations(after)
}
