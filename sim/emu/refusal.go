package emu

import (
	"errors"
	"fmt"

	"github.com/reprise-tt/reprise/chip"
	"github.com/reprise-tt/reprise/sim/emu/tensix"
)

// Errors of New, Chip.Fault and the methods of Chip.
var (
	// ErrRefused is wrapped by every Refusal.
	ErrRefused = errors.New("emulator refused")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("emulated chip is closed")
	// ErrConfig is returned by New for a configuration that no chip has.
	ErrConfig = errors.New("impossible configuration")
)

// Category says why something was refused, in ttsim's terms (docs/sim_error_handling.md).
type Category = tensix.Category

// The categories of refusals, documented in package tensix.
const (
	UndefinedBehavior          = tensix.UndefinedBehavior
	NonContractualBehavior     = tensix.NonContractualBehavior
	UnpredictableValueUsed     = tensix.UnpredictableValueUsed
	UntestedFunctionality      = tensix.UntestedFunctionality
	UnimplementedFunctionality = tensix.UnimplementedFunctionality
	UnsupportedFunctionality   = tensix.UnsupportedFunctionality
	ConfigurationError         = tensix.ConfigurationError
	MissingSpecification       = tensix.MissingSpecification

	undefined      = UndefinedBehavior
	nonContractual = NonContractualBehavior
	unpredictable  = UnpredictableValueUsed
	untested       = UntestedFunctionality
	unimplemented  = UnimplementedFunctionality
	unsupported    = UnsupportedFunctionality
	misconfigured  = ConfigurationError
	unspecified    = MissingSpecification
)

// Refusal is why a chip stopped.
type Refusal struct {
	Category Category
	// Where names the refusing part of the chip, such as "noc".
	Where string
	// Tile is the raw NoC 0 coordinate of the tile that asked, unless Host is set.
	Tile chip.XY
	// Worker is the tile's logical coordinate, if IsWorker: a Tensix tile that isn't harvested.
	Worker   chip.Core
	IsWorker bool
	// Host is set if the host asked, through a BAR.
	Host bool
	// HasCore is set if processor Core asked, at program counter PC.
	HasCore bool
	Core    chip.Processor
	PC      uint32
	// Addr is the address in question: of a register or memory, or an offset in a BAR.
	Addr uint64
	// Detail says what was asked and what would have been accepted.
	Detail string
	// Check names what is refused to programs by an option only: "races", "counters", "unwritten",
	// "stalecode" or "stack"; empty if every chip refuses that.
	Check string
	// Other is the access that this one isn't ordered after; nil if there is none.
	Other *Access
}

// Access is the earlier one of two accesses.
type Access struct {
	Host  bool // else by processor Core of the tile at a raw NoC 0 coordinate
	Tile  chip.XY
	Core  chip.Processor
	PC    uint32 // that made it, or started the request that did; 0 if it isn't known
	Addr  uint64
	Wrote bool
}

// Finding is a refusal by a check, for Config.Findings. Its methods may be called until that
// function returns.
type Finding struct {
	Refusal
	ChipView
}

// ChipView is where something was found.
type ChipView interface {
	// Topology returns the chip's tiles; each chip has a pointer of its own.
	Topology() *chip.Chip
	// ReadCore reads as [Chip.ReadCore], and Registers as [Chip.Registers].
	ReadCore(xy chip.XY, p chip.Processor, addr uint32, b []byte) bool
	Registers(xy chip.XY, p chip.Processor) [32]uint32
}

func (r *Refusal) Error() string {
	who := "host"
	if !r.Host {
		who = "tile " + r.Tile.String()
		if r.IsWorker {
			who += " (core " + r.Worker.String() + ")"
		}
		if r.HasCore {
			who += fmt.Sprintf(" %v pc=%#x", r.Core, r.PC)
		}
	}
	return fmt.Sprintf("emu: %v: %s: %s: %s (address %#x)", r.Category, who, r.Where, r.Detail, r.Addr)
}

// Culprit returns the worker's processor that asked and its program counter, if one did.
func (r *Refusal) Culprit() (core chip.Core, p chip.Processor, pc uint32, ok bool) {
	return r.Worker, r.Core, r.PC, r.IsWorker && r.HasCore
}

func (r *Refusal) Unwrap() error { return ErrRefused }
