//go:build long

package kernels_test

// strictSeeds is the number of seeds that TestStrict runs on each architecture.
const strictSeeds = 1000

// compileAll has tests compile their kernels for both architectures.
const compileAll = true
