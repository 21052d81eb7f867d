package probe

// Markers are functions for uprobes. A call costs nothing more without a probe, and a trap with
// one, which is more than a replay. Probes find markers by name in the Go program's function table,
// and read the number from the first argument's register.

// The functions are nosplit: a function that grows its stack starts anew, and a probe would count
// it twice.

// MarkSubmitted marks the submission of the work with a number.
//
//go:noinline
//go:nosplit
func MarkSubmitted(number uint64) { keep(number) }

// MarkCompleted marks that the caller knows of the completion of the work with a number.
//
//go:noinline
//go:nosplit
func MarkCompleted(number uint64) { keep(number) }

// keep makes the markers differ from empty functions, which a compiler may drop.
//
//go:noinline
//go:nosplit
func keep(uint64) {}

// Names of the markers in the function table.
const (
	symbolSubmitted = "github.com/reprise-tt/reprise/internal/bench/probe.MarkSubmitted"
	symbolCompleted = "github.com/reprise-tt/reprise/internal/bench/probe.MarkCompleted"
)
