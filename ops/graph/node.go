package graph

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
)

// NodeType is the kind of a node.
type NodeType string

// The types of nodes. The last two came with [Format2026v3].
const (
	CaptureStart       NodeType = "capture_start"
	CaptureEnd         NodeType = "capture_end"
	FunctionStart      NodeType = "function_start"
	FunctionEnd        NodeType = "function_end"
	TensorNode         NodeType = "tensor"
	BufferNode         NodeType = "buffer"
	BufferAllocate     NodeType = "buffer_allocate"
	BufferDeallocate   NodeType = "buffer_deallocate"
	CircularAllocate   NodeType = "circular_buffer_allocate"
	CircularDeallocate NodeType = "circular_buffer_deallocate_all"
	ErrorNode          NodeType = "error"
	DataflowAllocate   NodeType = "dataflow_buffer_allocate"
	ScratchpadAllocate NodeType = "scratchpad_allocate"
)

const maxNodeType = 256

// The keys of parameters.
const (
	ParamName              = "name"
	ParamInputs            = "inputs" // number of arguments; a JSON string in every format
	ParamTensorID          = "tensor_id"
	ParamShape             = "shape"
	ParamDType             = "dtype"
	ParamLayout            = "layout" // of a tensor or of a buffer
	ParamMemoryConfig      = "memory_config"
	ParamDeviceID          = "device_id"
	ParamAddress           = "address"
	ParamBufferType        = "buffer_type"
	ParamBufferTypeValue   = "buffer_type_value"
	ParamExactBufferType   = "exact_buffer_type"
	ParamDeviceTensors     = "device_tensors" // JSON in a string
	ParamSize              = "size"           // bytes; of a circular buffer per core
	ParamType              = "type"           // DRAM or L1
	ParamPageSize          = "page_size"      // bytes
	ParamNumCores          = "num_cores"      // of a sharded buffer, 0 otherwise
	ParamMaxPerBank        = "max_size_per_bank"
	ParamCoreRangeSet      = "core_range_set"
	ParamGloballyAllocated = "globally_allocated"
	ParamBorrowsMemory     = "borrows_memory" // of a dataflow buffer that lies in a buffer
	ParamAborted           = "aborted"        // of the end of a function that failed
	ParamErrorType         = "error_type"
	ParamErrorMessage      = "error_message"
	ParamErrorOperation    = "error_operation"
)

// ControlPrefix begins the names of functions that are loops, branches, their bodies and calls of a
// captured trace, such as "control::loop of 5". The operations inside are recorded once.
const ControlPrefix = "control::"

// Params are the parameters of a node. Numbers are decimal digits and JSON arrays are text,
// whatever their form in the file.
type Params map[string]string

// Int returns a parameter as a number, or false if it is missing or not a number.
func (p Params) Int(key string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(p[key]), 10, 64)
	return n, err == nil
}

// Size returns a parameter in bytes; 0 if it is missing or negative.
func (p Params) Size(key string) int64 {
	n, _ := p.Int(key)
	return max(n, 0)
}

// Memory returns the kind of memory of a buffer or tensor, from any parameter with it.
func (p Params) Memory() (BufferType, bool) {
	for _, k := range []string{ParamBufferTypeValue, ParamExactBufferType, ParamBufferType, ParamType} {
		if t, ok := ParseBufferType(p[k]); ok {
			return t, true
		}
	}
	return DRAM, false
}

// Bool returns a boolean parameter: true or false in [Format2025], 1 or 0 later.
func (p Params) Bool(key string) bool {
	s := strings.ToLower(strings.TrimSpace(p[key]))
	return s == "1" || s == "true"
}

