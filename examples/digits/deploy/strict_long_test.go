//go:build long

package deploy

// strictSeeds is how many seeds TestStrict runs on each architecture.
const strictSeeds = 1000
