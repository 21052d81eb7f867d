//go:build !long

package sim_test

// strictSeeds is how many seeds TestStrict runs on each architecture; strictAll makes it go on after one that fails.
const (
	strictSeeds = 3
	strictAll   = false
)
