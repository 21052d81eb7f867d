// Package visualizer writes reports of package graph into the SQLite database of the vendor's
// visualizer of TT-NN reports.
//
// The tables are of schema version 3.5, as ttnn/ttnn/graph_report.py of ttnn 0.81.1 writes them and
// ttnn-visualizer 0.108.0 reads them. This importer keeps data that the vendor's loses: errors
// belong to the operation that failed, pages to each operation during which their buffer is
// allocated, and buffers are freed in reports whose deallocations have no address. Tensors have
// sizes, and lifetimes also in reports without call stacks.
package visualizer
