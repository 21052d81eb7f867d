package probe

// Markers are functions for uprobes to find. Calling one costs a call and no more while no probe is
// attached; with one attached it costs a trap into the kernel and back, more than a replay does.
// They are found by name in the table of functions that every Go program has, and the number is
// read from the register of the first argument.

// The functions don't check the stack's end (nosplit): a function that does starts anew when the
// stack has grown, and a probe of its entry would count twice.

// MarkSubmitted marks the time when the caller has submitted the work to which it gives a number.
//
//go:noinline
//go:nosplit
func MarkSubmitted(number uint64) { keep(number) }

// MarkCompleted marks the time when the caller knows that the work with a number is complete.
//
//go:noinline
//go:nosplit
func MarkCompleted(number uint64) { keep(number) }

// keep makes the markers differ from empty functions, whose calls a compiler may leave out.
//
//go:noinline
//go:nosplit
func keep(uint64) {}

// Names of the markers in that table.
const (
	symbolSubmitted = "github.com/reprise-tt/reprise/internal/bench/probe.MarkSubmitted"
	symbolCompleted = "github.com/reprise-tt/reprise/internal/bench/probe.MarkCompleted"
)
