// Package prefetch asks the processor to fetch memory for writing.
package prefetch

// Bytes are how many Write fetches.
const Bytes = 256
