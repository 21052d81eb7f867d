//go:build long

package emu

// checkSeeds is how many seeds each check of the strict mode is tried with, for each of the delays.
const checkSeeds = 5

var delays = []int{0, 1, 60, 100, 500}
