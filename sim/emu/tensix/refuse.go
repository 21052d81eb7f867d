package tensix

import "fmt"

// Category is the kind of a refusal, in ttsim's terms (ttsim docs/sim_error_handling.md).
type Category uint8

const (
	// UndefinedBehavior is what the architecture leaves undefined.
	UndefinedBehavior Category = iota + 1
	// NonContractualBehavior works by accident.
	NonContractualBehavior
	// UnpredictableValueUsed depends on a value that was never set.
	UnpredictableValueUsed
	// UntestedFunctionality exists but is not validated.
	UntestedFunctionality
	// UnimplementedFunctionality isn't emulated.
	UnimplementedFunctionality
	// UnsupportedFunctionality is left out on purpose.
	UnsupportedFunctionality
	// ConfigurationError is misuse by the host.
	ConfigurationError
	// MissingSpecification lacks sufficient documentation.
	MissingSpecification
)

var categories = [...]string{
	UndefinedBehavior: "UndefinedBehavior", NonContractualBehavior: "NonContractualBehavior",
	UnpredictableValueUsed: "UnpredictableValueUsed", UntestedFunctionality: "UntestedFunctionality",
	UnimplementedFunctionality: "UnimplementedFunctionality", UnsupportedFunctionality: "UnsupportedFunctionality",
	ConfigurationError: "ConfigurationError", MissingSpecification: "MissingSpecification",
}

// String returns the category's name.
func (c Category) String() string {
	if c == 0 || int(c) >= len(categories) {
		return fmt.Sprintf("Category(%d)", uint8(c))
	}
	return categories[c]
}

// Refusal is why an engine stopped.
type Refusal struct {
	Category Category
	// Thread executed or pushed it.
	Thread      int
	Instruction uint32
	// Detail is the request, and what is accepted.
	Detail string
	// Hazard is set for what [Engine.RefuseHazards] alone refuses.
	Hazard bool
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

func (r *Refusal) Error() string { return fmt.Sprintf("tensix: %v: %s", r.Category, r.Reason()) }
