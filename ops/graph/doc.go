// Package graph records operations on devices and their allocations, and analyses the result: the
// tree of operations, their tensors, peaks of memory.
//
// A [Graph] is a list of nodes in the order of time, in the form of TT-NN's graph capture. A
// [Recorder] makes a Graph from events; [Decode] reads one that Reprise or TT-NN wrote, in any
// [Format]. [Report] is a graph with its devices, times and the pages of buffers. [Graph.Operands]
// is the data flow between operations.
//
// The package accesses no device: package ops calls a Recorder.
//
// Facts about nodes, files and figures come from TT-NN's document about graph tracing and from
// tt-metal's sources: ttnn/core/graph (graph_processor.cpp, graph_trace_utils.cpp) and
// ttnn/ttnn/graph.py.
package graph
