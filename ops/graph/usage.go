package graph

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CallTrace returns the names of all functions in the order in which they began.
func CallTrace(g *Graph) []string {
	var out []string
	for i := range g.Nodes {
		if n := &g.Nodes[i]; n.Type == FunctionStart {
			out = append(out, n.Name())
		}
	}
	return out
}

// tracker follows what is allocated while a graph is read from its start. All figures are in bytes.
type tracker struct {
	g        *Graph
	alloc    map[int]*Node // allocations of buffers
	open     int
	circular int64 // circular buffers, of each core
	buffers  int64 // L1 buffers, whole
}

// step takes in node i.
func (t *tracker) step(i int) {
	n := &t.g.Nodes[i]
	switch n.Type {
	case FunctionStart:
		if t.open == 0 {
			t.buffers += t.g.inputs(i, t.alloc)
		}
		t.open++
	case FunctionEnd:
		t.open = max(t.open-1, 0)
	case CircularAllocate:
		t.circular = plus(t.circular, n.Params.Size(ParamSize))
	case CircularDeallocate:
		t.circular = 0
	case BufferAllocate:
		if n.inL1() {
			t.buffers = plus(t.buffers, n.Params.Size(ParamSize))
		}
	case BufferDeallocate:
		if b := t.g.bufferOf(n); b != nil && b.inL1() {
			// A buffer from before the capture may never have been added. Upstream subtracts it too, below zero.
			t.buffers = max(t.buffers-b.Params.Size(ParamSize), 0)
		}
	}
}

// plus adds sizes; what doesn't fit stays at the largest number.
func plus(a, b int64) int64 {
	if s := a + b; s >= a {
		return s
	}
	return 1<<63 - 1
}

// inputs adds up the L1 buffers that stand directly behind a function's start: those of arguments that nobody has told of
// before. Anything but those and tensors ends the list. A buffer that is allocated inside of the graph counts when that
// happens, and not here; upstream counts it twice if the function allocates before anything else.
func (g *Graph) inputs(start int, alloc map[int]*Node) int64 {
	var sum int64
	for i := start + 1; i < len(g.Nodes); i++ {
		n := &g.Nodes[i]
		if n.Type == BufferNode && n.inL1() {
			if alloc[i] != nil {
				continue
			}
			sum = plus(sum, n.Params.Size(ParamSize))
		} else if n.Type != TensorNode {
			break
		}
	}
	return sum
}

// PeakL1 returns the most L1 that was in use at a time, in bytes: whole buffers, and circular buffers as one core has them.
// This mix is TT-NN's figure; [PerCore] counts both for a core. As there, a buffer that is freed counts less even if it never
// counted, because it is from before the capture and no argument; but not below 0.
func PeakL1(g *Graph) int64 {
	t := tracker{g: g, alloc: g.allocations()}
	var peak int64
	for i := range g.Nodes {
		t.step(i)
		peak = max(peak, plus(t.circular, t.buffers))
	}
	return peak
}

// PeakAllocated returns the most that buffers of all kinds of memory took at a time, in bytes. Only allocations inside the
// capture count.
func PeakAllocated(g *Graph) int64 {
	var peak int64
	l := living{g: g, size: map[int]int64{}}
	for i := range g.Nodes {
		switch n := &g.Nodes[i]; n.Type {
		case BufferAllocate:
			l.allocate(n)
			peak = max(peak, l.sum)
		case BufferDeallocate:
			l.free(n)
		}
	}
	return peak
}

// living adds up the buffers that were allocated inside the capture and live.
type living struct {
	g    *Graph
	size map[int]int64 // by the buffer's node
	sum  int64
}

func (l *living) allocate(n *Node) {
	s := n.Params.Size(ParamSize)
	l.sum = plus(l.sum, s)
	if b := l.g.first(n, BufferNode); b != nil {
		l.size[b.Counter] = plus(l.size[b.Counter], s)
	}
}

// free takes off what the buffer added: nothing if it is from before the capture.
func (l *living) free(n *Node) {
	if b := l.g.bufferOf(n); b != nil {
		l.sum = max(l.sum-l.size[b.Counter], 0) // below if the sum was too large to count
		delete(l.size, b.Counter)
	}
}

// DRAMUse is what buffers took of DRAM, in bytes.
type DRAMUse struct {
	Peak      int64 // most at a time, of those that were allocated inside the capture
	Allocated int64
	Freed     int64 // also of those from before the capture
}

// DRAMUsage adds up the DRAM buffers that were allocated and freed in a graph.
func DRAMUsage(g *Graph) DRAMUse {
	var u DRAMUse
	l := living{g: g, size: map[int]int64{}}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		switch n.Type {
		case BufferAllocate:
			if !n.inL1() {
				l.allocate(n)
				u.Allocated, u.Peak = plus(u.Allocated, n.Params.Size(ParamSize)), max(u.Peak, l.sum)
			}
		case BufferDeallocate:
			if b := g.bufferOf(n); b != nil && !b.inL1() {
				l.free(n)
				u.Freed = plus(u.Freed, b.Params.Size(ParamSize))
			}
		}
	}
	return u
}

