package graph

import (
	"cmp"
	"maps"
	"slices"
)

// programSums are the circular buffers, dataflow buffers and scratchpads of programs on one core,
// by device: all bytes, and those in buffers.
type programSums map[int64][2]int64

func (s programSums) add(n *Node) {
	size := n.Params.Size(ParamSize)
	p := s[n.device()]
	p[0] = plus(p[0], size)
	if n.inBuffer() {
		p[1] = plus(p[1], size)
	}
	s[n.device()] = p
}

// free removes the allocations of a device's programs.
func (s programSums) free(device int64, named map[int64]bool) {
	maps.DeleteFunc(s, func(chip int64, _ [2]int64) bool { return chip == device || !named[chip] })
}

// named returns the devices whose programs end by their own number. Programs of other chips end by
// the number of their mesh, which can be that of one of the chips.
func (g *Graph) named() map[int64]bool {
	out := map[int64]bool{}
	for _, n := range g.All(CircularDeallocate) {
		out[n.device()] = true
	}
	return out
}

// most returns the sums of the device with most.
func (s programSums) most() (most [2]int64) {
	for _, p := range s {
		if p[0] > most[0] || p[0] == most[0] && p[1] > most[1] {
			most = p
		}
	}
	return most
}

func plus(a, b int64) int64 {
	if s := a + b; s >= a {
		return s
	}
	return 1<<63 - 1
}

// inputs sums up the L1 buffers of arguments that the graph names for the first time: those that,
// with tensors, directly follow a function's start. A buffer with an allocation in the graph counts
// there; upstream counts it twice if the function allocates before anything else.
func (g *Graph) inputs(start int, alloc map[int]*Node) int64 {
	var sum int64
	for i := start + 1; i < len(g.Nodes); i++ {
		n := &g.Nodes[i]
		if n.Type == BufferNode && n.inL1() {
			if alloc[i] == nil {
				sum = plus(sum, n.Params.Size(ParamSize))
			}
		} else if n.Type != TensorNode {
			break
		}
	}
	return sum
}

// PeakL1 returns the most L1 in use at a time, in bytes: buffers over all cores, and the circular
// buffers, dataflow buffers and scratchpads of one core. This mix is TT-NN's figure; [PerCore]
// counts all for one core. As in TT-NN, circular buffers that lie in a buffer count twice
// ([PeakL1InBuffers]), and freeing a buffer from before the capture subtracts its size even if it
// never counted; unlike there, the sum stops at 0, and of the chips of a mesh, whose circular
// buffers TT-NN adds up, the one with most counts.
func PeakL1(g *Graph) int64 { return peakL1(g).sum() }

// PeakL1InBuffers returns how many bytes of [PeakL1] are circular buffers in buffers, which take no
// memory of their own.
func PeakL1InBuffers(g *Graph) int64 { return peakL1(g).InBuffers }

// peakL1 returns the first row with the most L1 in use.
func peakL1(g *Graph) *Row {
	peak := &Row{}
	for _, r := range Table(g) {
		if r.sum() > peak.sum() {
			peak = &r
		}
	}
	return peak
}

func (r *Row) sum() int64 { return plus(r.Circular, r.Buffers) }

// PeakAllocated returns the most bytes of buffers in all kinds of memory that the capture
// allocated.
func PeakAllocated(g *Graph) int64 { return g.allocated(func(*Node) bool { return true }).Peak }

// DRAMUse is the DRAM that buffers took, in bytes.
type DRAMUse struct {
	Peak      int64 // most at a time, of buffers that were allocated inside the capture
	Allocated int64
	Freed     int64 // also of buffers from before the capture
}

// DRAMUsage sums up the DRAM buffers that were allocated and freed in a graph.
func DRAMUsage(g *Graph) DRAMUse { return g.allocated(func(n *Node) bool { return !n.inL1() }) }

func (g *Graph) allocated(counts func(*Node) bool) (u DRAMUse) {
	size, sum := map[int]int64{}, int64(0) // of buffers that the capture has allocated and not freed, by node
	for _, n := range g.All() {
		switch n.Type {
		case BufferAllocate:
			if !counts(n) {
				continue
			}
			s := n.Params.Size(ParamSize)
			if b := g.First(n, BufferNode); b != nil {
				size[b.Counter] = plus(size[b.Counter], s)
			}
			sum, u.Allocated = plus(sum, s), plus(u.Allocated, s)
			u.Peak = max(u.Peak, sum)
		case BufferDeallocate:
			if b := g.bufferOf(n); b != nil && counts(b) {
				sum = max(sum-size[b.Counter], 0) // it could be below 0 after the sum has saturated
				delete(size, b.Counter)
				u.Freed = plus(u.Freed, b.Params.Size(ParamSize))
			}
		}
	}
	return u
}

func (g *Graph) allocations() map[int]*Node {
	m := map[int]*Node{}
	for _, a := range g.All(BufferAllocate) {
		if b := g.First(a, BufferNode); b != nil {
			m[b.Counter] = a
		}
	}
	return m
}

