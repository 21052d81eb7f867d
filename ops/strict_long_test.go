//go:build long

package ops_test

// strictSeeds is how many seeds TestStrict runs on each architecture; strictAll makes it go on after one that fails.
const (
	strictSeeds = 1000
	strictAll   = true
)
