// Package cq is the wire format of a command queue: it writes, reads, checks and prints the bytes
// of every prefetcher and dispatcher command.
//
// A command stream is a sequence of prefetcher commands, each at a multiple of the chip's PCIe
// alignment (Layout). Most are RELAY_INLINE, which carries one dispatcher command with its data to
// one of the two dispatchers. The others move data, call a buffer in DRAM or control the
// prefetcher.
//
// Builder appends a stream to a byte slice. Its methods return offsets, and the At constants count
// from there, so that a finished stream can be patched in place. Decode and All read a stream,
// Check tests it against the limits of the device's firmware, Print shows it.
//
// The formats are those of tt-metal at one revision (March 2026: prefetcher ids 1 to 14, dispatcher
// ids 1 to 17, WAIT flags 0x08 and 0x10 for streams, 16-bit prefetch queue entries). No stream
// names its revision. Revisions reads streams of other revisions, and Detect finds a stream's
// revision.
//
// This runtime's own firmware has further commands: Sequence and ForwardSubordinate, which Pack
// makes; ReadArg, for arguments that the device computes; and LoopBegin, LoopEnd, Branch and
// CallTrace, for control flow.
//
// The table in commands.go is the one description of all commands. Decoding, sizes, checks, texts,
// other revisions and the firmware's header cq_table.h follow from it.
//
// Decoding is strict: bytes that no field owns must be zero, and strides and derived lengths must
// be those of an encoder, so that a decoded command encodes to the same bytes. A command that
// breaks only this rule is delivered beside the error.
//
// The package imports the standard library only.
package cq

//go:generate go test -run ^TestFirmwareHeader$ . -update
