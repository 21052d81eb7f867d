package visualizer

import _ "embed"

// SchemaVersion is the version of the tables, which is in report_metadata.
const SchemaVersion = "2.1"

// schema creates the tables that don't exist. tt-metal's tables don't have the size of tensors yet:
// with it the visualizer takes tensors as they are; without it, it repeats addresses for each
// operation and finds no size for tensors that are freed next (ttnn-visualizer, query_tensors in
// queries.py; its issue 1298).
//
//go:embed schema.sql
var schema string