// Row is the L1 in use after one event.
type Row struct {
	Node  int    `json:"node"`
	Op    string `json:"current_op"` // the innermost function
	Event string `json:"event"`      // begin_op, end_op or the type of the node
	// Circular is the bytes of circular buffers, dataflow buffers and scratchpads on a core. As in
	// TT-NN it includes circular buffers that lie in buffers, InBuffers, which take no memory of
	// their own.
	Circular  int64 `json:"total_cb"`
	InBuffers int64 `json:"cb_in_buffers"`
	Buffers   int64 `json:"total_buffer"`
}

// Table returns the L1 in use after each event that changes it, in bytes, counted as by [PeakL1],
// and at the starts and ends of functions.
func Table(g *Graph) []Row {
	programs, alloc, named := programSums{}, g.allocations(), g.named()
	var buffers int64 // in L1, over all cores
	var out []Row
	var open []string
	for i, n := range g.All() {
		event, closed := string(n.Type), 0
		switch n.Type {
		case FunctionStart:
			if len(open) == 0 {
				buffers += g.inputs(i, alloc)
			}
			open = append(open, n.Name())
			event = "begin_op"
		case FunctionEnd:
			event, closed = "end_op", min(len(open), 1)
		case CircularAllocate, ScratchpadAllocate:
			programs.add(n)
		case DataflowAllocate:
			if !n.inBuffer() {
				programs.add(n)
			}
		case CircularDeallocate:
			programs.free(n.device(), named)
		case BufferAllocate:
			if n.inL1() {
				buffers = plus(buffers, n.Params.Size(ParamSize))
			}
		case BufferDeallocate:
			if b := g.bufferOf(n); b != nil && b.inL1() {
				// A buffer from before the capture may never have been added. Upstream goes below zero.
				buffers = max(buffers-b.Params.Size(ParamSize), 0)
			}
		default:
			continue
		}
		used := programs.most()
		r := Row{Node: i, Event: event, Circular: used[0], InBuffers: used[1], Buffers: buffers}
		if len(open) > 0 {
			r.Op = open[len(open)-1]
		}
		open = open[:len(open)-closed]
		out = append(out, r)
	}
	return out
}

// CoreUse is the most L1 in use on one core, in bytes, at different times.
type CoreUse struct {
	Circular   int64 `json:"peak_cb_per_core"`
	Dataflow   int64 `json:"peak_dataflow_per_core"`
	Scratchpad int64 `json:"peak_scratchpad_per_core"`
	L1         int64 `json:"peak_l1_per_core"` // of buffers
	Total      int64 `json:"peak_total_per_core"`
}

// PerCore returns the peaks of L1 on one core of one device. Circular and dataflow buffers and
// scratchpads count on their cores, unless they lie in a buffer, which counts by itself. An L1
// buffer counts with the size of its fullest bank in the report, or else with its pages spread over
// the given number of cores, usually the grid.
func PerCore(g *Graph, cores int) CoreUse {
	var u CoreUse
	CoreUses(g, cores, nil, func(_ int, now CoreUse) { u = u.atLeast(now) })
	return u
}

// CoreUses calls f after each node that changes the L1 in use, counted as by [PerCore]. The core is
// on the device with most in use among the given ones; nil stands for all.
func CoreUses(g *Graph, cores int, devices []int64, f func(node int, now CoreUse)) {
	all := g.coreDevices()
	others := func(n *Node) bool { return devices != nil && !slices.Contains(devices, n.device()) }
	type allocated struct{ device, size int64 }
	live := map[int]allocated{} // per core, by node of the buffer
	for i, n := range g.All() {
		switch n.Type {
		case CircularAllocate, DataflowAllocate, ScratchpadAllocate:
			if others(n) {
				continue
			}
			all.programs[n.device()].add(n)
		case CircularDeallocate:
			all.free(n.device())
		case BufferAllocate:
			if b := g.First(n, BufferNode); b != nil && n.inL1() && !others(n) {
				s := SizeOnCore(n, cores)
				live[b.Counter] = allocated{n.device(), s}
				all.buffers[n.device()] = plus(all.buffers[n.device()], s)
			}
		case BufferDeallocate:
			if b := g.bufferOf(n); b != nil { // its size is 0 if it is from before the capture
				if a := live[b.Counter]; a.size > 0 {
					all.buffers[a.device] -= a.size
				}
				delete(live, b.Counter)
			}
		default:
			continue
		}
		f(i, all.now())
	}
}

func (u CoreUse) atLeast(o CoreUse) CoreUse {
	return CoreUse{max(u.Circular, o.Circular), max(u.Dataflow, o.Dataflow), max(u.Scratchpad, o.Scratchpad), max(u.L1, o.L1),
		max(u.Total, o.Total)}
}

// coreDevices sums up the L1 of one core of each device. Devices with programs alone and with
// buffers alone are taken as one, see [Graph.DeviceIDs].
type coreDevices struct {
	programs map[int64]*programUse
	buffers  map[int64]int64
	named    map[int64]bool
}

