//go:build race

package bench

// raced says that the race detector is on, whose calls would be counted.
const raced = true
