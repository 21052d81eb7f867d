//go:build !long

package emu

// checkSeeds is how many seeds each check of the strict mode is tried with, for each of the delays.
const checkSeeds = 1

var delays = []int{0, 60}
