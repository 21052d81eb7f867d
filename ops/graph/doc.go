// Package graph records what ran on devices and what it allocated, and answers questions about it: which operations,
// inside of which others, on what tensors, with how much memory at the peak.
//
// A [Graph] is a list of nodes in the order of time, in the form that TT-NN's graph capture has. A [Recorder] makes one from
// events; [Decode] reads one that Reprise or TT-NN wrote, of any [Era]. [Report] is a graph with what belongs to it: the
// devices, the time, the pages of buffers. [Levelize] makes a graph of the data flow between operations.
//
// The package knows nothing of devices and nothing of how things run.
//
// Facts about nodes, files and figures come from TT-NN's document about graph tracing and from tt-metal's sources:
// ttnn/core/graph (graph_processor.cpp, levelized_graph.cpp, graph_trace_utils.cpp) and ttnn/ttnn/graph.py.
package graph
