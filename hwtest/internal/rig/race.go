//go:build race

package rig

// slowdown is how many times slower the emulator may be than in an ordinary build: cases that wait
// for a hang give it that much longer to show progress.
const slowdown = 5
