//go:build long

package reprise_test

// strictFlowSeeds is how many seeds TestStrictControlFlow runs on each architecture; strictFlowAll makes it go on after one
// that fails.
const (
	strictFlowSeeds = 1000
	strictFlowAll   = true
)
