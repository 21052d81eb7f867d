// Package link is what the two processes of a simulator share: the layout of their memory, the rings of requests and
// of DMA in it, and how they wait for each other. Package ttsim is one end and its package server the other.
package link

import "errors"

// ErrUnsupported means that this operating system or processor has no way to load the library: it needs Linux on
// amd64, arm64 or riscv64.
var ErrUnsupported = errors.New("the simulator's library can only be loaded on linux (amd64, arm64, riscv64)")

// FD is the descriptor of the shared memory in the server: the first after the standard three.
const FD = 3

// AnyDevice is the device of a DMA record that was sent while all devices were clocked: the library doesn't say which
// of them it comes from.
const AnyDevice = 0xFF

// Spins is how often a party looks before it sleeps: some microseconds.
const Spins = 2000

// DeviceShift separates the devices' address ranges (ttsim src/libttsim.cpp PER_DEVICE_PADDR_STRIDE).
const DeviceShift = 36

// DeviceOf returns the device that an address of the library belongs to.
func DeviceOf(addr uint64) uint8 { return uint8(addr >> DeviceShift) }
