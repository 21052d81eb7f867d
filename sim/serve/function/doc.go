// Package function runs a simulator's library in a process of its own, for the process that started
// it. The protocol is package serve's.
//
// A socket pair connects the processes; the server's end is descriptor FD. After the greeting
// everything goes through a serve.Memory: requests to the server, and calls for host memory to the
// client. Stores are posted: they keep their order, and every later load follows them. A reply
// comes after all earlier calls of the library, as a PCIe completion pushes posted writes.
//
// Simulated time advances only in the library's clock function, which the server calls between
// requests.
package function

import (
	"errors"

	"github.com/reprise-tt/reprise/sim/serve"
)

const (
	FD        = 3    // the socket in the server: the first descriptor after the standard three
	AnyDevice = 0xFF // the device of a Transfer while all were clocked: the library doesn't say which made it

	// DeviceShift separates the devices' address ranges (ttsim src/libttsim.cpp
	// PER_DEVICE_PADDR_STRIDE).
	DeviceShift = 36
)

// Requests in addition to serve's, whose Off is a library address.
const (
	opOpen        = serve.OpService + iota // payload: the library's path, Val: 1 for a manual clock; replied
	opConfigRead                           // Object: device, Off: offset; replied with Val
	opConfigWrite                          // Object: device, Off: offset, Val; replied, so that a fault is known at once
	opClock                                // advances Val clocks; replied
	opSync                                 // does nothing; replied
	opExit                                 // ends the simulation; not replied
)

// Calls are serve.OpRead, which has a reply, and serve.OpWrite, which has none. Object is the
// device, Off the bus address.

// Kinds of a reply to opOpen that isn't StatusOK.
const (
	openLoad = iota
	openSymbol
	openUnsupported
)

var (
	// ErrUnsupported: this operating system or processor can't load the library.
	ErrUnsupported = errors.New("the simulator's library can only be loaded on linux (amd64, arm64, riscv64)")
	// ErrLoad: the dynamic loader refuses the library.
	ErrLoad = errors.New("the dynamic loader refuses it")
	// ErrSymbol: the library lacks an entry point.
	ErrSymbol = errors.New("symbol not found")
	// ErrNotServer: no client started the process that called Serve.
	ErrNotServer = errors.New("this process was not started as a simulator server")
	// ErrGone: the server ended before it answered.
	ErrGone = errors.New("the simulator server is gone")
)
