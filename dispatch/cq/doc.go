// Package cq is the wire format of a command queue: the bytes of every
// prefetcher and dispatcher command, to write, read, check and print.
//
// A command stream is a sequence of prefetcher commands. Most of them are
// RELAY_INLINE, which carries one dispatcher command with its data to one of the
// two dispatchers; the others move data, call a buffer in DRAM or
// control the prefetcher itself. Every prefetcher command starts at a multiple
// of the PCIe alignment of the chip (Layout).
//
// Builder appends a stream to the bytes that its caller gives it. Its
// methods return the offset of what they wrote, and the At constants give the
// place of each field from that offset on, so that a finished stream can be
// patched in place. Decode and All read a stream, Check tests it against the
// limits of the device's firmware, Print and Dump show it.
//
// The formats are those of tt-metal at one revision (March 2026: prefetcher ids
// 1 to 14, dispatcher ids 1 to 17, WAIT flags 0x08 and 0x10 for streams, 16-bit
// prefetch queue entries). Revisions differ in ids, flags and field places, and
// nothing in a stream says which one it is: a command whose id exists only in
// newer revisions is reported as such (ErrNewer) and not guessed at. Revisions
// reads streams of other revisions, and Detect tells which one a stream is in.
//
// Three dispatcher commands are this runtime's own, for its own firmware: Sequence
// and ForwardSubordinate, which Pack makes from a stream that has none, and
// ReadArg, with which programs get arguments that the device computes. So are four
// prefetcher commands, with which traces have loops and conditions: LoopBegin,
// LoopEnd, Branch and CallTrace.
//
// Where the fields of each command are, how many bytes it has and what firmware
// takes is in the table of commands.go, once: decoding, sizes, checks, texts, other
// revisions and the firmware's header cq_table.h follow from it.
//
// Decoding is strict. Bytes that no field owns must be zero, strides and
// derived lengths must be what an encoder would have written; so a command that
// decodes without an error encodes to the same bytes again. (What lies between
// data slots belongs to the data and is kept.) A command that
// breaks only this rule is still delivered, beside the error.
//
// The package knows no devices: it imports the standard library only.
package cq

//go:generate go test -run ^TestFirmwareHeader$ . -update
