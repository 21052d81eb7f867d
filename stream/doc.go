// Package stream carries messages between a running kernel and the host, through rings in pinned
// host memory. docs/streams.md shows both ends; kernels/include/reprise/stream.h is the kernel's.
package stream
