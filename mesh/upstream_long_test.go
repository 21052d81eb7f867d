//go:build long

package mesh_test

// How often upstream's tests replay.
const (
	eltwiseReplays = 1000
	sweepReplays   = 50
)
