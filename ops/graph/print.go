package graph

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
)

const maxIndent = 64

// Print writes the graph as text, one line for each node, indented by the functions around it.
// Equal lines in a row become one with a count. Buffers and tensors from before the capture have
// lines at their first use as arguments.
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
	for _, n := range g.All() {
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

var lines = map[NodeType]string{
	CaptureStart: "Capture Start", CaptureEnd: "Capture End", BufferNode: "Add Device Buffer", BufferAllocate: "Allocate Device Buffer",
	BufferDeallocate: "Deallocate Device Buffer", CircularAllocate: "Allocate Circular Buffer",
	CircularDeallocate: "Deallocate All Circular Buffers", DataflowAllocate: "Allocate Dataflow Buffer",
	ScratchpadAllocate: "Allocate Scratchpad",
}

func (n *Node) line() string {
	switch n.Type {
	case FunctionStart:
		return "Begin: " + n.Name()
	case FunctionEnd:
		return "End: " + n.Name()
	case TensorNode:
		return "Add Tensor: " + cmp.Or(n.Params[ParamTensorID], n.Params[ParamShape])
	case ErrorNode:
		return fmt.Sprintf("Error: %s in %s: %s", n.Params[ParamErrorType], n.Params[ParamErrorOperation], n.Params[ParamErrorMessage])
	}
	return cmp.Or(lines[n.Type], string(n.Type))
}