// Node is an event, or a tensor or buffer that events refer to.
type Node struct {
	Counter int
	Type    NodeType
	Params  Params
	// Connections are counters of other nodes. A function start is connected to the functions and
	// events inside and to its end; a function end to its outputs and to the next function; a
	// tensor to the functions that take it; a buffer to the tensors in it; an allocation or
	// deallocation to the buffer.
	Connections []int
	Arguments   []string
	// InputTensors are the nodes of the tensors among a function's arguments; nil in [Format2025].
	InputTensors []int
	// Level is the number of open functions around the node, a function start and end included.
	Level int
	// Duration is set on the ends of functions and of the capture, if it was measured.
	Duration time.Duration
	// StackTrace is the call stack of a function or a deallocation, innermost first, if it was
	// recorded. TT-NN records none of deallocations.
	StackTrace []string
}

// Name returns the function's name of a start or an end.
func (n *Node) Name() string { return n.Params[ParamName] }

func (n *Node) inL1() bool { return n.Params[ParamType] == "L1" }

func (n *Node) device() int64 {
	d, _ := n.Params.Int(ParamDeviceID)
	return d
}

// inBuffer reports whether a circular or dataflow buffer lies in another buffer and takes no memory
// of its own.
func (n *Node) inBuffer() bool {
	return n.Params.Bool(ParamGloballyAllocated) || n.Params.Bool(ParamBorrowsMemory)
}

// Graph is the nodes of a capture in the order of time.
type Graph struct {
	Format Format
	Nodes  []Node
}

// All returns the nodes of some types, or all nodes, by their counters.
func (g *Graph) All(types ...NodeType) iter.Seq2[int, *Node] {
	return func(yield func(int, *Node) bool) {
		for i := range g.Nodes {
			n := &g.Nodes[i]
			if (len(types) == 0 || slices.Contains(types, n.Type)) && !yield(i, n) {
				return
			}
		}
	}
}

// At returns a node, or nil: files can have counters of nodes that don't exist.
func (g *Graph) At(counter int) *Node {
	if counter < 0 || counter >= len(g.Nodes) {
		return nil
	}
	return &g.Nodes[counter]
}

// First returns the first connection of a node to one of a type, or nil.
func (g *Graph) First(n *Node, t NodeType) *Node {
	for _, c := range n.Connections {
		if m := g.At(c); m != nil && m.Type == t {
			return m
		}
	}
	return nil
}

// bufferOf returns the buffer of an allocation or a deallocation, or nil. Some writers connect a
// deallocation to the allocation, and this to the buffer.
func (g *Graph) bufferOf(n *Node) *Node {
	if b := g.First(n, BufferNode); b != nil {
		return b
	}
	if a := g.First(n, BufferAllocate); a != nil {
		return g.First(a, BufferNode)
	}
	return nil
}

// Format is a form of TT-NN's graphs, which changed several times while the version in report files
// stayed [Version]. Formats are named by the year of their appearance.
type Format uint8

const (
	// Format2025 is the form of 2024 and 2025: a node is counter, type, parameters and connections.
	// All parameters are strings. A tensor is one node however often it is used.
	Format2025 Format = 1 + iota
	// Format2026v1 (February 2026) adds levels, arguments, input tensors, durations, stack traces,
	// errors and devices.
	Format2026v1
	// Format2026v2 (spring of 2026) has numbers as JSON numbers, and a node for each use of a
	// tensor. It is the newest form with only known keys, and the default of a Recorder.
	Format2026v2
	// Format2026v3 (from April 2026 on) adds dataflow buffers, scratchpads, ranks and aborts. It is
	// read but not written.
	Format2026v3
)

func (f Format) String() string {
	switch {
	case f == Format2025:
		return "2025"
	case f > Format2025 && f <= Format2026v3:
		return fmt.Sprintf("2026v%d", f-Format2025)
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// hasNumber reports whether a parameter is a JSON number in the format (graph_processor.cpp,
// to_json).
func (f Format) hasNumber(key string) bool {
	switch key {
	case ParamSize, ParamAddress, ParamTensorID, ParamDeviceID, ParamBufferTypeValue, ParamPageSize, ParamNumCores, ParamMaxPerBank:
		return f >= Format2026v2
	case ParamBufferType, "physical_device_id", "sub_device_manager_id", "sub_device_id", "runtime_id", "global_call_count",
		"command_queue_id", "program_factory_index":
		return f >= Format2026v3
	}
	return false
}
