//go:build long

package ops_test

// strictSeeds is the number of seeds that TestStrict runs on each architecture; strictAll makes it go on after a failure.
const (
	strictSeeds = 1000
	strictAll   = true
)
