package graph

// Row is the L1 in use after one event.
type Row struct {
	Node  int    `json:"node"`
	Op    string `json:"current_op"` // the innermost function
	Event string `json:"event"`      // begin_op, end_op or the type of the node
	// Circular is the bytes of circular buffers, dataflow buffers and scratchpads on a core after
	// the event. As in TT-NN it includes circular buffers that lie in buffers, InBuffers, which
	// take no memory of their own.
	Circular  int64 `json:"total_cb"`
	InBuffers int64 `json:"cb_in_buffers"`
	Buffers   int64 `json:"total_buffer"`
}

// Table returns the L1 in use after each event that changes it, in bytes, counted as by [PeakL1],
// and at the starts and ends of functions.
func Table(g *Graph) []Row {
	t := tracker{g: g, alloc: g.allocations()}
	var out []Row
	var open []string
	for i := range g.Nodes {
		t.step(i)
		n := &g.Nodes[i]
		r := Row{Node: i, Event: string(n.Type), Circular: t.circular, InBuffers: t.inBuffer, Buffers: t.buffers}
		switch n.Type {
		case FunctionStart:
			open = append(open, n.Name())
			r.Event = "begin_op"
		case FunctionEnd:
			r.Event = "end_op"
		case BufferAllocate, BufferDeallocate, CircularAllocate, CircularDeallocate, DataflowAllocate, ScratchpadAllocate:
		default:
			continue
		}
		if len(open) > 0 {
			r.Op = open[len(open)-1]
		}
		if n.Type == FunctionEnd && len(open) > 0 {
			open = open[:len(open)-1]
		}
		out = append(out, r)
	}
	return out
}
