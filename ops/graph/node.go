package graph

import (
	"strconv"
	"strings"
	"time"
)

// NodeType says what a node is about.
type NodeType string

// The types of nodes. The last three came with [EraD].
const (
	CaptureStart        NodeType = "capture_start"
	CaptureEnd          NodeType = "capture_end"
	FunctionStart       NodeType = "function_start"
	FunctionEnd         NodeType = "function_end"
	TensorNode          NodeType = "tensor"
	BufferNode          NodeType = "buffer"
	BufferAllocate      NodeType = "buffer_allocate"
	BufferDeallocate    NodeType = "buffer_deallocate"
	CircularAllocate    NodeType = "circular_buffer_allocate"
	CircularDeallocate  NodeType = "circular_buffer_deallocate_all"
	ErrorNode           NodeType = "error"
	DataflowAllocate    NodeType = "dataflow_buffer_allocate"
	ScratchpadAllocate  NodeType = "scratchpad_allocate"
	longestNodeTypeName          = 256
)

// The keys of parameters.
const (
	ParamName              = "name"
	ParamInputs            = "inputs" // number of arguments; a text in all eras
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
	ParamDeviceTensors     = "device_tensors" // JSON in a text
	ParamSize              = "size"           // bytes; of a circular buffer per core
	ParamType              = "type"           // DRAM or L1
	ParamPageSize          = "page_size"      // bytes
	ParamNumCores          = "num_cores"      // of a sharded buffer, 0 otherwise
	ParamMaxPerBank        = "max_size_per_bank"
	ParamCoreRangeSet      = "core_range_set"
	ParamGloballyAllocated = "globally_allocated"
	ParamErrorType         = "error_type"
	ParamErrorMessage      = "error_message"
	ParamErrorOperation    = "error_operation"
)

// Params are what a node says about its subject. Numbers are their decimal digits and JSON arrays their text, whichever form
// they have in the file.
type Params map[string]string

// Int returns a parameter as a number. It is 0 and false if the parameter isn't there or isn't a number.
func (p Params) Int(key string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(p[key]), 10, 64)
	return n, err == nil
}

// Size returns a parameter that counts bytes; what isn't there or is negative is 0.
func (p Params) Size(key string) int64 {
	n, _ := p.Int(key)
	return max(n, 0)
}

// Bool returns a parameter that is yes or no. Writers said true and false in [EraA], 1 and 0 later.
func (p Params) Bool(key string) bool {
	switch strings.ToLower(strings.TrimSpace(p[key])) {
	case "1", "true":
		return true
	}
	return false
}

// Node is one event, or one thing that events are about.
type Node struct {
	Counter int // its index in the graph
	Type    NodeType
	Params  Params
	// Connections are other nodes: of a function what begins in it and its end; of a function's end its outputs and what
	// comes next; of a tensor the functions that take it; of a buffer the tensors on it; of an allocation the buffer.
	Connections []int
	// Arguments are a function's arguments in words.
	Arguments []string
	// InputTensors are the nodes of the tensors among a function's arguments. It is nil if the graph doesn't tell ([EraA]).
	InputTensors []int
	// Level counts open functions around the node: 1 for a function that no other one called, 0 outside of any.
	Level int
	// Duration is set for the ends of functions and of the capture, if it was measured.
	Duration time.Duration
	// StackTrace is who called a function, innermost first, if that was asked for.
	StackTrace []string
}

// Name is the name of a function, of its start and its end.
func (n *Node) Name() string { return n.Params[ParamName] }

// inL1 says whether a buffer, or an event of one, is in L1. Small and large L1 are both.
func (n *Node) inL1() bool { return n.Params[ParamType] == "L1" }

// Graph is what happened, in the order of time.
type Graph struct {
	Era   Era
	Nodes []Node
}

// at returns a node, nil if there is none with that counter. Graphs from outside can name nodes that don't exist.
func (g *Graph) at(counter int) *Node {
	if counter < 0 || counter >= len(g.Nodes) {
		return nil
	}
	return &g.Nodes[counter]
}

// first returns the first node of a type that n is connected to, or nil.
func (g *Graph) first(n *Node, t NodeType) *Node {
	for _, c := range n.Connections {
		if m := g.at(c); m != nil && m.Type == t {
			return m
		}
	}
	return nil
}

// bufferOf returns the buffer that an allocation or a deallocation is about, or nil. Deallocations of some writers name the
// allocation, and that the buffer.
func (g *Graph) bufferOf(n *Node) *Node {
	if b := g.first(n, BufferNode); b != nil {
		return b
	}
	if a := g.first(n, BufferAllocate); a != nil {
		return g.first(a, BufferNode)
	}
	return nil
}
