package graph

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// maxIndent bounds how far lines move to the right.
const maxIndent = 64

// Print writes the graph in words, one line an event, indented by the functions around it. Equal lines in a row become one
// that counts them. Buffers and tensors that were known before the capture have lines too, as arguments bring them in.
func (g *Graph) Print(w io.Writer) error {
	b := bufio.NewWriter(w)
	last, times := "", 0
	flush := func() {
		if times > 1 {
			fmt.Fprintf(b, "%s (x%d)\n", last, times)
		} else if times == 1 {
			fmt.Fprintln(b, last)
		}
		times = 0
	}
	open := 0
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Type == FunctionEnd {
			open = max(open-1, 0)
		}
		s := strings.Repeat("    ", min(open, maxIndent)) + n.line()
		if s != last {
			flush()
			last = s
		}
		times++
		if n.Type == FunctionStart {
			open++
		}
	}
	flush()
	return b.Flush()
}

// line is the node in words.
func (n *Node) line() string {
	switch n.Type {
	case CaptureStart:
		return "Capture Start"
	case CaptureEnd:
		return "Capture End"
	case FunctionStart:
		return "Begin: " + n.Name()
	case FunctionEnd:
		return "End: " + n.Name()
	case BufferNode:
		return "Add Device Buffer"
	case BufferAllocate:
		return "Allocate Device Buffer"
	case BufferDeallocate:
		return "Deallocate Device Buffer"
	case TensorNode:
		id := n.Params[ParamTensorID]
		if id == "" {
			id = n.Params[ParamShape]
		}
		return "Add Tensor: " + id
	case CircularAllocate:
		return "Allocate Circular Buffer"
	case CircularDeallocate:
		return "Deallocate All Circular Buffers"
	case ErrorNode:
		return fmt.Sprintf("Error: %s in %s: %s", n.Params[ParamErrorType], n.Params[ParamErrorOperation], n.Params[ParamErrorMessage])
	case DataflowAllocate:
		return "Allocate Dataflow Buffer"
	case ScratchpadAllocate:
		return "Allocate Scratchpad"
	}
	return string(n.Type)
}

// Row is a line of the table of memory over time.
type Row struct {
	Node     int    `json:"node"`
	Op       string `json:"current_op"` // the innermost function
	Event    string `json:"event"`      // begin_op, end_op or the type of the node
	Circular int64  `json:"total_cb"`   // bytes of circular buffers on a core, behind the event
	Buffers  int64  `json:"total_buffer"`
}

// Table returns how much L1 is in use behind each event that says something about that, in bytes and as [PeakL1] counts.
func Table(g *Graph) []Row {
	t := tracker{g: g, alloc: g.allocations()}
	var out []Row
	var open []string
	for i := range g.Nodes {
		t.step(i)
		n := &g.Nodes[i]
		r := Row{Node: i, Event: string(n.Type), Circular: t.circular, Buffers: t.buffers}
		switch n.Type {
		case FunctionStart:
			open = append(open, n.Name())
			r.Event = "begin_op"
		case FunctionEnd:
			r.Event = "end_op"
		case BufferAllocate, BufferDeallocate, CircularAllocate, CircularDeallocate:
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
