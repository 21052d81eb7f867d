//go:build !race

package rig

// slowdown is 1 in a build without the race detector.
const slowdown = 1
