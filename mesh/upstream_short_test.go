//go:build !long

package mesh_test

// How often the tests that re-create upstream's replay: there 1000 and 50 times.
const (
	eltwiseReplays = 50
	sweepReplays   = 10
)
