package tensix

import "fmt"

// Category says why something was refused, in the terms of the vendor's simulator (ttsim
// docs/sim_error_handling.md).
type Category uint8

// The categories of refusals.
const (
	// UndefinedBehavior is what the architecture leaves undefined.
	UndefinedBehavior Category = iota + 1
	// NonContractualBehavior works on hardware by accident.
	NonContractualBehavior
	// UnpredictableValueUsed depends on a value that nobody set.
	UnpredictableValueUsed
	// UntestedFunctionality exists but nobody has validated it.
	UntestedFunctionality
	// UnimplementedFunctionality exists on silicon and not here.
	UnimplementedFunctionality
	// UnsupportedFunctionality is left out on purpose.
	UnsupportedFunctionality
	// ConfigurationError is misuse by the host.
	ConfigurationError
	// MissingSpecification is what no document says enough about.
	MissingSpecification
)

var categories = [...]string{
	UndefinedBehavior: "UndefinedBehavior", NonContractualBehavior: "NonContractualBehavior",
	UnpredictableValueUsed: "UnpredictableValueUsed", UntestedFunctionality: "UntestedFunctionality",
	UnimplementedFunctionality: "UnimplementedFunctionality", UnsupportedFunctionality: "UnsupportedFunctionality",
	ConfigurationError: "ConfigurationError", MissingSpecification: "MissingSpecification",
}

// String returns the name of the category.
func (c Category) String() string {
	if c == 0 || int(c) >= len(categories) {
		return fmt.Sprintf("Category(%d)", uint8(c))
	}
	return categories[c]
}

// Refusal is why an engine stopped.
type Refusal struct {
	Category Category
	// Thread executed, or pushed, the instruction.
	Thread      int
	Instruction uint32
	// Detail says what was asked and what would have been accepted.
	Detail string
}

// Mnemonic returns the name of the instruction, or its opcode if it has none.
func (r *Refusal) Mnemonic() string {
	if s := mnemonic(r.Instruction); s != "" {
		return s
	}
	return fmt.Sprintf("opcode %#02x", r.Instruction>>24)
}

// Reason says which instruction was refused, and why.
func (r *Refusal) Reason() string {
	if r.Instruction == 0 {
		return r.Detail
	}
	return fmt.Sprintf("thread %d: %s %#08x: %s", r.Thread, r.Mnemonic(), r.Instruction, r.Detail)
}

// Error implements error.
func (r *Refusal) Error() string { return fmt.Sprintf("tensix: %v: %s", r.Category, r.Reason()) }
