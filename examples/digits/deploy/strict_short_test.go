//go:build !long

package deploy

// strictSeeds is the number of seeds that TestStrict runs on each architecture.
const strictSeeds = 2