func (g *Graph) coreDevices() coreDevices {
	c := coreDevices{map[int64]*programUse{}, map[int64]int64{}, g.named()}
	for _, n := range g.All() {
		switch n.Type {
		case CircularAllocate, DataflowAllocate, ScratchpadAllocate:
			c.programs[n.device()] = &programUse{}
		case BufferAllocate:
			if n.inL1() {
				c.buffers[n.device()] = 0
			}
		}
	}
	return c
}

// free removes the allocations of a device's programs.
func (c *coreDevices) free(device int64) {
	for d := range c.programs {
		if d == device || !c.named[d] {
			c.programs[d] = &programUse{}
		}
	}
}

func (c *coreDevices) now() CoreUse {
	var u, programs CoreUse // programs of devices without buffers
	var buffers int64       // of devices without programs
	for d, p := range c.programs {
		one := CoreUse{p.circular.most, p.dataflow.most, p.scratchpad.most, 0, p.all.most}
		if b, ok := c.buffers[d]; ok {
			one.L1, one.Total = b, plus(one.Total, b)
			u = u.atLeast(one)
		} else {
			programs = programs.atLeast(one)
		}
	}
	for d, b := range c.buffers {
		if _, ok := c.programs[d]; !ok {
			buffers = max(buffers, b)
		}
	}
	programs.L1, programs.Total = buffers, plus(programs.Total, buffers)
	return u.atLeast(programs)
}

// programUse sums up a program's L1 on each core besides buffers.
type programUse struct{ circular, dataflow, scratchpad, all coreSums }

func (u *programUse) add(n *Node) {
	if n.inBuffer() {
		return
	}
	sums := &u.circular
	switch n.Type {
	case DataflowAllocate:
		sums = &u.dataflow
	case ScratchpadAllocate:
		sums = &u.scratchpad
	}
	for _, s := range []*coreSums{sums, &u.all} {
		s.add(n.Params[ParamCoreRangeSet], n.Params.Size(ParamSize))
	}
}

// CircularPeak returns the most bytes of circular buffers at a time, as if all lay on one core,
// without those in a buffer. This is TT-NN's figure up to [Format2026v2].
func CircularPeak(g *Graph) int64 {
	var now, peak int64
	for _, n := range g.All() {
		switch n.Type {
		case CircularAllocate:
			if !n.inBuffer() {
				now = plus(now, n.Params.Size(ParamSize))
				peak = max(peak, now)
			}
		case CircularDeallocate:
			now = 0
		}
	}
	return peak
}

// SizeOnCore returns the bytes of an allocation on the core with most of its pages, as [PerCore]
// counts them; all of it if the page size is unknown.
func SizeOnCore(allocation *Node, cores int) int64 {
	p := allocation.Params
	if bank := p.Size(ParamMaxPerBank); bank > 0 {
		return bank
	}
	size, page, n := p.Size(ParamSize), p.Size(ParamPageSize), cmp.Or(p.Size(ParamNumCores), int64(cores))
	if page <= 0 || n <= 0 {
		return size
	}
	per := ceil(ceil(size, page), n)
	if per > (1<<63-1)/page {
		return 1<<63 - 1
	}
	return per * page
}

func ceil(a, b int64) int64 { return a/b + min(a%b, 1) }

// coreSums sums up sizes by core, as rectangles: those in a file can be of any size.
type coreSums struct {
	rects map[string]*rectSum // by text
	most  int64
}

type rectSum struct {
	ranges []CoreRange
	size   int64
}

func (c *coreSums) add(text string, size int64) {
	r := c.rects[text]
	if r == nil {
		r = &rectSum{ranges: ParseCores(text)}
		put(&c.rects, text, r)
	}
	r.size = plus(r.size, size)
	if len(r.ranges) == 0 { // unknown cores: compare it alone
		c.most = max(c.most, r.size)
		return
	}
	// The core with the largest sum is at the left edge and at the top edge of rectangles.
	for _, a := range r.ranges {
		for x := range c.edges(a.X0, a.X1, func(r CoreRange) int { return r.X0 }) {
			for y := range c.edges(a.Y0, a.Y1, func(r CoreRange) int { return r.Y0 }) {
				c.most = max(c.most, c.at(x, y))
			}
		}
	}
}

func (c *coreSums) edges(lo, hi int, edge func(CoreRange) int) map[int]bool {
	m := map[int]bool{lo: true}
	for _, r := range c.rects {
		for _, a := range r.ranges {
			if e := edge(a); e > lo && e <= hi {
				m[e] = true
			}
		}
	}
	return m
}

func (c *coreSums) at(x, y int) int64 {
	var sum int64
	for _, r := range c.rects {
		if slices.ContainsFunc(r.ranges, func(a CoreRange) bool { return a.X0 <= x && x <= a.X1 && a.Y0 <= y && y <= a.Y1 }) {
			sum = plus(sum, r.size)
		}
	}
	return sum
}
