// Package visualizer writes the SQLite database that the vendor's visualizer of TT-NN reports
// opens, from reports of package graph.
//
// The tables are those of schema version 2.1, as ttnn/ttnn/graph_report.py of tt-metal writes them
// and backend/ttnn_visualizer of the visualizer reads them. Where that importer loses data this one
// keeps it: errors belong to the operation that failed, pages to each operation during which their
// buffer is allocated, and buffers are freed also in reports whose deallocations have no address.
// Tensors have their sizes, for which the visualizer's newest readers look.
package visualizer
