//go:build race

package rig

// slowdown is how much longer cases wait for progress.
const slowdown = 5
