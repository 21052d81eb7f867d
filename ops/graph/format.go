package graph

import "fmt"

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

func (f Format) sharesTensors() bool { return f <= Format2026v1 }

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
