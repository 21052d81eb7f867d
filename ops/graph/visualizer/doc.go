// Package visualizer writes reports of package graph into the SQLite database of the vendor's
// visualizer of TT-NN reports.
//
// The tables are of schema version 2.1, as ttnn/ttnn/graph_report.py of tt-metal writes them and
// backend/ttnn_visualizer of the visualizer reads them. This importer keeps data that the vendor's
// loses: errors belong to the operation that failed, pages to each operation during which their
// buffer is allocated, and buffers are freed in reports whose deallocations have no address.
// Tensors have sizes, for the visualizer's newest readers.
package visualizer
