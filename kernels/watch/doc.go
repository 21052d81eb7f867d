// Package watch reads failed checks of kernels: assertions of reprise/assert.h or ASSERT, and
// checks that kernels.Source.Watch compiles in. The processor stops; waits for its program end with
// a [*Failure], and reports of hangs have all failures. docs/debugging.md shows both ends.
package watch
