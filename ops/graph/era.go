package graph

import "fmt"

// Era is a form that graphs had. TT-NN changed it some times without a change of the version.
type Era uint8

const (
	// EraA is the form of 2024 and 2025: a node is counter, type, parameters and connections. All parameters are texts.
	// A tensor is one node however often it is used.
	EraA Era = 1 + iota
	// EraB adds levels, arguments, input tensors, durations, stack traces, errors and devices.
	EraB
	// EraC has numbers as JSON numbers, and a node for each use of a tensor. It is the newest form of which every key is
	// known, and what a Recorder writes if nothing else is asked for.
	EraC
	// EraD adds dataflow buffers, scratchpads, ranks and aborts. It is read; it is not written.
	EraD
)

// String returns the era's letter.
func (e Era) String() string {
	if e < EraA || e > EraD {
		return fmt.Sprintf("Era(%d)", uint8(e))
	}
	return string('A' + rune(e-EraA))
}

// sharesTensors says whether a tensor is one node however often it is used.
func (e Era) sharesTensors() bool { return e <= EraB }

// intKeys are the parameters that are JSON numbers from era C on (graph_processor.cpp, to_json).
func intKey(era Era, key string) bool {
	switch key {
	case ParamSize, ParamAddress, ParamTensorID, ParamDeviceID, ParamBufferTypeValue, ParamPageSize, ParamNumCores, ParamMaxPerBank:
		return era >= EraC
	case ParamBufferType, "physical_device_id", "sub_device_manager_id", "sub_device_id", "runtime_id", "global_call_count",
		"command_queue_id", "program_factory_index":
		return era >= EraD
	}
	return false
}
