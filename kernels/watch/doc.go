// Package watch reads what kernels report when a check of theirs fails: an assertion of
// reprise/assert.h or ASSERT. Checks are compiled in by kernels.Source.Watch. A processor whose
// check fails stops; waits for its program end with a [*Failure], and reports of hangs have all of
// them. docs/debugging.md shows both ends.
package watch