// OutputTensors returns the nodes of the tensors that the function gave which ended last. The error wraps
// [ErrNoFunctions].
func OutputTensors(g *Graph) ([]int, error) {
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		if n := &g.Nodes[i]; n.Type == FunctionEnd {
			return g.tensorsOf(n), nil
		}
	}
	return nil, fmt.Errorf("graph: output tensors: %w", ErrNoFunctions)
}

// tensorsOf returns the tensors that a node is connected to, each once.
func (g *Graph) tensorsOf(n *Node) []int {
	out := []int{}
	seen := map[int]bool{}
	for _, c := range n.Connections {
		if t := g.at(c); t != nil && t.Type == TensorNode && !seen[c] {
			seen[c] = true
			out = append(out, c)
		}
	}
	return out
}

// CountTensors counts the tensors that functions called create_device_tensor made and that are no outputs, and the outputs
// of the function that ended last. Names with a namespace in front don't count, as upstream has it. The error wraps
// [ErrNoFunctions].
func CountTensors(g *Graph) (intermediate, output int, err error) {
	outputs, err := OutputTensors(g)
	if err != nil {
		return 0, 0, err
	}
	made := map[int]bool{}
	for i := range g.Nodes {
		if n := &g.Nodes[i]; n.Type == FunctionEnd && n.Name() == "create_device_tensor" && len(n.Connections) > 0 {
			if t := g.at(n.Connections[0]); t != nil {
				made[t.Counter] = true
			}
		}
	}
	for _, c := range outputs {
		delete(made, c)
	}
	return len(made), len(outputs), nil
}

// Output is an output tensor and its memory.
type Output struct {
	Tensor  int   // its node
	Shape   []int // nil if its text can't be read
	Size    int64 // bytes of its buffer
	Type    BufferType
	PerCore int64 // bytes of the core with most pages, 0 if pages are unknown
}

// Outputs returns the output tensors that have a buffer, in the order of the buffers. cores is how many cores the pages of
// an interleaved buffer are spread over. The error wraps [ErrNoFunctions].
func Outputs(g *Graph, cores int) ([]Output, error) {
	counters, err := OutputTensors(g)
	if err != nil {
		return nil, err
	}
	is := map[int]bool{}
	for _, c := range counters {
		is[c] = true
	}
	alloc := g.allocations()
	var out []Output
	for i := range g.Nodes {
		b := &g.Nodes[i]
		if b.Type != BufferNode {
			continue
		}
		for _, c := range g.tensorsOf(b) {
			if !is[c] {
				continue
			}
			o := Output{Tensor: c, Shape: ParseShape(g.Nodes[c].Params[ParamShape]), Size: b.Params.Size(ParamSize), Type: DRAM}
			if b.inL1() {
				o.Type = L1
			}
			if a := alloc[i]; a != nil {
				o.PerCore = perCore(a.Params, cores)
			}
			out = append(out, o)
		}
	}
	return out, nil
}

// allocations maps the nodes of buffers to their latest allocation.
func (g *Graph) allocations() map[int]*Node {
	m := map[int]*Node{}
	for i := range g.Nodes {
		if a := &g.Nodes[i]; a.Type == BufferAllocate {
			if b := g.first(a, BufferNode); b != nil {
				m[b.Counter] = a
			}
		}
	}
	return m
}

// ParseShape reads the text of a shape, in the form of any era. It is nil for anything else.
func ParseShape(s string) []int {
	_, s, ok := strings.Cut(s, "Shape([")
	if !ok {
		return nil
	}
	s, _, ok = strings.Cut(s, "]")
	if !ok {
		return nil
	}
	out := []int{}
	if strings.TrimSpace(s) == "" {
		return out
	}
	for f := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(f))
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// TotalDuration is how long the capture took, 0 if that wasn't measured.
func TotalDuration(g *Graph) time.Duration {
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		if n := &g.Nodes[i]; n.Type == CaptureEnd {
			return n.Duration
		}
	}
	return 0
}

// Durations returns how long functions took. Of several calls of one name the last one counts.
func Durations(g *Graph) map[string]time.Duration {
	m := map[string]time.Duration{}
	for i := range g.Nodes {
		if n := &g.Nodes[i]; n.Type == FunctionEnd && n.Duration > 0 {
			m[n.Name()] = n.Duration
		}
	}
	return m
}

// ArgumentsOf are the arguments of a call.
type ArgumentsOf struct {
	Name      string
	Arguments []string
}

// Arguments returns the arguments of all calls that tell them, in the order of the calls.
func Arguments(g *Graph) []ArgumentsOf {
	var out []ArgumentsOf
	for i := range g.Nodes {
		if n := &g.Nodes[i]; len(n.Arguments) > 0 {
			out = append(out, ArgumentsOf{n.Name(), slices.Clone(n.Arguments)})
		}
	}
	return out
}
