package graph

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

// free removes the allocations of a device's programs. The number of a mesh stands for all its
// chips.
func (s programSums) free(device int64) {
	if _, ok := s[device]; ok {
		delete(s, device)
	} else {
		clear(s)
	}
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
// never counted; unlike there, the sum stops at 0.
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
	programs, alloc := programSums{}, g.allocations()
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
			programs.free(n.device())
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
